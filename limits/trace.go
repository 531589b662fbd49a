package limits

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/checks"
	"github.com/weirlimit/weir/internal/figures"
)

// trace records how a request is matched. A nil trace records nothing; it must
// not keep what it is given, or matching would allocate it.
type trace struct{ x *Explanation }

func (t *trace) recordListed(e weir.Entry, v verdict) {
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

func (t *trace) recordTried(at int, e *weir.Entry, lv *level, r *Rule, h how) {
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

func (t *trace) matched(at int, f *found, ops []weir.Op) {
	s := &t.x.Descriptors[at]
	if f.rule != nil {
		s.Rule, s.File, s.Line = f.rule.Path, f.rule.File, f.rule.Line
	}
	for i := range ops {
		o := &ops[i]
		s.Limits = append(s.Limits, Met{Name: o.Limit.Name, Limit: Summary(o.Limit) + describeConsistency(&o.Limit.Consistency), Scope: figures.Scope(o.Limit.Scope),
			Key: figures.Key(strings.Clone(o.Key)), Cost: o.Cost, Headroom: o.Headroom, Role: checks.Role(o.Role)})
	}
	switch f.verdict {
	case denied:
		s.Outcome, s.Why = "denied", "the value is on the rule's deny list"
	case allowed:
		s.Outcome, s.Why = "allowed", "the value is on the rule's allow list"
	case overridden:
		s.Outcome, s.Why = "overridden", "the request brings a limit of its own, which wins over every rule"
	case limited:
		s.Outcome, s.Why = "limited", t.explainChoice(at, f)
		if len(ops) == 0 {
			s.Outcome = "unlimited"
		}
	}
}

// explainChoice says which limits of the rule were chosen.
func (t *trace) explainChoice(at int, f *found) string {
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
	for _, s := range append([]Step{t.x.Descriptors[at]}, t.x.Descriptors...) {
		for _, e := range s.Entries {
			if e.Key == f.rule.TierBy {
				return fmt.Sprintf("%s: %s=%s is none of its tiers", why, e.Key, e.Value)
			}
		}
	}
	return fmt.Sprintf("%s: the request has no entry %s to name a tier", why, f.rule.TierBy)
}

// explainNoRule says why descriptors without a rule have none.
func (t *trace) explainNoRule() {
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
		case n == 0:
			s.Why = "no rules file has rules for the domain"
		case s.Levels[n-1].How == "none":
			s.Why = fmt.Sprintf("entry %d matches no rule", n)
		}
	}
}
