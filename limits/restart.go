package limits

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirlimit/weir"
)

// maxRestart bounds the text of a restart, in bytes.
const maxRestart = 400

// A Restart is a limit that counts from zero since a reload, though its rule was
// there before and counted.
type Restart struct {
	rule string // domain/path, and for whom
	was  *weir.Limit
	now  *weir.Limit
	why  string
	keep string // what keeps the counts
}

// String returns the restart on one line.
func (r *Restart) String() string {
	s := fmt.Sprintf("%s: %s, was %s (%s", r.rule, Summary(r.now), Summary(r.was), r.why)
	if r.keep != "" {
		s += "; " + r.keep
	}
	return strings.ToValidUTF8(s[:min(len(s), maxRestart)], "") + ")"
}

// Restarts returns the limits of files that count from zero in s although their rule
// counted in old. why says so of a limit and the one before it.
func (s *Set) Restarts(old *Set, why func(l, old *weir.Limit) string) []Restart {
	type limitPath struct{ domain, path string }
	was := make(map[limitPath]*Rule, len(old.rules))
	for _, r := range old.FileRules() {
		was[limitPath{r.Domain, r.Path}] = r
	}
	var out []Restart
	for _, r := range s.FileRules() {
		before := was[limitPath{r.Domain, r.Path}]
		if before == nil {
			continue
		}
		f := why
		if !slices.Equal(r.sharedCounters(), before.sharedCounters()) {
			f = func(_, _ *weir.Limit) string { return "share_threshold says whether values share a counter" }
		}
		at := r.Domain + "/" + r.Path
		add := func(of string, limits, before []*Limit) {
			out = append(out, restarted(at+of, limits, before, f)...)
		}
		add("", r.Limits, before.Limits)
		for _, v := range valuesOf(r.Tiers, before.Tiers) {
			by := cmp.Or(r.TierBy, before.TierBy)
			tier := func(r *Rule) []*Limit {
				if r.TierBy != by {
					return r.Limits
				}
				return r.chosenLimits(r.tiers, v)
			}
			add(", "+by+" "+v, tier(r), tier(before))
		}
		for _, v := range valuesOf(r.Overrides, before.Overrides) {
			add(", for "+v, r.chosenLimits(r.overrides, v), before.chosenLimits(before.overrides, v))
		}
	}
	for _, l := range s.layers {
		for _, before := range layersOf(old, l.Name) {
			for _, pool := range slices.Sorted(maps.Keys(l.Pools)) {
				if b := before.Pools[pool]; b != nil {
					out = append(out, restarted(l.Name+", pool "+pool, []*Limit{l.Pools[pool]}, []*Limit{b}, why)...)
				}
			}
		}
	}
	return out
}

// valuesOf returns the values of two lists of choices, each once.
func valuesOf(lists ...[]Choice) []string {
	var out []string
	seen := map[string]bool{}
	for _, c := range slices.Concat(lists...) {
		if !seen[c.Value] {
			seen[c.Value] = true
			out = append(out, c.Value)
		}
	}
	return out
}

// chosenLimits returns the limits of a choice for a value, those of the rule if it has none.
func (r *Rule) chosenLimits(from *choices, value string) []*Limit {
	if from != nil {
		if ls, ok := from.FindText(value); ok {
			return ls
		}
	}
	return r.Limits
}

// sharedCounters returns for the rule and each above it whether the values that it matches
// share a counter.
func (r *Rule) sharedCounters() []bool {
	var out []bool
	for ; r != nil; r = r.Parent {
		out = append(out, r.ShareThreshold)
	}
	return out
}

// restarted returns those of limits that count from zero in the place of one of
// before that is lost. A limit that is added beside others takes nobody's place.
func restarted(at string, limits, before []*Limit, why func(l, old *weir.Limit) string) []Restart {
	lost := counting(before)
	var begun []*Limit
	for _, l := range counting(limits) {
		i := slices.IndexFunc(lost, func(b *Limit) bool { return why(l.Limit, b.Limit) == "" })
		if i < 0 {
			begun = append(begun, l)
			continue
		}
		lost = slices.Delete(lost, i, i+1)
	}
	var out []Restart
	take := func(of func(l, b *Limit) bool) {
		begun = slices.DeleteFunc(begun, func(l *Limit) bool {
			i := slices.IndexFunc(lost, func(b *Limit) bool { return of(l, b) })
			if i < 0 {
				return false
			}
			b := lost[i]
			lost = slices.Delete(lost, i, i+1)
			out = append(out, Restart{at, b.Limit, l.Limit, why(l.Limit, b.Limit), l.hintToKeep(b, why)})
			return true
		})
	}
	take(func(l, b *Limit) bool { return l.Name == b.Name })
	take(func(l, b *Limit) bool { return l.Period == b.Period })
	take(func(l, b *Limit) bool { return true })
	return out
}

// hintToKeep returns what to write so that l goes on from the count of b, if anything does.
func (l *Limit) hintToKeep(b *Limit, why func(l, old *weir.Limit) string) string {
	if l.Scope == b.Scope {
		return ""
	}
	same := l.Clone()
	same.Scope, same.Mode, same.Adjustment = b.Scope, weir.Mode{}, nil
	if same.Compile() != nil || why(same, b.Limit) != "" {
		return ""
	}
	if l.OnChange == "reset" {
		return "on_change: keep keeps what was spent"
	}
	_, listed, _ := strings.Cut(l.Scope, "#")
	_, name, _ := strings.Cut(b.Scope, "#")
	if listed == "" || name == "" || strings.Contains(name, "#") {
		return "" // a limit alone and one of a list have no name in common
	}
	return fmt.Sprintf("name: %q keeps what was spent", name)
}

// counting returns the limits that count anything.
func counting(limits []*Limit) []*Limit {
	return slices.DeleteFunc(slices.Clone(limits), func(l *Limit) bool { return l.Limit == nil || l.Denies })
}
