package simulator

import (
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
)

// A truth is what was admitted by one limit in the whole fleet, by the true time.
//
// A limit of units must have been able to admit it: its algorithm is asked by the server's
// time for every unit when it is admitted (I1, I2, I3). A concurrency limit has holders
// who stop when their period is over by their own clocks, which drift as others do, and
// they never have more than its count (I11).
type truth struct {
	*world
	name     string
	limit    *weir.Limit
	cells    []int64
	admitted int
	log      []spent // of a sliding window: of the last period
	sum      int64   // of log
	holders  []occupant
	most     int64
}

type spent struct{ at, units int64 }

type occupant struct {
	id, units, until int64
}

func newTruth(w *world, l *weir.Limit) *truth {
	return &truth{world: w, name: l.Name, limit: l, cells: make([]int64, l.Cells)}
}

// admit notes that cost units were admitted at the server's time.
func (t *truth) admit(at, cost int64) {
	t.admitted++
	if t.limit.Algorithm == algorithm.SlidingWindow {
		// It refuses a little more than it promises: never more than the count in a period.
		for len(t.log) > 0 && t.log[0].at <= at-micros.Of(t.limit.Period) {
			t.sum -= t.log[0].units
			t.log = t.log[1:]
		}
		t.log = append(t.log, spent{at, cost})
		if t.sum += cost; t.sum > t.limit.Count {
			t.fail("%s: %d in a period after %d", t.name, t.sum, t.admitted)
		}
		return
	}
	if a := t.limit.Algorithm.Step(t.cells, t.limit, weir.Ask{Now: at, Cost: cost}); !a.Allowed() {
		t.fail("%s admits %d more after %d, where %d can pass", t.name, cost, t.admitted, a.Remaining)
	}
}

// occupy notes that a holder has units for the period, from an instant.
func (t *truth) occupy(id, units, from int64) {
	t.admitted++
	life := micros.Of(t.limit.Period)
	sum, kept := units, t.holders[:0]
	for _, h := range t.holders {
		if h.until > t.now && h.id != id {
			sum += h.units
			kept = append(kept, h)
		}
	}
	t.holders = append(kept, occupant{id, units, from + life - life/1024})
	if t.most = max(t.most, sum); sum > t.limit.Count {
		t.fail("%s: %d of %d are taken after %d", t.name, sum, t.limit.Count, t.admitted)
	}
}

// leave notes that a holder has stopped, and reports whether it had units until then.
func (t *truth) leave(id int64) bool {
	for i, h := range t.holders {
		if h.id == id {
			t.holders = append(t.holders[:i], t.holders[i+1:]...)
			return h.until > t.now
		}
	}
	return false
}
