package limits

import (
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/pattern"
)

// Rule is one descriptor, its limits, and the rules beneath it. A loader fills it;
// once [NewLayer] has it, it is immutable.
type Rule struct {
	// Domain that the rule belongs to.
	Domain string
	// Path is the rule's place in its domain: "auth_type=login/user_id". It is
	// unique in the domain.
	Path string
	// Key and Value are what the rule matches; Value may be empty or hold *.
	Key, Value string
	// Keys are those of the descriptors that the rule matches, outermost first;
	// Key is the last. It must not be changed.
	Keys []string
	// Parent is the rule that leads to this one, nil at the top of the domain.
	Parent *Rule
	// File, Line and Column say where the rule is written; no File for one of the
	// configuration.
	File         string
	Line, Column int
	// Limits apply to what the rule matches, unless a tier or an override says
	// otherwise. None means that the rule lets everything pass.
	Limits []*Limit
	// Tiers and Overrides hold the limits that take the place of Limits.
	Tiers, Overrides []Choice
	// TierBy is the key of the entry that names the tier.
	TierBy string
	// Allow are values of the entry that are not limited here, Deny those that are
	// always refused; Denial is what decisions name that Deny refuses, a limit of 0.
	Allow, Deny *Values
	Denial      *weir.Limit
	// CountsValue: the value is a part of the counter's key, though the rule is for it alone.
	CountsValue bool
	// Rules are those for the next entry of the descriptor, in their order.
	Rules []*Rule
	// Shadow, Quota, DetailedMetric, ValueToMetric and ShareThreshold are the
	// flags of the original format; Metadata says that it has metadata.
	Shadow, Quota, DetailedMetric, ValueToMetric, ShareThreshold, Metadata bool

	tiers, overrides *choices
	kids             level
}

// Choice is a set of limits for some values.
type Choice struct {
	// Value is the name of a tier or the value of an override; it may hold *.
	Value  string
	Limits []*Limit
}

// choices finds the limits of the Choice for a value.
type choices = pattern.Texts[[]*Limit]

// Limit is one limit of a rule. It is immutable.
type Limit struct {
	// Limit is what is counted. For a limit of 0 it is what decisions name as
	// their limit. Nil if Unlimited.
	*weir.Limit
	// Rule that the limit belongs to; nil for the limit of a pool.
	Rule *Rule
	// For says which value of a tier or override the limit is for:
	// "plan=pro". Empty means all others.
	For string
	// Unlimited lets everything pass.
	Unlimited bool
	// Denies refuses everything: a limit of 0.
	Denies bool
	// Replaces names limits that do not apply to a request that meets this one.
	Replaces []string
	// Cost is what a request costs. Zero means what it says itself.
	Cost int64
	// Priority is the best that a request has here, 0 the highest.
	Priority int
	// SharedKey is the key under which all values count together. Empty means that each
	// counts for itself.
	SharedKey string
	// Node: counted on each node alone.
	Node bool
	// OnChange is what becomes of the counts when the limit is changed: keep or
	// reset. Empty means keep.
	OnChange string
	// Alias is the name by which others replace the limit.
	Alias string
}

// RuleName returns what operators call the rule of the limit: its path, or for one of the
// configuration, which may be of several rules, the limit's own words.
func (l *Limit) RuleName() string {
	if l.Rule.File == "" {
		return l.Name
	}
	return l.Rule.Path
}

// All returns all limits of the rule: its own, and those of its tiers and
// overrides.
func (r *Rule) All() []*Limit {
	all := slices.Clone(r.Limits)
	for _, c := range slices.Concat(r.Tiers, r.Overrides) {
		all = append(all, c.Limits...)
	}
	return all
}
