package rules

import (
	"maps"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/pattern"
	"github.com/weirlimit/weir/limits"
)

// levelLinter warns of rules of one level that no entry can reach.
type levelLinter struct {
	*linter
	path string
	// wild are the patterns so far, bare the rules for every value, by the key.
	wild map[string]*pattern.Table[*limits.Rule]
	bare map[string]*node
}

// newLevelLinter returns the linter of a level.
func (l *linter) newLevelLinter(path string) *levelLinter {
	return &levelLinter{l, path, map[string]*pattern.Table[*limits.Rule]{}, map[string]*node{}}
}

// checkReached warns if the rule can never be chosen. A pattern that fits the text of another
// one, stars and all, fits whatever the other one fits.
func (l *levelLinter) checkReached(r *limits.Rule, spec *descriptorSpec) {
	switch {
	case r.Value == "":
		l.bare[r.Key] = spec.Node
	case pattern.Is(r.Value):
		if l.wild[r.Key] == nil {
			l.wild[r.Key] = &pattern.Table[*limits.Rule]{}
		}
		if first, ok := l.wild[r.Key].FindFirst(r.Value); ok {
			l.addWarning(spec.Node.valueOrSelf("value"), joinPath(l.path, pathStep(r.Key, r.Value)), "put the narrower one first", "never reached: %s has %q, which takes all of it", location(first, l.file), first.Value)
		}
		l.wild[r.Key].AddPattern(r.Value, r)
	}
}

// checkHidden warns of rules for a key alone that a wildcard for everything hides, each once.
func (l *levelLinter) checkHidden() {
	// Only stars fit this.
	const anything = "\x00"
	for key, at := range l.bare {
		if l.wild[key] == nil {
			continue
		}
		if first, ok := l.wild[key].FindFirst(anything); ok {
			delete(l.bare, key)
			l.addWarning(at, joinPath(l.path, key), "leave one of them out", "never reached: the value %q takes everything", first.Value)
		}
	}
}

// checkIdleSettings warns of settings beside key that no limit can take.
func (l *linter) checkIdleSettings(spec *descriptorSpec, path string) {
	if spec.RateLimit != nil || spec.Limit != nil || spec.Limits != nil || spec.Tiers != nil || spec.Overrides != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(settingNames)) {
		if n := spec.Node.valueOf(name); n != nil {
			l.addWarning(n, path, "give it with a limit; rules beneath do not take it over", "%s has no limit to apply to", name)
		}
	}
}

// checkChoice warns if the pattern of a tier or an override can never be chosen, and adds it.
func (l *linter) checkChoice(patterns *pattern.Table[struct{}], text string, n *node, path string) {
	if !pattern.Is(text) {
		return
	}
	if _, ok := patterns.FindFirst(text); ok {
		l.addWarning(n, path, "put the narrower one first", "never reached: a pattern above it takes all of %q", text)
	}
	patterns.AddPattern(text, struct{}{})
}

// checkTiers warns of a rule that limits only those who name a tier.
func (l *linter) checkTiers(t *tiersSpec, rule *limits.Rule, patterns *pattern.Table[struct{}], path string) {
	if len(rule.Limits) > 0 {
		return
	}
	const unknown = "\x00"
	if _, ok := patterns.FindFirst(unknown); !ok {
		l.addWarning(t.Node, path, "add limit: for all others", "whoever names no %s of these is not limited", t.By)
	}
}

// checkLimits warns of limits of one rule that cannot be decisive.
func (l *linter) checkLimits(all []*limits.Limit, path string) {
	for _, a := range all {
		l.checkLimit(a, path)
		for _, b := range all {
			if a != b && decisive(a) && decisive(b) && a.Cost == b.Cost {
				l.checkPair(a, b, path)
			}
		}
	}
}

// checkLimit warns of one limit, and keeps its names for finish.
func (l *linter) checkLimit(a *limits.Limit, path string) {
	for _, name := range a.Replaces {
		l.wants = append(l.wants, want{name, a, path})
	}
	if a.Limit == nil {
		return
	}
	if p := a.Pool; p != nil {
		l.pools[p.Name] = true
		if p.Count <= a.Limit.Count && p.Period == a.Limit.Period {
			l.addWarning(l.nodes[a], path, "give the pool more than all that borrow from it are assured", "pool %q never lends: %d that the limit assures are charged to it, and it has %d", p.Name, a.Limit.Count, p.Count)
		}
	}
	if n := largestCost(a.Limit); !a.Denies && a.Cost > n {
		l.addWarning(l.nodes[a], path, "raise the burst, or lower the cost", "a cost of %d never fits: at most %d pass at once", a.Cost, n)
	}
	if old := l.names[a.Name]; old != nil && old.Rule != a.Rule {
		l.addWarning(l.nodes[a], path, "give each a name of its own", "limit %q has the name of the one in line %d: metrics cannot tell them apart", a.Name, l.nodes[old].line)
		return
	}
	l.names[a.Name] = a
}

// largestCost is the largest cost that can pass.
func largestCost(w *weir.Limit) int64 {
	if known[w.Algorithm.Name()] && !slices.Contains(takes["burst"], w.Algorithm.Name()) {
		return w.Count
	}
	return w.Burst
}

// decisive reports whether the limit refuses by units in a period.
func decisive(a *limits.Limit) bool {
	if a.Limit == nil || a.Denies || a.Shadow || a.Pool != nil || a.Rollout > 0 {
		return false
	}
	leases := a.Algorithm.Traits()&weir.Leases != 0
	shapes := a.Algorithm.Traits()&weir.Shapes != 0
	return !leases && !shapes
}

// checkPair warns if a, over the shorter period, or b, over the longer one, can
// never refuse what the other would let pass.
func (l *linter) checkPair(a, b *limits.Limit, path string) {
	if a.Period > b.Period || a.Period == b.Period && l.nodes[a].line > l.nodes[b].line {
		return
	}
	short, long := a.Limit, b.Limit
	if largestCost(short) >= long.Count && largestCost(long) <= short.Count {
		l.addWarning(l.nodes[a], path, "lower it, or leave it out", "never decides: %s is never reached before %s is", limits.Summary(short), limits.Summary(long))
		return
	}
	// What the short limit lets through in the long period, at most. Shares of
	// units do not matter here.
	through := float64(largestCost(short)) + float64(short.Count)*float64(long.Period)/float64(short.Period)
	if through <= float64(long.Count) {
		l.addWarning(l.nodes[b], path, "lower it, or leave it out", "never decides: %s lets at most %.0f pass in its period", limits.Summary(short), through)
	}
}

// checkDomain warns of what can only be told at the end of a domain.
func (l *linter) checkDomain(d *domain, f *fileSpec) {
	for _, w := range l.wants {
		if l.names[w.name] == nil {
			l.addWarning(l.nodes[w.by], w.path, "", "replaces %q, which no limit of the file is called", w.name)
		}
	}
	for _, p := range f.Pools {
		if d.Pools[p.name] != nil && !l.pools[d.Pools[p.name].Limit.Name] {
			l.addWarning(p.node, d.Name, "name it in a limit: pool: "+p.name, "pool %q is not used", p.name)
		}
	}
}
