package rules

import (
	"cmp"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/limits"
)

// setHeadroom sets the units that are kept for higher priorities.
func (b *builder) setHeadroom(w *weir.Limit) {
	for p, r := range b.s.Headroom {
		if r.isPercent && r.percent == 100 {
			b.addSettingFault("headroom", "keep less", "headroom of 100%% leaves nothing to priority %d", p)
			continue
		}
		w.Headroom = append(w.Headroom, r.unitsOf(cmp.Or(w.Burst, w.Count)))
	}
}

// setBanLimit sets the limit on refusals.
func (b *builder) setBanLimit(w *weir.Limit) {
	s := b.s.Ban
	if s == nil {
		return
	}
	if s.After < 1 || s.For == nil || *s.For == 0 {
		b.addSettingFault("ban", "write ban: {after: 5, for: 15m}", "a ban needs after, the number of refusals, and for, how long it lasts")
		return
	}
	a := b.algorithms["lockout"]
	if a == nil {
		b.addSettingFault("ban", "", "a ban needs the algorithm lockout, which is not among Options.Algorithms")
		return
	}
	if !b.checkNames(b.spec.Node, b.path, w.Name+" ban", w.Scope) {
		b.faults++
		return
	}
	w.Ban = &weir.Limit{Name: w.Name + " ban", Algorithm: a, Count: s.After, Period: time.Duration(*s.For)}
}

// isShadow reports whether a limit of the rule only counts what it would refuse.
func isShadow(s *settings, r *limits.Rule) bool {
	return valueOr(s.Mode, "hard") == "shadow" || r != nil && r.Shadow
}
