package rules

import (
	"maps"
	"slices"
	"time"

	"github.com/weirlimit/weir"
)

// mode sets what a breach does. Of a pool only the headroom counts: a breach is
// a matter of the limits that borrow from it.
func (b *builder) mode(w *weir.Limit) {
	if b.pool {
		b.forbid(ofBorrowers, "give it to the limits that borrow", "a pool has no %s")
	} else {
		b.breach(w)
	}
	b.setHeadroom(w)
}

// breach sets the modes of a limit that is no pool.
func (b *builder) breach(w *weir.Limit) {
	s := &b.s
	mode := deref(s.Mode, "hard")
	for key, needs := range needsMode {
		if n, own := where(b.layers, key); n != nil && own && mode != needs {
			b.wrong(key, "add mode: "+needs+", or leave it out", "%s is for mode: %s", key, needs)
		}
	}
	w.Shadow = isShadow(&b.s, b.rule)
	switch mode {
	case "soft":
		if s.Exceed == nil || *s.Exceed == 0 {
			b.wrong("mode", "add exceed: 10%", "mode: soft does not say how far above the limit requests pass")
		} else {
			w.Excess = int64(*s.Exceed)
		}
	case "elastic":
		b.elastic(w)
	}
	if s.Rollout != nil {
		w.Rollout = int64(*s.Rollout)
		if w.Rollout == 0 {
			w.Shadow = true
		}
	}
	switch {
	case s.Penalize != nil:
		w.Penalize = *s.Penalize
	case s.Algorithm == nil && (mode == "hard" || mode == "shadow"): // a shadow does not, until it is one no more
		w.Penalize = b.dialect.penalize
	}
	b.ban(w)
}

// setHeadroom sets the units that are kept for higher priorities.
func (b *builder) setHeadroom(w *weir.Limit) {
	for p, r := range b.s.Headroom {
		units := r.of(max(w.Burst, 0))
		if w.Burst == 0 {
			units = r.of(w.Count)
		}
		if r.isPercent && r.percent == 100 {
			b.wrong("headroom", "keep less", "headroom of 100%% leaves nothing to priority %d", p)
			continue
		}
		w.Headroom = append(w.Headroom, units)
	}
}

// elastic sets the pool.
func (b *builder) elastic(w *weir.Limit) {
	p := b.s.Pool
	sketched := w.Algorithm.Traits()&weir.Sketches != 0
	switch {
	case sketched:
		b.wrong("mode", "use algorithm: sliding_window", "mode: elastic is impossible with %s, whose keys share their state", w.Algorithm.Name())
		return
	case p == nil:
		b.wrong("mode", "add pool: and the name of a pool, or its limit", "mode: elastic does not say what to borrow from")
	case p.ref != "":
		pool := b.domain.pools[p.ref]
		if pool == nil {
			hint := "write it under pools: at the top of the file"
			if len(b.domain.pools) > 0 {
				hint = didYouMean(p.ref, slices.Sorted(maps.Keys(b.domain.pools)))
			}
			b.wrong("pool", hint, "unknown pool %q", p.ref[:min(len(p.ref), maxShown)])
			return
		}
		w.Pool = pool.Limit
	default:
		pool := b.compiler.pool(p.limit, w.Name+" pool", w.Scope+"#pool")
		if pool == nil {
			b.faults++
			return
		}
		w.Pool = pool.Limit
	}
	if w.Pool == nil && p != nil && b.faults == 0 {
		b.wrong("pool", "", "a pool needs a limit above 0")
	}
	w.Ceiling = deref(b.s.Ceiling, 0)
}

// ban sets the limit on refusals.
func (b *builder) ban(w *weir.Limit) {
	s := b.s.Ban
	if s == nil {
		return
	}
	if s.After < 1 || s.For == nil || *s.For == 0 {
		b.wrong("ban", "write ban: {after: 5, for: 15m}", "a ban needs after, the number of refusals, and for, how long it lasts")
		return
	}
	a := b.algorithms["lockout"]
	if a == nil {
		b.wrong("ban", "", "a ban needs the algorithm lockout, which is not among Options.Algorithms")
		return
	}
	if !b.named(b.spec.Node, b.path, w.Name+" ban", w.Scope) {
		b.faults++
		return
	}
	w.Ban = &weir.Limit{Name: w.Name + " ban", Algorithm: a, Count: s.After, Period: time.Duration(*s.For)}
}

// isShadow reports whether a limit of the rule only counts what it would refuse.
func isShadow(s *settings, r *Rule) bool {
	return deref(s.Mode, "hard") == "shadow" || r != nil && r.Shadow
}

// denies makes l refuse everything.
func (b *builder) denies(l *Limit, name, scope string, period time.Duration) {
	b.forbid(needsCount, "leave it out", "a limit of 0 refuses everything, %s has nothing to do")
	l.Denies = true
	if period == 0 || period > weir.MaxPeriod {
		period = time.Second
	}
	l.Limit = b.denial(name, scope, b.spec.Node)
	l.Period = period
	if isShadow(&b.s, b.rule) {
		// As a shadow it is counted by the store, which knows no limit of 0.
		l.Limit = &weir.Limit{Name: name, Scope: scope, Algorithm: l.Algorithm, Count: 1, Period: period,
			Mode: weir.Mode{Shadow: true}}
		if err := l.Compile(); err != nil {
			b.wrong("limit", "", "%s", err)
		}
	}
}
