package region

import (
	"errors"
	"fmt"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
)

// Check reports why l cannot be counted in so many regions together. Nil
// means that it can, or that each node counts it alone.
func Check(l *weir.Limit, regions int) error {
	t := l.Traits()
	cure := "use consistency: eventual, or local, by which each node counts alone"
	switch m := l.Consistency.Mode; {
	case m == params.ConsistencyLocal, t&weir.Sketches != 0:
		return nil
	case m == params.ConsistencyStrict || m == params.ConsistencyLeased:
		return fmt.Errorf("consistency %s cannot hold across regions, which hear of what others admitted after the fact: %s", m, cure)
	case t&weir.Lends == 0:
		return fmt.Errorf("%s cannot be counted in several regions together: use consistency: local, or sliding_window or token_bucket", l.Algorithm.Name())
	case l.Excess != 0, l.Pool != nil, l.Penalize, l.Ban != nil, l.Headroom != nil:
		return errors.New("soft, elastic and penalizing limits, bans and what is kept for priorities are decided by one store, and there is one in each region: use consistency: local")
	case l.Anchor == params.AnchorFirst:
		return errors.New("windows that begin with the first request begin differently in each region: use windows from the epoch")
	}
	if least := sharesOf(l, regions); capOf(l, regions) < 1 {
		return fmt.Errorf("max_overshoot of %d units gives each of %d regions less than one: make it at least %d", min(l.Overshoot(), l.Burst), regions, least)
	}
	return nil
}

// CheckCost reports why requests of a cost can never pass l where it is counted
// in so many regions together. Nil means that they can. It says nothing of a limit that
// cannot be counted so, see [Check].
func CheckCost(l *weir.Limit, regions int, cost int64) error {
	most := capOf(l, regions)
	if l.Consistency.Mode == params.ConsistencyLocal || Check(l, regions) != nil || l.Traits()&weir.Sketches != 0 || cost <= most {
		return nil
	}
	least := cost * sharesOf(l, regions)
	cure := fmt.Sprintf("raise max_overshoot to %d, or lower the cost", least)
	if least > l.Burst {
		cure = "lower the cost, or use consistency: local"
	}
	return fmt.Errorf("a cost of %d never passes in %d regions: each admits at most %d units before the others know of it: %s", cost, regions, most, cure)
}

// capOf returns how many units of l a region may have admitted that another
// does not know of.
func capOf(l *weir.Limit, regions int) int64 {
	return min(l.Overshoot(), l.Burst) / sharesOf(l, regions)
}

// sharesOf returns into how many caps an overshoot is divided: one of each other region,
// and two where one epoch meets the next, unless the limit's own windows are the epochs.
func sharesOf(l *weir.Limit, regions int) int64 {
	n := int64(max(regions-1, 1))
	if l.Algorithm != algorithm.FixedWindow {
		n *= 2
	}
	return n
}
