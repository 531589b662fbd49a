package rules

import (
	"maps"
	"slices"

	"github.com/weirlimit/weir"
)

// wildcard warns if a pattern that is about to be added to w can never be
// chosen. A pattern that fits the text of another one, stars and all, fits
// whatever the other one fits.
func (l *linter) wildcard(w *wildcards[*Rule], text string, n *node, path string) {
	if w == nil {
		return
	}
	if first, ok := w.find(text); ok {
		l.warn(n, path, "put the narrower one first", "never reached: %s has %q, which takes all of it", first.location(l.file), first.Value)
	}
}

// idle warns of settings beside key that no limit can take.
func (l *linter) idle(spec *descriptorSpec, path string) {
	if spec.RateLimit != nil || spec.Limit != nil || spec.Limits != nil || spec.Tiers != nil || spec.Overrides != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(settingNames)) {
		if n := spec.Node.find(name); n != nil {
			l.warn(n, path, "give it with a limit; rules beneath do not take it over", "%s has no limit to apply to", name)
		}
	}
}

// choice is wildcard for tiers and overrides.
func (l *linter) choice(c *choices, text string, n *node, path string) {
	if !isPattern(text) {
		return
	}
	if _, ok := c.wild.find(text); ok {
		l.warn(n, path, "put the narrower one first", "never reached: a pattern above it takes all of %q", text)
	}
}

// level warns of rules for a key alone that a wildcard for everything hides.
func (l *linter) level(lv *level, path string) {
	// Only stars fit this.
	const anything = "\x00"
	for _, b := range lv.keys {
		if b.bare == nil || b.wild == nil {
			continue
		}
		if first, ok := b.wild.find(anything); ok {
			l.warn(b.bare.node, join(path, b.bare.Key), "leave one of them out",
				"never reached: the value %q takes everything", first.Value)
		}
	}
}

// tiers warns of a rule that limits only those who name a tier.
func (l *linter) tiers(t *tiersSpec, rule *Rule, path string) {
	if len(rule.Limits) > 0 {
		return
	}
	const unknown = "\x00"
	if _, ok := rule.tiers.find(unknown); !ok {
		l.warn(t.Node, path, "add limit: for all others", "whoever names no %s of these is not limited", t.By)
	}
}

// limits warns of limits of one rule that cannot be decisive.
func (l *linter) limits(all []*Limit, path string) {
	for _, a := range all {
		l.limit(a, path)
		for _, b := range all {
			if a != b && decisive(a) && decisive(b) && a.Cost == b.Cost {
				l.pair(a, b, path)
			}
		}
	}
}

// limit warns of one limit, and keeps its names for finish.
func (l *linter) limit(a *Limit, path string) {
	for _, name := range a.Replaces {
		l.wants = append(l.wants, want{name, a, path})
	}
	if a.Limit == nil {
		return
	}
	if p := a.Pool; p != nil {
		l.pools[p.Name] = true
		if p.Count <= a.Limit.Count && p.Period == a.Limit.Period {
			l.warn(a.at, path, "give the pool more than all that borrow from it are assured", "pool %q never lends: %d that the limit assures are charged to it, and it has %d", p.Name, a.Limit.Count, p.Count)
		}
	}
	if n := most(a.Limit); !a.Denies && a.Cost > n {
		l.warn(a.at, path, "raise the burst, or lower the cost", "a cost of %d never fits: at most %d pass at once", a.Cost, n)
	}
	if old := l.names[a.Name]; old != nil && old.Rule != a.Rule {
		l.warn(a.at, path, "give each a name of its own", "limit %q has the name of the one in line %d: metrics cannot tell them apart", a.Name, old.at.line)
		return
	}
	l.names[a.Name] = a
}

// most is the largest cost that can pass.
func most(w *weir.Limit) int64 {
	if known[w.Algorithm.Name()] && !slices.Contains(takes["burst"], w.Algorithm.Name()) {
		return w.Count
	}
	return w.Burst
}

// decisive reports whether the limit refuses by units in a period.
func decisive(a *Limit) bool {
	if a.Limit == nil || a.Denies || a.Shadow || a.Pool != nil || a.Rollout > 0 {
		return false
	}
	leases := a.Algorithm.Traits()&weir.Leases != 0
	shapes := a.Algorithm.Traits()&weir.Shapes != 0
	return !leases && !shapes
}

// pair warns if a, over the shorter period, or b, over the longer one, can
// never refuse what the other would let pass.
func (l *linter) pair(a, b *Limit, path string) {
	if a.Period > b.Period || a.Period == b.Period && a.at.line > b.at.line {
		return
	}
	short, long := a.Limit, b.Limit
	if most(short) >= long.Count && most(long) <= short.Count {
		l.warn(a.at, path, "lower it, or leave it out", "never decisive: %s is never reached before %s is", Summary(short), Summary(long))
		return
	}
	// What the short limit lets through in the long period, at most. Shares of
	// units do not matter here.
	through := float64(most(short)) + float64(short.Count)*float64(long.Period)/float64(short.Period)
	if through <= float64(long.Count) {
		l.warn(b.at, path, "lower it, or leave it out", "never decisive: %s lets at most %.0f pass in its period", Summary(short), through)
	}
}

// finish warns of what can only be told at the end of a domain.
func (l *linter) finish(d *domain, f *fileSpec) {
	for _, w := range l.wants {
		if l.names[w.name] == nil {
			l.warn(w.by.at, w.path, "", "replaces %q, which no limit of the file is called", w.name)
		}
	}
	for _, p := range f.Pools {
		if d.pools[p.name] != nil && !l.pools[d.pools[p.name].Limit.Name] {
			l.warn(p.node, d.name, "name it in a limit: pool: "+p.name, "pool %q is not used", p.name)
		}
	}
}
