package envoy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v2"
)

// File is a file of rules.
type File struct {
	// Name begins the errors that the file causes.
	Name    string
	Content []byte
}

// MaxFileBytes is the largest file of rules that is read.
const MaxFileBytes = 64 << 20

// domainSpec, descriptorSpec and limitSpec are the rules as files and resources
// say them.
type domainSpec struct {
	Domain      string
	Descriptors []descriptorSpec
}

type descriptorSpec struct {
	Key, Value     string
	RateLimit      *limitSpec `yaml:"rate_limit"`
	Descriptors    []descriptorSpec
	ShadowMode     bool `yaml:"shadow_mode"`
	QuotaMode      bool `yaml:"quota_mode"`
	DetailedMetric bool `yaml:"detailed_metric"`
	ValueToMetric  bool `yaml:"value_to_metric"`
	ShareThreshold bool `yaml:"share_threshold"`
	Metadata       map[string]any
}

type limitSpec struct {
	RequestsPerUnit uint32 `yaml:"requests_per_unit"`
	Unit            string
	Unlimited       bool
	Name            string
	Replaces        []replaceSpec
}

type replaceSpec struct{ Name string }

// keys is what files may say. It is one list for all places.
var keys = map[string]bool{
	"domain": true, "descriptors": true, "key": true, "value": true, "rate_limit": true,
	"requests_per_unit": true, "unit": true, "unlimited": true, "name": true, "replaces": true,
	"shadow_mode": true, "quota_mode": true, "detailed_metric": true, "value_to_metric": true,
	"share_threshold": true, "metadata": true,
}

// parseFile reads a file: first for what keys it uses, then for what it says. The
// texts of errors, here and in compile.go, are those of envoyproxy/ratelimit,
// and those of its YAML library.
func parseFile(f File) (*domainSpec, error) {
	if len(f.Content) > MaxFileBytes {
		return nil, fmt.Errorf("%s: the file is larger than %d bytes", f.Name, MaxFileBytes)
	}
	var tree map[any]any
	err := yaml.Unmarshal(f.Content, &tree)
	if err == nil {
		if err := checkKeys(tree); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		spec := &domainSpec{}
		if err = yaml.Unmarshal(f.Content, spec); err == nil {
			return spec, nil
		}
	}
	return nil, fmt.Errorf("%s: error loading config file: %s", f.Name, typeNames.Replace(err.Error()))
}

// typeNames are those of envoyproxy/ratelimit, as errors of YAML tell them.
var typeNames = strings.NewReplacer(
	"into envoy.domainSpec", "into config.YamlRoot",
	"into envoy.descriptorSpec", "into config.YamlDescriptor", "into []envoy.descriptorSpec", "into []config.YamlDescriptor",
	"into envoy.limitSpec", "into config.YamlRateLimit",
	"into envoy.replaceSpec", "into config.yamlReplaces", "into []envoy.replaceSpec", "into []config.yamlReplaces",
)

// checkKeys looks for keys that mean nothing, and for values that cannot be.
func checkKeys(block map[any]any) error {
	for _, k := range sortedKeys(block) {
		name, ok := k.(string)
		switch {
		case !ok:
			return fmt.Errorf("config error, key is not of type string: %v", k)
		case !keys[name]:
			return fmt.Errorf("config error, unknown key '%s'", name)
		case name == "metadata":
			continue
		}
		switch v := block[k].(type) {
		case string, int, bool, nil:
		case map[any]any:
			if err := checkKeys(v); err != nil {
				return err
			}
		case []any:
			for _, item := range v {
				b, ok := item.(map[any]any)
				if !ok {
					return fmt.Errorf("config error, yaml file contains list of type other than map: %v", item)
				}
				if err := checkKeys(b); err != nil {
					return err
				}
			}
		default:
			return errors.New("error checking config")
		}
	}
	return nil
}

// sortedKeys returns the keys of a block in an order, so that of several errors it
// is always the same that is told.
func sortedKeys(block map[any]any) []any {
	return slices.SortedFunc(maps.Keys(block), func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}
