package envoy

import (
	"fmt"
	"strings"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// compiler makes a set of specs.
type compiler struct {
	set   *set
	merge bool
	ratio float32
}

// named is a spec and the file or resource that it is from.
type named struct {
	name string
	spec *domainSpec
}

// compile makes a set. With merge the descriptors of files for one domain are
// taken together, else a domain may be in one file only.
func compile(specs []named, merge bool, ratio float32) (*set, error) {
	c := &compiler{set: &set{domains: map[string]*domain{}}, merge: merge, ratio: ratio}
	for _, s := range specs {
		if err := c.compileDomain(s.spec); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return c.set, nil
}

// compileFiles parses all files before it looks at what any of them says.
func compileFiles(files []File, merge bool, ratio float32) (*set, error) {
	specs := make([]named, len(files))
	for i, f := range files {
		spec, err := parseFile(f)
		if err != nil {
			return nil, err
		}
		specs[i] = named{f.Name, spec}
	}
	return compile(specs, merge, ratio)
}

// CheckFiles returns the error that loading the files would.
func CheckFiles(files []File, merge bool) error {
	_, err := compileFiles(files, merge, defaultNearRatio)
	return err
}

func (c *compiler) compileDomain(spec *domainSpec) error {
	if spec.Domain == "" {
		return fmt.Errorf("config file cannot have empty domain")
	}
	d := c.set.domains[spec.Domain]
	if d == nil {
		d = &domain{name: spec.Domain}
		c.set.domains[spec.Domain] = d
		c.set.order = append(c.set.order, d)
	} else if !c.merge {
		return fmt.Errorf("duplicate domain '%s' in config file", spec.Domain)
	}
	return c.compileLevel(&d.root, spec.Domain+".", spec.Descriptors)
}

// compileLevel adds descriptors to a level. path is that of the level, with a dot
// behind it.
func (c *compiler) compileLevel(l *level, path string, specs []descriptorSpec) error {
	if l.nodes == nil && len(specs) > 0 {
		l.nodes = make(map[string]*node, len(specs))
	}
	for i := range specs {
		spec := &specs[i]
		if spec.Key == "" {
			return fmt.Errorf("descriptor has empty key")
		}
		n := &node{word: spec.Key, valueToMetric: spec.ValueToMetric, share: spec.ShareThreshold}
		if spec.Value != "" {
			n.word += "_" + spec.Value
		}
		if l.nodes[n.word] != nil {
			return fmt.Errorf("duplicate descriptor composite key '%s'", path+n.word)
		}
		var err error
		if n.rule, err = c.compileRule(spec, path+n.word); err != nil {
			return err
		}
		wild := strings.Contains(n.word, "*")
		if spec.ShareThreshold && !wild {
			return fmt.Errorf("share_threshold can only be used with wildcard values (containing '*'), but found key '%s'", n.word)
		}
		meta, err := metadata(spec.Metadata)
		if err != nil {
			return fmt.Errorf("error parsing metadata: %w", err)
		}
		if n.rule != nil {
			n.rule.metadata = meta
		}
		if err := c.compileLevel(&n.kids, path+n.word+".", spec.Descriptors); err != nil {
			return err
		}
		if wild {
			n.parts = strings.Split(n.word, "*")
			l.wild = append(l.wild, n)
		}
		l.nodes[n.word] = n
		l.order = append(l.order, n)
	}
	return nil
}

// compileRule makes the limit of a descriptor, nil if it has none.
func (c *compiler) compileRule(spec *descriptorSpec, key string) (*rule, error) {
	limit := spec.RateLimit
	if limit == nil {
		return nil, nil
	}
	unit := rlsv3.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(limit.Unit)]
	period := periodOf(unit)
	switch {
	case limit.Unlimited && period > 0:
		return nil, fmt.Errorf("should not specify rate limit unit when unlimited")
	case !limit.Unlimited && period == 0:
		return nil, fmt.Errorf("invalid rate limit unit '%s'", limit.Unit)
	}
	r := &rule{
		key: key,
		limit: &rlsv3.RateLimitResponse_RateLimit{
			Name: limit.Name, RequestsPerUnit: limit.RequestsPerUnit, Unit: rlsv3.RateLimitResponse_RateLimit_Unit(unit),
		},
		period:    period,
		near:      nearThreshold(limit.RequestsPerUnit, c.ratio),
		unlimited: limit.Unlimited, shadow: spec.ShadowMode, quota: spec.QuotaMode, detailed: spec.DetailedMetric,
	}
	for _, other := range limit.Replaces {
		switch other.Name {
		case "":
			return nil, fmt.Errorf("should not have an empty replaces entry")
		case limit.Name:
			return nil, fmt.Errorf("replaces should not contain name of same descriptor")
		}
		r.replaces = append(r.replaces, other.Name)
	}
	return r, nil
}

// metadata makes a protobuf of what the YAML says, nil of nothing.
func metadata(m map[string]any) (*structpb.Struct, error) {
	if len(m) == 0 {
		return nil, nil
	}
	fields := make(map[string]any, len(m))
	for k, v := range m {
		fields[k] = asJSON(v)
	}
	return structpb.NewStruct(fields)
}

// asJSON returns a value of YAML with text for the keys of its blocks.
func asJSON(v any) any {
	switch v := v.(type) {
	case map[any]any:
		m := make(map[string]any, len(v))
		for k, item := range v {
			m[fmt.Sprint(k)] = asJSON(item)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, item := range v {
			l[i] = asJSON(item)
		}
		return l
	}
	return v
}
