package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
)

const changedStart = 1_700_000_040_000_000 // the start of a minute, 14 minutes into an hour

// changeForms changes the algorithm and the period of limits on one store that open
// returns. What was spent is spent under the others. A fixed window of another period may
// keep its end if the store keepsEnds.
func changeForms(t *testing.T, open Open, keepsEnds bool) {
	t.Helper()
	var clock atomic.Int64
	clock.Store(changedStart)
	s, lives := open(t, clock.Load), uint64(60)
	if os.Getenv("WEIR_SOAK") == "1" {
		lives = 3000
	}
	new := func(t *testing.T, name string) *changing {
		return &changing{T: t, store: s, now: changedStart, clock: &clock, key: name}
	}
	t.Run("there and back", func(t *testing.T) { testThereAndBack(t, new, keepsEnds) })
	t.Run("to longer", func(t *testing.T) { testToLonger(t, new) })
	t.Run("at once", func(t *testing.T) { testChangedAtOnce(t, new, lives) })
	t.Run("windows", func(t *testing.T) { testChangedForms(t, new, lives) })
	t.Run("sub-windows", func(t *testing.T) { testChangedSubwindows(new(t, "sub-windows")) })
}

// A changing key is asked under one limit after another.
type changing struct {
	*testing.T
	store weir.Store
	now   int64
	clock *atomic.Int64
	key   string
}

func (c *changing) limit(a weir.Algorithm, count int64, period time.Duration) *weir.Limit {
	return compiled(c, &weir.Limit{Name: c.key, Algorithm: a, Count: count, Period: period})
}

func (c *changing) take(l *weir.Limit, cost int64) weir.Op {
	c.clock.Store(c.now)
	ops := []weir.Op{{Key: c.key, Limit: l, Cost: cost}}
	if err := c.store.Take(context.Background(), ops); err != nil {
		c.Fatal(err)
	}
	return ops[0]
}

func (c *changing) left(l *weir.Limit) int64 { return c.take(l, 0).Decision.Remaining }

var changedKinds = []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.SlidingCounter, algorithm.SlidingSubwindows, algorithm.TokenBucket, algorithm.LeakyBucket}

// What was spent is spent under any other algorithm and period, and back.
func testThereAndBack(t *testing.T, new func(*testing.T, string) *changing, keepsEnds bool) {
	for _, a := range changedKinds {
		for _, b := range changedKinds {
			t.Run(a.Name()+" to "+b.Name(), func(t *testing.T) {
				c := new(t, "there and back "+t.Name())
				hour, minute := c.limit(a, 10_000, time.Hour), c.limit(b, 100, time.Minute)
				if d := c.take(hour, 9_000).Decision; !d.Allowed() {
					t.Fatal(d)
				}
				if d := c.take(minute, 1).Decision; d.Allowed() {
					t.Errorf("9,000 of 10,000/hour are spent, and 1 of 100/minute passes: %s", d)
				}
				if hour.Layout == minute.Layout && (keepsEnds || a.Traits()&weir.Refills != 0) {
					return // what a bucket owes stays owed
				}
				// Of the hour only the last minute counts: two later, all is there.
				c.now += 2*micros.Of(time.Minute) + micros.Of(3*time.Second)
				if d := c.take(minute, 100).Decision; !d.Allowed() {
					t.Errorf("two minutes later 100/minute is not there: %s", d)
				}
				left := c.left(hour)
				if flown := int64(123 * 10_000 / 3600); left > 900+flown || left < 900-2*10_000/60 {
					t.Errorf("%d are left of the hour, want 900", left)
				}
				c.now += 2 * micros.Of(time.Hour)
				if left := c.left(hour); left != 10_000 {
					t.Errorf("%d are left of 10,000 when all is over", left)
				}
			})
		}
	}
}

// A raise to a longer period begins with what the last period counts.
func testToLonger(t *testing.T, new func(*testing.T, string) *changing) {
	for _, a := range changedKinds {
		for _, b := range changedKinds {
			c := new(t, "to longer "+a.Name()+" "+b.Name())
			minute, day := c.limit(a, 100, time.Minute), c.limit(b, 1_000, 24*time.Hour)
			c.take(minute, 100)
			c.now += 3 * micros.Of(time.Minute)
			c.take(minute, 60)
			if left := c.left(day); left < 939 || left > 940 {
				t.Errorf("%s to %s: %d are left of 1,000/day, want 940", a.Name(), b.Name(), left)
			}
			c.now += 3 * micros.Of(time.Minute)
			if left := c.left(day); left < 939 || left > 943 {
				t.Errorf("%s to %s: %d are left of 1,000/day after three minutes, want 940", a.Name(), b.Name(), left)
			}
			if c.key += " other"; c.left(day) != 1_000 {
				t.Errorf("%s to %s: a key that was never seen is charged", a.Name(), b.Name())
			}
		}
	}
}

