package limits

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirlimit/weir"
)

// Domain is the rules of one domain from one loader.
type Domain struct {
	// Name of the domain. Empty for a preset of all domains.
	Name string
	// Files that the rules are written in. None for limits of the configuration.
	Files []string
	// Unlisted: KeyLists leaves the rules out. Whoever loads them sees to it that requests
	// are asked about by their keys.
	Unlisted bool
	// Rules are those for the first entry of a descriptor, in their order.
	Rules []*Rule
	// Allow and Deny are by the key of the entry that holds the value.
	Allow map[string]*Values
	Deny  map[string]*DenyList
	// Pools are those that elastic limits share, by name.
	Pools map[string]*Limit
	// Preset is met beside all rules. A layer that has one has nothing else.
	Preset *Preset
}

// DenyList refuses values.
type DenyList struct {
	Values
	// Limit is what decisions name that the list refuses, a limit of 0.
	Limit *weir.Limit
}

// Layer is the rules of one domain from one loader, ready to be matched. It is immutable
// and safe for concurrent use; sets may share it.
type Layer struct {
	Domain
	root level
	// all are the rules with those beneath them, outermost first.
	all []*Rule
	// replaces: some limit replaces others.
	replaces bool
}

// NewLayer returns the layer of a domain, which nobody may change afterwards. The error
// names a rule that is there twice.
func NewLayer(d Domain) (*Layer, error) {
	l := &Layer{Domain: d}
	if err := l.indexRules(&l.root, d.Rules); err != nil {
		return nil, fmt.Errorf("limits: domain %q: %w", d.Name, err)
	}
	l.root.markSingles()
	return l, nil
}

// indexRules puts rules, and those beneath them, into their levels.
func (l *Layer) indexRules(lv *level, rules []*Rule) error {
	for _, r := range rules {
		if old := lv.addRule(r); old != nil {
			return fmt.Errorf("rule %q is there twice", r.Path)
		}
		l.all = append(l.all, r)
		r.tiers, r.overrides = choicesOf(r.Tiers), choicesOf(r.Overrides)
		l.replaces = l.replaces || slices.ContainsFunc(r.All(), func(l *Limit) bool { return len(l.Replaces) > 0 })
		if err := l.indexRules(&r.kids, r.Rules); err != nil {
			return err
		}
	}
	return nil
}

// choicesOf returns what finds a choice for a value, nil for none.
func choicesOf(list []Choice) *choices {
	if list == nil {
		return nil
	}
	found := &choices{}
	for _, c := range list {
		found.AddText(c.Value, c.Limits)
	}
	return found
}

// appendLimits appends every limit of the layer that can decide something.
func (l *Layer) appendLimits(all []*weir.Limit) []*weir.Limit {
	for _, r := range l.all {
		all = append(all, r.Denial)
		for _, l := range r.All() {
			if l.Limit != nil {
				all = append(all, l.Limit, l.Pool, l.Ban)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(l.Deny)) {
		all = append(all, l.Deny[key].Limit)
	}
	return all
}
