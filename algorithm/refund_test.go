package algorithm_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
)

// A bucketHistory is a key of a bucket and what its clients spent, less what they
// gave back of each spend.
type bucketHistory struct {
	limit *weir.Limit
	cells []int64
	now   int64
	ops   []weir.Op
	kept  []int64   // of the cost of each op
	all   []weir.Op // as they were answered
}

func newBucketHistory(t *testing.T, l *weir.Limit) *bucketHistory {
	t.Helper()
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return &bucketHistory{limit: l, cells: newRow(l), now: 1_700_000_000_000_000}
}

// do runs o as a store would, and fills its answer.
func (h *bucketHistory) do(o *weir.Op) bool {
	o.Limit = h.limit
	o.Decision = h.limit.Algorithm.Step(h.cells, h.limit, weir.Ask{Now: h.now, Cost: o.Cost, ID: o.AskID(), Verb: o.Verb})
	o.Now, o.Charged = h.now, o.Verb != weir.Peek && (o.Decision.Allowed() || o.Verb == weir.Force)
	h.all = append(h.all, *o)
	return o.Charged
}

// spend spends n units and remembers them.
func (h *bucketHistory) spend(n int64) bool {
	o := weir.Op{Cost: n}
	if !h.do(&o) {
		return false
	}
	h.ops, h.kept = append(h.ops, o), append(h.kept, n)
	return true
}

// refund gives back n units of the i-th spend.
func (h *bucketHistory) refund(i int, back weir.Op) {
	h.do(&back)
	h.kept[i] -= back.Cost
}

func (h *bucketHistory) remaining() int64 {
	o := weir.Op{Verb: weir.Peek}
	h.do(&o)
	return o.Decision.Remaining
}

// String tells the history in lines.
func (h *bucketHistory) String() string {
	var b strings.Builder
	for _, o := range h.all {
		fmt.Fprintf(&b, "at %d %s %d (%d): %v, left %d\n", o.Now-h.all[0].Now, o.Verb, o.Cost, o.ID, o.Charged, o.Decision.Remaining)
	}
	return b.String()
}

// check reports an interval in which more was spent, and not given back, than a
// bucket of that size admits.
func (h *bucketHistory) check() error {
	period := micros.Of(h.limit.Period)
	for i := range h.ops {
		var sum int64
		for j := i; j < len(h.ops); j++ {
			sum += h.kept[j]
			d := h.ops[j].Now - h.ops[i].Now
			if most := h.limit.Burst + d*h.limit.Count/period; sum > most {
				return fmt.Errorf("%d units within %d µs, a bucket of %d at %d per %s admits %d:\n%s",
					sum, d, h.limit.Burst, h.limit.Count, h.limit.Period, most, h)
			}
		}
	}
	return nil
}

// A bucket that has been full since a charge has its units already: giving them
// back gives nothing.
func TestBucketTakesBackWhatHasNotFlowedIn(t *testing.T) {
	for _, a := range []weir.Algorithm{algorithm.TokenBucket, algorithm.LeakyBucket, algorithm.Throttle} {
		h := newBucketHistory(t, &weir.Limit{Algorithm: a, Count: 1, Period: time.Second, Burst: 10})
		start := h.now
		at := func(d time.Duration) { h.now = start + d.Microseconds() }
		h.spend(10)
		at(9900 * time.Millisecond)
		h.spend(9)
		at(9990 * time.Millisecond)
		h.refund(0, h.ops[0].Undo(10))
		for h.spend(1) {
		}
		if err := h.check(); err != nil {
			t.Errorf("%s: %v", a.Name(), err)
		}

		// What has flowed in is taken off, and no more.
		h = newBucketHistory(t, &weir.Limit{Algorithm: a, Count: 1, Period: time.Second, Burst: 10})
		start = h.now
		for i := range 10 {
			h.spend(1)
			h.now += int64(i % 2)
		}
		h.refund(9, h.ops[9].Undo(1))
		if got := h.remaining(); got != 1 {
			t.Errorf("%s: %d remain after one unit was given back at once", a.Name(), got)
		}
		h = newBucketHistory(t, &weir.Limit{Algorithm: a, Count: 1, Period: time.Second, Burst: 10})
		start = h.now
		h.spend(10)
		at(4 * time.Second)
		h.refund(0, h.ops[0].UndoRest(5))
		if got := h.remaining(); got != 9 {
			t.Errorf("%s: %d remain after 5 of 10 were given back when 4 had flowed in, want 9", a.Name(), got)
		}
		h.refund(0, h.ops[0].Undo(5))
		if got := h.remaining(); got != 10 {
			t.Errorf("%s: %d remain after all 10 were given back", a.Name(), got)
		}
	}
}

// TestFamilyBucketRefundsKeepTheBound plays random histories of a bucket: units
// given back count as never spent, and what was spent and not given back keeps to
// the bound of the bucket in every interval.
func TestFamilyBucketRefundsKeepTheBound(t *testing.T) {
	lives := 40_000
	if os.Getenv("WEIR_SOAK") != "" {
		lives = 2_000_000
	} else if testing.Short() {
		lives = 5_000
	}
	var spends, refunds, inVain int
	for life := range lives {
		r := rand.New(rand.NewPCG(uint64(life), 9))
		l := &weir.Limit{Algorithm: []weir.Algorithm{algorithm.TokenBucket, algorithm.LeakyBucket, algorithm.Throttle}[r.IntN(3)],
			Count: 1, Period: time.Second, Burst: 10}
		switch r.IntN(4) {
		case 0: // a fraction of a microsecond a unit
			l.Count, l.Period, l.Burst = 1+r.Int64N(9000), time.Duration(1+r.Int64N(1000))*time.Microsecond, 1+r.Int64N(50)
		case 1:
			l.Burst = 1 + r.Int64N(20)
		}
		h := newBucketHistory(t, l)
		unit := max(micros.Of(l.Period)/l.Count, 1)
		for range 40 {
			switch r.IntN(5) {
			case 0:
				h.now += r.Int64N(unit * l.Burst)
			case 1:
				h.now += r.Int64N(unit) + 1
			case 2:
				h.now += unit
			}
			switch n := len(h.ops); {
			case n > 0 && r.IntN(3) == 0:
				i := r.IntN(n)
				if r.IntN(3) == 0 {
					i = n - 1
				}
				cost := h.kept[i]
				if cost == 0 {
					continue
				}
				before := h.remaining()
				switch o := h.ops[i]; {
				case cost == o.Cost && r.IntN(2) == 0:
					// All of it, or some, once.
					cost -= r.Int64N(cost)
					h.refund(i, o.UndoRest(cost))
					if cost < o.Cost {
						h.ops[i].ID = 1 // undone
					}
				case o.ID == 0:
					// Piece by piece.
					cost -= r.Int64N(cost)
					h.refund(i, o.Undo(cost))
				}
				refunds++
				if h.remaining() == before {
					inVain++
				}
			case r.IntN(30) == 0:
				o := weir.Op{Cost: 1 + r.Int64N(3*l.Burst), Verb: weir.Force}
				h.do(&o)
				if r.IntN(2) == 0 {
					undo := o.Undo(o.Cost)
					h.do(&undo)
				}
			default:
				if h.spend(1 + r.Int64N(l.Burst)) {
					spends++
				}
			}
		}
		if err := h.check(); err != nil {
			t.Fatalf("life %d: %v", life, err)
		}
	}
	if spends < lives || refunds < lives || inVain > refunds*3/4 {
		t.Errorf("%d spends, %d refunds and %d of them in vain: nothing was tested", spends, refunds, inVain)
	}
}