// However often a limit changes at one instant, the largest is admitted, and no more.
func testChangedAtOnce(t *testing.T, new func(*testing.T, string) *changing, lives uint64) {
	for life := range lives {
		r, c := rand.New(rand.NewPCG(life, 47)), new(t, fmt.Sprint("at once ", life))
		passed, most := int64(0), int64(0)
		kinds, more := changedKinds, 0
		if life%2 == 0 {
			// Of many versions only these keep what exceeds their count.
			kinds, more = []weir.Algorithm{algorithm.FixedWindow}, r.IntN(5)
		}
		var versions []*weir.Limit
		for range 2 + more {
			count := []int64{1, 10, 20, 21, 100, 1000, 10_000, 65_535, 65_536}[r.IntN(9)]
			versions = append(versions, c.limit(kinds[r.IntN(len(kinds))], count, []time.Duration{time.Second, time.Minute, 10 * time.Minute, time.Hour}[r.IntN(4)]))
			most = max(most, count)
		}
		for step := range 60 {
			l := versions[r.IntN(len(versions))]
			count := l.Count
			if o := c.take(l, max(1, []int64{1, count - passed, count/2 + 1}[r.IntN(3)])); o.Charged {
				passed += o.Cost
			}
			if passed > most {
				t.Fatalf("life %d, step %d: %d passed, the largest limit is %d: now %s, %d per %s", life, step, passed, most, l.Algorithm.Name(), l.Count, l.Period)
			}
		}
	}
}

// Windows of changed periods and algorithms, in time: no window admits more than its count
// with what rows can know of, and what they know is not forgotten.
func testChangedForms(t *testing.T, new func(*testing.T, string) *changing, lives uint64) {
	type spent struct{ at, units, until int64 }
	kinds := []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.SlidingSubwindows}
	for life := range lives {
		r, c := rand.New(rand.NewPCG(life, 53)), new(t, fmt.Sprint("windows ", life))
		var versions []*weir.Limit
		kinds, more := kinds, 0
		if life%2 == 0 {
			kinds, more = kinds[:1], r.IntN(3)
		}
		for range 2 + more {
			versions = append(versions, c.limit(kinds[r.IntN(len(kinds))], []int64{1, 5, 20, 21, 100, 1000, 100_000}[r.IntN(7)],
				[]time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour}[r.IntN(5)]))
		}
		begin := func(l *weir.Limit, at int64) int64 { // of the period of l that at is in
			if l.Algorithm == algorithm.FixedWindow {
				return at - at%micros.Of(l.Period)
			}
			return at - micros.Of(l.Period) + 1
		}
		end := func(l *weir.Limit, at int64) int64 {
			if l.Algorithm == algorithm.FixedWindow {
				return begin(l, at) + micros.Of(l.Period)
			}
			return at + micros.Of(l.Period)
		}
		var all []spent
		l, elder := versions[0], int64(0) // until when an elder is kept
		for step := range 150 {
			if next := versions[r.IntN(len(versions))]; r.IntN(4) == 0 && next.RowID() != l.RowID() {
				c.take(next, 0)
				for i := range all {
					if x := &all[i]; x.until > c.now {
						elder = max(elder, end(l, x.at))
					}
				}
				for i := range all {
					if x := &all[i]; x.until > c.now {
						x.until = max(x.until, end(next, x.at))
					}
				}
				l = next
			}
			c.now += r.Int64N(micros.Of(l.Period) / []int64{1, 20, 1000}[r.IntN(3)])
			known := int64(0)
			for _, x := range all {
				if x.at >= begin(l, c.now) && x.until > c.now {
					known += x.units
				}
			}
			left := max(l.Count-known, 0)
			cost := max(1, []int64{1, left, left + 1, l.Count}[r.IntN(4)])
			if d := c.take(l, cost).Decision; d.Allowed() {
				if cost > left {
					t.Fatalf("life %d, step %d, %s %d per %s: %d passed, %d were left", life, step, l.Algorithm.Name(), l.Count, l.Period, cost, left)
				}
				all = append(all, spent{c.now, cost, end(l, c.now)})
			}
		}
		c.now += 3 * micros.Of(time.Hour)
		if left := c.left(l); left != l.Count {
			t.Fatalf("life %d: %d of %d are left when all is over", life, left, l.Count)
		}
	}
}

// A counter of sub-windows keeps what was spent when its counters become wider, narrower, or
// more.
func testChangedSubwindows(c *changing) {
	for i, count := range []int64{100, 65_535, 65_536, 1 << 32, 1<<32 - 1, 200_000} {
		l := &weir.Limit{Name: c.key, Algorithm: algorithm.SlidingSubwindows, Count: count, Period: time.Minute}
		if i%2 == 1 {
			l.Precision = 120
		}
		if left := c.take(compiled(c, l), 10).Decision.Remaining; left != count-10*int64(i+1) {
			c.Errorf("%d are left of %d, want %d", left, count, count-10*int64(i+1))
		}
	}
}
