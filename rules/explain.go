package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
)

// Explanation says which rules a request meets, and why it meets no other.
type Explanation struct {
	Domain string `json:"domain"`
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
	s.match(nil, &weir.Request{Domain: r.Domain, Descriptors: r.Descriptors, Cost: r.Cost, Verb: r.Verb,
		Priority: r.Priority, Lease: r.Lease}, t)
	t.finish()
	return t.x
}

// Explain says which rules of the set in use r meets and why.
func (l *Live) Explain(r *weir.Request) *Explanation { return l.set.Load().Explain(r) }

// trace records how a request is matched. A nil trace records nothing; it must
// not keep what it is given, or matching would allocate it.
type trace struct{ x *Explanation }

func (t *trace) listed(e weir.Entry, v verdict) {
	if t == nil {
		return
	}
	name := "allow"
	if v == denied {
		name = "deny"
	}
	if v == denied || t.x.Listed == nil {
		t.x.Listed = &Listed{Entry: e, List: name}
	}
}

func (t *trace) tried(at int, e *weir.Entry, lv *level, r *Rule, h how) {
	if t == nil {
		return
	}
	tried := Tried{Entry: *e}
	switch h {
	case byValue:
		tried.How, tried.Why = "value", "the rule is for this very value"
	case byWildcard:
		tried.How, tried.Why = "wildcard", fmt.Sprintf("no rule for this very value; the first wildcard that fits is %q", r.Value)
		if !r.ShareThreshold {
			tried.Why += "; each " + e.Key + " that matches it has its own counter"
		}
	case byKey:
		tried.How, tried.Why = "key", "no rule for this value; the rule for the key takes every value"
	default:
		tried.How, tried.Why = "none", lv.whyNone(e)
	}
	if r != nil {
		tried.Rule = r.Path
	}
	t.x.Descriptors[at].Levels = append(t.x.Descriptors[at].Levels, tried)
}

// whyNone says why an entry matches no rule of the level.
func (lv *level) whyNone(e *weir.Entry) string {
	b := lv.keys[e.Key]
	if b != nil {
		return fmt.Sprintf("key %q has %d rules for other values and none for every value", e.Key, len(b.exact))
	}
	names := slices.Sorted(maps.Keys(lv.keys))
	if lv.words != nil { // the Envoy dialect
		names = slices.Sorted(maps.Keys(lv.words))
	}
	if len(names) == 0 {
		return "the rules end here: no descriptors beneath"
	}
	if len(names) > 8 {
		names = append(names[:8], fmt.Sprintf("and %d more", len(names)-8))
	}
	return fmt.Sprintf("no rule for key %q; there are rules for %s", e.Key, strings.Join(names, ", "))
}

func (t *trace) replaced(at int, name string) {
	if t != nil {
		t.x.Descriptors[at].Replaced = append(t.x.Descriptors[at].Replaced, name)
	}
}

func (t *trace) matched(f *found, ops []weir.Op) {
	if t == nil {
		return
	}
	s := &t.x.Descriptors[f.at]
	if f.rule != nil {
		s.Rule, s.File, s.Line = f.rule.Path, f.rule.File, f.rule.Line
	}
	for i := range ops {
		o := &ops[i]
		s.Limits = append(s.Limits, Met{Name: o.Limit.Name, Limit: Summary(o.Limit), Scope: o.Limit.Scope,
			Key: strings.Clone(o.Key), Cost: o.Cost, Headroom: o.Headroom, Role: roleNames[o.Role]})
	}
	switch f.verdict {
	case denied:
		s.Outcome, s.Why = "denied", "the value is on the rule's deny list"
	case allowed:
		s.Outcome, s.Why = "allowed", "the value is on the rule's allow list"
	case overridden:
		s.Outcome, s.Why = "overridden", "the request brings a limit of its own, which wins over every rule"
	case limited:
		s.Outcome, s.Why = "limited", t.why(f)
		if len(ops) == 0 {
			s.Outcome = "unlimited"
		}
	}
}

// why says which limits of the rule were chosen.
func (t *trace) why(f *found) string {
	if len(f.limits) > 0 && f.limits[0].For != "" {
		return "the limits of the rule for " + f.limits[0].For
	}
	why := "the limits of the rule"
	if len(f.limits) == 0 {
		why = "the rule has no limit for this"
	}
	if f.rule.TierBy == "" {
		return why
	}
	for _, s := range append([]Step{t.x.Descriptors[f.at]}, t.x.Descriptors...) {
		for _, e := range s.Entries {
			if e.Key == f.rule.TierBy {
				return fmt.Sprintf("%s: %s=%s is none of its tiers", why, e.Key, e.Value)
			}
		}
	}
	return fmt.Sprintf("%s: the request has no entry %s to name a tier", why, f.rule.TierBy)
}

// finish says why descriptors without a rule have none.
func (t *trace) finish() {
	for i := range t.x.Descriptors {
		s := &t.x.Descriptors[i]
		if s.Outcome != "" {
			continue
		}
		s.Outcome = "no rule"
		switch n := len(s.Levels); {
		case !t.x.Known:
			s.Why = "there are no rules for the domain"
		case t.x.Listed != nil:
			s.Why = "the " + t.x.Listed.List + " list of the domain decides the whole request"
		case len(s.Entries) == 0:
			s.Why = "the descriptor has no entries"
		case s.Levels[n-1].How == "none":
			s.Why = fmt.Sprintf("entry %d matches no rule", n)
		}
	}
}

// roleNames is indexed by weir.Role.
var roleNames = [...]string{
	weir.Enforce: "enforce", weir.Soft: "soft", weir.Shadow: "shadow", weir.Own: "own", weir.Pool: "pool",
	weir.Always: "always", weir.Ban: "ban", weir.Deny: "deny",
}
