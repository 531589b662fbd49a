package shared

import (
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/history"
	"github.com/weirlimit/weir/internal/micros"
)

// A truth is what was admitted by one limit in the whole fleet, by the true time, or by one
// node without the store.
//
// A limit of units must have been able to admit it: its algorithm is asked by the server's
// time for every unit when it is admitted (I1, I2, I3, I7). A concurrency limit has holders
// who stop when their period is over by their own clocks, which drift as others do, and
// they never have more than its count (I11).
type truth struct {
	*world
	name     string
	limit    *weir.Limit // the largest that is, or was a moment ago
	cells    []int64
	admitted int
	log      []spent // of a sliding window: of the last period
	sum      int64   // of log
	holders  []occupant
	most     int64
	prices   map[int64]price // by when units of a bucket were charged
	// smaller is what the limit was lowered to, and is at an instant.
	smaller   *weir.Limit
	smallerAt int64
	// forgiven is what may be admitted besides, until an instant: the server has lost the
	// count of it. A bucket that is in use has it for good, and no more than two bursts.
	forgiven, forgivenUntil int64
}

type spent struct{ at, units int64 }

type occupant struct {
	id, units, until int64
}

func newTruth(w *world, l *weir.Limit) *truth {
	t := &truth{world: w, name: l.Name, limit: l, prices: map[int64]price{}}
	if l.Traits()&weir.Leases == 0 {
		t.cells = make([]int64, l.Cells)
	}
	return t
}

// change notes another limit, on the same counters. Of a larger one what was fetched counts
// on for some time.
func (t *truth) change(l *weir.Limit) {
	if t.smaller = nil; l.Count >= t.limit.Count {
		t.cells = history.Carry(l, t.cells, t.limit, t.now)
		t.limit = l
	} else {
		t.smaller, t.smallerAt = l, t.now+3*micros.Of(l.Period)+2_000_000
	}
}

// forgive notes that the server has lost the count of some units.
func (t *truth) forgive(units int64) { t.forgiven += units }

// failOver notes that another server has taken over.
func (t *truth) failOver() { t.forgivenUntil = t.now + 3*micros.Of(t.limit.Period) + 2_000_000 }

// restart notes that the server's clock was set: one window or burst more may pass.
func (t *truth) restart() {
	clear(t.cells)
	t.log, t.sum = nil, 0
	t.forgiven += t.limit.Count
}

// admit notes that cost units were admitted at the server's time.
func (t *truth) admit(at, cost int64) {
	if t.admitted++; t.smaller != nil && t.now >= t.smallerAt {
		t.cells = history.Carry(t.smaller, t.cells, t.limit, at)
		t.limit, t.smaller = t.smaller, nil
	}
	switch {
	case t.limit.Traits()&weir.Refills != 0:
		t.forgiven = min(t.forgiven, 2*t.limit.Burst)
	case t.now >= t.forgivenUntil:
		t.forgiven = 0
	}
	if t.limit.Algorithm == algorithm.SlidingWindow {
		// It refuses a little more than it promises: never more than the count in a period.
		for len(t.log) > 0 && t.log[0].at <= at-micros.Of(t.limit.Period) {
			t.sum -= t.log[0].units
			t.log = t.log[1:]
		}
		if t.sum+cost > t.limit.Count {
			cost = t.exceed(cost, t.limit.Count-t.sum)
		}
		t.log, t.sum = append(t.log, spent{at, cost}), t.sum+cost
		return
	}
	if a := t.limit.Algorithm.Step(t.cells, t.limit, weir.Ask{Now: at, Cost: cost}); !a.Allowed() {
		rest := t.exceed(cost, a.Remaining)
		t.limit.Algorithm.Step(t.cells, t.limit, weir.Ask{Now: at, Cost: rest, Verb: weir.Force})
	}
}

// exceed notes that cost units were admitted where fewer are left, and returns how many of
// them count.
func (t *truth) exceed(cost, left int64) int64 {
	left = max(left, 0)
	if t.forgiven -= cost - left; t.forgiven < 0 {
		t.fail("%s admits %d more after %d, where %d can pass", t.name, cost, t.admitted, left)
	}
	return left
}

// refund notes that units with a receipt are given back, or are going to be.
func (t *truth) refund(at, cost, receipt int64) {
	switch {
	case t.limit.Algorithm == algorithm.SlidingWindow:
		for i := len(t.log) - 1; i >= 0 && cost > 0; i-- {
			n := min(cost, t.log[i].units)
			t.log[i].units -= n
			t.sum, cost = t.sum-n, cost-n
		}
	default:
		if t.limit.Algorithm != algorithm.FixedWindow {
			receipt = 0 // it is of when the units were fetched: they were admitted later
		}
		t.limit.Algorithm.Step(t.cells, t.limit, weir.Ask{Now: at, Cost: cost, ID: receipt, Verb: weir.Refund})
	}
}

// occupy notes that a holder has units for the period, from an instant.
func (t *truth) occupy(id, units, from int64) {
	if t.admitted++; t.smaller != nil && t.now >= t.smallerAt {
		t.limit, t.smaller = t.smaller, nil
	}
	life := micros.Of(t.limit.Period)
	sum, kept := units, t.holders[:0]
	for _, h := range t.holders {
		if h.until > t.now && h.id != id {
			sum += h.units
			kept = append(kept, h)
		}
	}
	t.holders = append(kept, occupant{id, units, from + life - life/1024})
	if t.most = max(t.most, sum); sum > t.limit.Count && t.now >= t.forgivenUntil {
		t.fail("%s: %d of %d are taken after %d", t.name, sum, t.limit.Count, t.admitted)
	}
}

// leave notes that a holder has stopped.
func (t *truth) leave(id int64) {
	for i, h := range t.holders {
		if h.id == id {
			t.holders = append(t.holders[:i], t.holders[i+1:]...)
			return
		}
	}
}

// shareOf returns the largest part of a limit that a node admits without the store.
func shareOf(l *weir.Limit, parts int64) *weir.Limit {
	v := &weir.Limit{Name: l.Name + " share", Algorithm: l.Algorithm, Count: max(l.Count/parts, 1), Period: l.Period}
	switch l.Algorithm {
	case algorithm.TokenBucket, algorithm.LeakyBucket:
		v.Count, v.Burst, v.Period = l.Count, max(l.Burst/parts, 1), l.Period*time.Duration(parts)
	}
	return v
}

// shareIDOf returns the ID of that part: with another a node begins to count its share afresh.
func (f *fleet) shareIDOf(l *weir.Limit) uint64 {
	return f.compile(shareOf(l, f.partsOf(l))).ID()
}
