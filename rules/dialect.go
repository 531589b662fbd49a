package rules

import "fmt"

// Dialect says how a rules file is read.
type Dialect uint8

const (
	// Native is strict, and counts by sliding_window unless a rule says
	// otherwise.
	Native Dialect = iota
	// Envoy reads what envoyproxy/ratelimit reads, as it reads it: lenient
	// where it is lenient, with its error texts, its ambiguity of key and
	// value, and its fixed windows that also count what they refuse.
	Envoy
)

// String returns the word for the dialect in configuration.
func (d Dialect) String() string { return dialects[d].name }

// ParseDialect returns the dialect of that name, "native" or "envoy".
func ParseDialect(name string) (Dialect, error) {
	for d := range dialects {
		if dialects[d].name == name {
			return Dialect(d), nil
		}
	}
	return Native, fmt.Errorf("rules: unknown dialect %q: write native or envoy", name)
}

// fault names the faults that the dialects word differently.
type fault uint8

const (
	emptyDomain fault = iota
	duplicateDomain
	emptyKey
	duplicateDescriptor
	badUnit
	unitWhenUnlimited
	emptyReplaces
	replacesItself
	shareWithoutWildcard
	badMetadata
	unknownKey
	keyNotText
	notBlocks
	badScalar
	badYAML
	numFaults
)

// dialect is all that the dialects differ in.
type dialect struct {
	name string
	// algorithm decides limits that name none.
	algorithm string
	// penalize charges refused requests too where the file names neither an
	// algorithm nor penalize.
	penalize bool
	// concatenate: a level's key and value are one word, key_value, so that
	// (a, b_c) and (a_b, c) are the same; a * in either makes a wildcard.
	concatenate bool
	// flat: the keys of the original format are checked against one list
	// wherever they stand; one in the wrong place is ignored.
	flat bool
	// fold takes keys written in capitals, with a warning.
	fold bool
	// repeat: a key may be repeated, the last one wins.
	repeat bool
	// yaml11 reads yes, on, 010 and the like as YAML 1.1 does. Else they are
	// refused where a boolean or a number is meant.
	yaml11 bool
	// firstOnly ignores what is behind the first document of a file. Else a
	// second one is a fault.
	firstOnly bool
	texts     [numFaults]string
}

// dialects is the table; it is indexed by Dialect.
var dialects = [...]dialect{
	Native: {
		name: "native", algorithm: "sliding_window", fold: true,
		texts: [numFaults]string{
			emptyDomain:          "no domain",
			duplicateDomain:      "domain %q is already in %s",
			emptyKey:             "descriptor has no key",
			duplicateDescriptor:  "descriptor %q is already there in %s",
			badUnit:              "unknown unit %q",
			unitWhenUnlimited:    "an unlimited rule has no unit",
			emptyReplaces:        "replaces has an entry without a name",
			replacesItself:       "limit %q replaces itself",
			shareWithoutWildcard: "share_threshold shares a counter among the values of a wildcard, and %q has no *",
			badMetadata:          "bad metadata: %s",
			unknownKey:           "unknown key %q",
			keyNotText:           "key %s is not a word",
			notBlocks:            "%s in a list of blocks",
			badScalar:            "value %q does not belong here",
			badYAML:              "not YAML: %s",
		},
	},
	Envoy: {
		name: "envoy", algorithm: "fixed_window", penalize: true,
		concatenate: true, flat: true, repeat: true, yaml11: true,
		firstOnly: true,
		// Source: envoyproxy/ratelimit, src/config/config_impl.go at f2fb157.
		texts: [numFaults]string{
			emptyDomain:          "config file cannot have empty domain",
			duplicateDomain:      "duplicate domain '%s' in config file",
			emptyKey:             "descriptor has empty key",
			duplicateDescriptor:  "duplicate descriptor composite key '%s'",
			badUnit:              "invalid rate limit unit '%s'",
			unitWhenUnlimited:    "should not specify rate limit unit when unlimited",
			emptyReplaces:        "should not have an empty replaces entry",
			replacesItself:       "replaces should not contain name of same descriptor",
			shareWithoutWildcard: "share_threshold can only be used with wildcard values (containing '*'), but found key '%s'",
			badMetadata:          "error parsing metadata: %s",
			unknownKey:           "config error, unknown key '%s'",
			keyNotText:           "config error, key is not of type string: %s",
			notBlocks:            "config error, yaml file contains list of type other than map: %s",
			badScalar:            "error checking config",
			badYAML:              "error loading config file: %s",
		},
	},
}

// flatKeys is the one list against which envoyproxy/ratelimit checks keys.
var flatKeys = []string{
	"domain", "key", "value", "descriptors", "rate_limit", "unit", "requests_per_unit", "unlimited",
	"shadow_mode", "quota_mode", "name", "replaces", "detailed_metric", "metadata", "value_to_metric",
	"share_threshold",
}
