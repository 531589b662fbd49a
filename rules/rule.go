package rules

import (
	"fmt"
	"slices"

	"github.com/weirlimit/weir"
)

// Rule is one descriptor of a rules file, compiled. It is immutable.
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
	// File, Line and Column say where the rule is written.
	File         string
	Line, Column int
	// Limits apply to what the rule matches, unless a tier or an override says
	// otherwise. None means that the rule lets everything pass.
	Limits []*Limit
	// Tiers and Overrides hold the limits that take the place of Limits.
	Tiers, Overrides []Choice
	// TierBy is the key of the entry that names the tier.
	TierBy string
	// Shadow, Quota, DetailedMetric, ValueToMetric and ShareThreshold are the
	// flags of the original format; Metadata says that it has metadata.
	Shadow, Quota, DetailedMetric, ValueToMetric, ShareThreshold, Metadata bool

	tiers, overrides *choices
	allow, deny      *valueSet
	denial           *weir.Limit
	kids             level
	node             *node
}

// location says where the rule is written to a reader of file.
func (r *Rule) location(file string) string {
	if r.File != file {
		return fmt.Sprintf("%s:%d", r.File, r.Line)
	}
	return fmt.Sprintf("line %d", r.Line)
}

// Choice is a set of limits for some values.
type Choice struct {
	// Value is the name of a tier or the value of an override; it may hold *.
	Value  string
	Limits []*Limit
}

// choices finds the limits of the Choice for a value.
type choices = byText[[]*Limit]

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
	// Node: counted on each node alone.
	Node bool
	// OnChange is what becomes of the counts when the limit is changed: keep or
	// reset. Empty means keep.
	OnChange string

	// alias is the name by which others replace the limit.
	alias string
	at    *node
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
