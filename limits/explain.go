package limits

import (
	"slices"

	"github.com/weirlimit/weir"
)

// Explanation says which rules a request meets, and why it meets no other.
type Explanation struct {
	Domain string `json:"domain"`
	// Limits are the names of those of the configuration that the request meets. The rest
	// is about rules files.
	Limits []string `json:"limits,omitempty"`
	// Known: there are rules for the domain.
	Known bool `json:"domain_known"`
	// Listed names the entry that the domain's allow or deny list decides the
	// whole request by; then no descriptor is looked at.
	Listed *Listed `json:"listed,omitempty"`
	// Descriptors explains each descriptor of the request.
	Descriptors []Step `json:"descriptors"`
}

// Listed is an entry that a list of the domain holds.
type Listed struct {
	Entry weir.Entry `json:"entry"`
	// List is "allow" or "deny".
	List string `json:"list"`
}

// Step explains one descriptor.
type Step struct {
	Entries []weir.Entry `json:"entries"`
	// Levels says what was tried for each entry, until one matched nothing.
	Levels []Tried `json:"levels"`
	// Outcome is "limited", "unlimited", "allowed", "denied", "overridden" or
	// "no rule".
	Outcome string `json:"outcome"`
	// Why says the outcome in words.
	Why string `json:"reason"`
	// Rule is the path of the rule that decided, File and Line its place.
	Rule string `json:"rule,omitempty"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Limits are those that the descriptor meets.
	Limits []Met `json:"limits,omitempty"`
	// Replaced names limits of the rule that another one takes the place of.
	Replaced []string `json:"replaced,omitempty"`
}

// Tried says what was found for one entry.
type Tried struct {
	Entry weir.Entry `json:"entry"`
	// How the rule was found: "value", "wildcard", "key", or "none".
	How string `json:"match"`
	// Rule is the path of the rule; empty for none.
	Rule string `json:"rule,omitempty"`
	// Why says in words why none, or which was preferred.
	Why string `json:"reason"`
}

// Met is one limit that a request meets.
type Met struct {
	// Name of the limit; several lines of one limit have the same name.
	Name string `json:"name"`
	// Limit says what it allows.
	Limit string `json:"limit"`
	// Scope and Key name the counter.
	Scope string `json:"scope"`
	Key   string `json:"key"`
	// Cost is what the request costs, Headroom what must remain after it.
	Cost     int64 `json:"cost"`
	Headroom int64 `json:"headroom,omitempty"`
	// Role is "enforce", "soft", "shadow", "own", "pool", "always", "ban" or
	// "deny".
	Role string `json:"role"`
}

// Explain says which rules r meets and why. It changes neither r nor any count.
func (s *Set) Explain(r *weir.Request) *Explanation {
	t := &trace{x: &Explanation{Domain: r.Domain, Known: s.Has(r.Domain), Descriptors: []Step{}}}
	for i := range r.Descriptors {
		t.x.Descriptors = append(t.x.Descriptors, Step{Entries: slices.Clone(r.Descriptors[i].Entries), Levels: []Tried{}})
	}
	// A copy, so that the buffers of r stay as they are.
	r = &weir.Request{Domain: r.Domain, Descriptors: r.Descriptors, Cost: r.Cost, Verb: r.Verb,
		Priority: r.Priority, Lease: r.Lease}
	for _, l := range layersOf(s, r.Domain) {
		alone := domain{layers: []*Layer{l}}
		if len(l.Files) > 0 {
			alone.matchRequest(nil, r, t)
			continue
		}
		for _, op := range alone.matchRequest(nil, r, nil) {
			if !slices.Contains(t.x.Limits, op.Limit.Name) {
				t.x.Limits = append(t.x.Limits, op.Limit.Name)
			}
		}
	}
	t.explainNoRule()
	return t.x
}
