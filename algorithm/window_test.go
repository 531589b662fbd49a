package algorithm_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
)

// windowOracle: a list of batches, oldest first, each the number of the sub-window
// that it counts in; and the units that are in none yet.
type windowOracle struct {
	l       *weir.Limit
	period  int64
	length  int64 // of a sub-window
	own     int64 // the size of a batch of the limit
	size    int64 // of a batch
	most    int   // batches that are remembered
	batches []int64
	written int64 // the size of these batches
	open    int64
	last    int64 // when the last unit counts as spent
}

func newWindowOracle(l *weir.Limit) oracle {
	o := &windowOracle{}
	o.setLimit(l)
	return o
}

// batchSizes are 1 to 8, then four to each octave.
func batchSizes() []int64 {
	all := []int64{1, 2, 3, 4, 5, 6, 7, 8}
	for step := int64(2); step < 1<<50; step *= 2 {
		for range 4 {
			all = append(all, all[len(all)-1]+step)
		}
	}
	return all
}

// setLimit counts by l from now on.
func (o *windowOracle) setLimit(l *weir.Limit) {
	o.l, o.period = l, micros.Of(l.Period)
	for _, o.own = range batchSizes() {
		if 64*o.own >= l.Count {
			break
		}
	}
	parts := int64(60)
	o.most = 64
	if l.Count <= 20 {
		parts, o.most = 40, 20
	}
	if l.Count == 1 {
		o.most = 1
	}
	for o.length = max(o.period/parts, 1); o.length*parts < o.period; o.length++ {
	}
}

// resized returns what was written under another count in batches of this one's, oldest
// first, and their size. What a lowered count has no room for stays as it was written.
func (o *windowOracle) resized() (batches []int64, open, size int64) {
	held := int64(len(o.batches))*o.written + o.open
	if o.written == o.own || o.written > o.own && held > int64(o.most)*o.own {
		return o.batches, o.open, o.written
	}
	batches, open = o.inBatches(o.own)
	return batches, open, o.own
}

// widen brings what is written to batches of which 64 are so many units, if those of a row
// can be so large and were smaller.
func (o *windowOracle) widen(units int64) {
	if o.l.Count <= 20 {
		return
	}
	to, most := o.written, int64(16_384)
	if o.l.Count > most {
		most = weir.MaxCost
	}
	for _, size := range batchSizes() {
		if size > to && 64*size <= most && 64*to < units {
			to = size
		}
	}
	if to > o.written {
		o.batches, o.open = o.inBatches(to)
		o.written, o.size = to, to
	}
}

// inBatches returns what is written in batches of a size: units that do not fill one count
// with newer ones.
func (o *windowOracle) inBatches(own int64) (batches []int64, open int64) {
	fill := func(sub int64) {
		for range min(open/own, int64(o.most)) {
			batches = append(batches, sub)
		}
		open %= own
	}
	for _, sub := range o.batches {
		open += o.written
		fill(sub)
	}
	open += o.open
	fill(o.last / o.length)
	return o.newest(batches), open
}

// newest returns the newest batches, of those that are too many.
func (o *windowOracle) newest(batches []int64) []int64 {
	return batches[max(len(batches)-o.most, 0):]
}

// counting returns the batches and the open units that count at now.
func (o *windowOracle) counting(now int64) (batches []int64, open, size int64) {
	if now >= o.last+o.period {
		return nil, 0, o.own
	}
	all, open, size := o.resized()
	for _, sub := range all {
		// A whole period after the end of its sub-window, on the edge of one.
		leaves := (sub + 1) * o.length
		for leaves < (sub+1)*o.length+o.period {
			leaves += o.length
		}
		if now < leaves {
			batches = append(batches, sub)
		}
	}
	return batches, open, size
}

// write brings down what counts at now to batches of one size.
func (o *windowOracle) write(now int64) {
	if o.untouched(now) {
		o.last = 0
	}
	o.batches, o.open, o.size = o.counting(now)
	o.written = o.size
}

func (o *windowOracle) used(now int64) int64 {
	batches, open, size := o.counting(now)
	return int64(len(batches))*size + open
}

func (o *windowOracle) passes(now, cost int64) bool { return o.used(now)+cost <= o.l.Count }
func (o *windowOracle) untouched(now int64) bool    { return o.used(now) == 0 }

func (o *windowOracle) charge(now, cost int64) {
	o.write(now)
	if held := int64(len(o.batches))*o.written + o.open; held+cost > o.l.Count {
		o.widen(held + cost)
	}
	if g := int64(o.l.Grain); g > 0 {
		now = (now/o.length+g)*o.length - 1
	}
	o.last = max(o.last, now)
	whole := (o.open + cost) / o.size
	o.open = (o.open + cost) % o.size
	for range min(whole, int64(o.most)) {
		o.batches = append(o.batches, o.last/o.length)
	}
	o.batches = o.newest(o.batches)
}

func (o *windowOracle) giveBack(now, cost, receipt int64) {
	if o.untouched(now) {
		return
	}
	o.write(now)
	switch {
	case receipt == 0:
		// The newest units: those of the open batch, then batch by batch.
		given := min(cost, o.open)
		o.open -= given
		for cost -= given; cost > 0 && len(o.batches) > 0; cost -= given {
			given = min(cost, o.size)
			o.batches = o.batches[:len(o.batches)-1]
			o.open = o.size - given
		}
	case receipt > now && receipt <= o.last+o.period:
		// The oldest that count as spent with the receipt or later, the open ones last.
		first := max(receipt-o.period, 0) / o.length
		for cost > 0 {
			i := slices.IndexFunc(o.batches, func(sub int64) bool { return sub >= first })
			if i < 0 {
				o.open -= min(cost, o.open)
				break
			}
			given := min(cost, o.size)
			cost -= given
			o.batches = slices.Delete(slices.Clone(o.batches), i, i+1)
			if o.open += o.size - given; o.open >= o.size {
				o.open -= o.size
				o.batches = append(o.batches, o.last/o.length)
			}
		}
	}
	// The last unit that is left was spent in its sub-window.
	if n := len(o.batches); o.open == 0 && n > 0 {
		o.last = min(o.last, (o.batches[n-1]+1)*o.length-1)
	}
	if o.untouched(now) {
		o.batches, o.open, o.last = nil, 0, 0
	}
}

func someWindow(r *rand.Rand) *weir.Limit {
	l := &weir.Limit{Algorithm: algorithm.SlidingWindow, Count: someCount(r, weir.MaxCost), Period: somePeriod(r)}
	if r.IntN(3) == 0 {
		l.Grain = r.IntN(5)
	}
	return l
}

// lives returns how many lives a test of the family plays: few, and many with
// WEIR_SOAK=1.
func lives(t *testing.T, few, many int) int {
	t.Helper()
	switch {
	case os.Getenv("WEIR_SOAK") == "1":
		return many
	case testing.Short():
		return max(few/5, 1)
	}
	return few
}

// TestFamilyWindowChangedCount plays keys whose count is changed under way: each
// answer is the oracle's, which keeps what was spent.
func TestFamilyWindowChangedCount(t *testing.T) {
	c := oracleCase{name: "sliding_window", limit: someWindow, model: newWindowOracle, most: countOf}
	var kept int
	for life := range lives(t, 400, 40_000) {
		r := rand.New(rand.NewPCG(uint64(life), 41))
		l := mustCompile(t, someWindow(r))
		p := &player{c: c, l: l, model: newWindowOracle(l), r: r, cells: newRow(l), now: 1<<50 + r.Int64N(1<<50)}
		for n := range 200 {
			if r.IntN(6) == 0 {
				other := someWindow(r)
				if r.IntN(2) == 0 {
					other.Count = max(1, l.Count/2+r.Int64N(l.Count))
				}
				other.Count = min(other.Count, weir.MaxCost)
				other.Period = l.Period
				if other.Compile() == nil && other.Price == l.Price {
					p.l, l = other, other
					p.model.(*windowOracle).setLimit(other)
					kept++
				}
			}
			p.now = max(p.now+p.elapse(), 0)
			if _, err := p.step(p.ask()); err != nil {
				t.Fatalf("life %d, step %d, %d per %s: %v\n%s", life, n, l.Count, l.Period, err, p.log)
			}
		}
	}
	if kept < 1000 && !testing.Short() {
		t.Errorf("the count was changed %d times only", kept)
	}
}

// TestFamilyWindowNeverLate: what is refused would also be refused by an exact log
// of the count, less one batch and plus one, over whole sub-windows that cover the
// period, and one more.
func TestFamilyWindowNeverLate(t *testing.T) {
	var refused int
	for life := range lives(t, 300, 10_000) {
		r := rand.New(rand.NewPCG(uint64(life), 42))
		l := mustCompile(t, &weir.Limit{Algorithm: algorithm.SlidingWindow, Count: someCount(r, 200_000), Period: somePeriod(r)})
		o := newWindowOracle(l).(*windowOracle)
		p := &player{c: oracleCase{most: countOf}, l: l, r: r, cells: newRow(l), now: 1<<50 + r.Int64N(1<<50)}
		var all []spent
		covered := (o.period+o.length-1)/o.length*o.length + o.length
		for range 600 {
			p.now += max(p.elapse(), 0)
			a := weir.Ask{Now: p.now, Cost: 1 + r.Int64N(max(l.Count/8, 1))}
			all = slices.DeleteFunc(all, func(s spent) bool { return s.at <= a.Now-covered })
			if p.answer(a).Allowed() {
				all = append(all, spent{at: a.Now, units: a.Cost})
				continue
			}
			refused++
			if used := unitsOf(all, func(spent) bool { return true }); used+a.Cost <= l.Count-o.own+1 {
				t.Fatalf("life %d, %d per %s: %d refused though %d were spent within %d", life, l.Count, l.Period, a.Cost, used, covered)
			}
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

// A client that spends all at once gets all back after exactly one period, of any
// count and period.
func TestFamilyWindowBurstComesBack(t *testing.T) {
	for life := range lives(t, 2000, 200_000) {
		r := rand.New(rand.NewPCG(uint64(life), 43))
		l := mustCompile(t, &weir.Limit{Algorithm: algorithm.SlidingWindow, Count: someCount(r, weir.MaxCost), Period: somePeriod(r)})
		cells, now := newRow(l), r.Int64N(1<<51)
		for range 3 {
			if d := l.Algorithm.Step(cells, l, weir.Ask{Now: now, Cost: l.Count}); !d.Allowed() || d.ResetAfter != l.Period {
				t.Fatalf("%d per %s at %d: %v, reset after %s", l.Count, l.Period, now, d, d.ResetAfter)
			}
			now += micros.Of(l.Period) - 1
			if d := l.Algorithm.Step(cells, l, weir.Ask{Now: now, Cost: 1}); d.RetryAfter != time.Microsecond {
				t.Fatalf("%d per %s: %v a microsecond before", l.Count, l.Period, d)
			}
			now++
		}
	}
}

// Five an hour, one after the other: each comes back within a fortieth of the
// period, and what is told as the wait is the least one.
func TestWindowWaitsAreExact(t *testing.T) {
	l := mustCompile(t, weir.PerMinute(5, algorithm.SlidingWindow))
	cells := newRow(l)
	const second = 1_000_000
	now := int64(1_700_000_000 * second)
	for range 5 {
		l.Algorithm.Step(cells, l, weir.Ask{Now: now, Cost: 1})
		now += 4 * second
	}
	first := now - 20*second
	for i := range int64(20) {
		d := l.Algorithm.Step(cells, l, weir.Ask{Now: now, Cost: 1})
		if d.Allowed() {
			t.Fatalf("the %d. unit more passes at once", i)
		}
		wait := micros.Of(d.RetryAfter)
		if l.Algorithm.Step(cells, l, weir.Ask{Now: now + wait - 1, Cost: 1, Verb: weir.Peek}).Allowed() {
			t.Errorf("the %d. unit more passes before its wait is over", i)
		}
		now += wait
		if d := l.Algorithm.Step(cells, l, weir.Ask{Now: now, Cost: 1}); !d.Allowed() {
			t.Errorf("the %d. unit more is refused after its wait: %v", i, d)
		}
		if i < 5 {
			if late := now - (first + i*4*second + 60*second); late < 0 || late > 60*second/40 {
				t.Errorf("the %d. unit comes back %d microseconds late", i, late)
			}
		}
	}
}

// FuzzSlidingWindow asks the algorithm and its oracle the same, of any limit.
func FuzzSlidingWindow(f *testing.F) {
	f.Add(int64(100), int64(60_000_000), uint8(0), []byte("spend, and then again, and so on"))
	f.Add(int64(1), int64(3), uint8(1), []byte{0, 255, 3, 7, 64, 128, 9, 200})
	f.Add(int64(weir.MaxCost), int64(864e8), uint8(4), []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
	f.Fuzz(func(t *testing.T, count, period int64, grain uint8, script []byte) {
		l := &weir.Limit{Algorithm: algorithm.SlidingWindow, Count: count, Period: time.Duration(period) * time.Microsecond}
		l.Grain = int(grain)
		if period < 1 || period > int64(weir.MaxPeriod/time.Microsecond) || l.Compile() != nil || len(script) > 2000 {
			return
		}
		p := &player{c: oracleCase{most: countOf}, l: l, model: newWindowOracle(l), cells: newRow(l), now: 1 << 50}
		for ; len(script) >= 8; script = script[8:] {
			w := binary.LittleEndian.Uint64(script)
			p.r = rand.New(rand.NewPCG(w, 1))
			p.now = min(max(p.now+p.elapse(), 0), 1<<51)
			d, err := p.step(p.ask())
			if err != nil {
				t.Fatal(fmt.Errorf("%d per %s, grain %d: %w\n%s", l.Count, l.Period, l.Grain, err, p.log))
			}
			p.left = d.Remaining
		}
	})
}

// TestWindowForcedFarAbove: however much is forced, no more than 2^53 units and a batch count,
// and the next request is refused.
func TestWindowForcedFarAbove(t *testing.T) {
	for _, count := range []int64{1, 20, 21, 16_384, 16_385, weir.MaxCost} {
		l := mustCompile(t, &weir.Limit{Algorithm: algorithm.SlidingWindow, Count: count, Period: time.Minute})
		cells, now := newRow(l), int64(1<<50)
		for n := range int64(5000) {
			l.Algorithm.Step(cells, l, weir.Ask{Now: now + n, Cost: weir.MaxCost, Verb: weir.Force})
			if d := l.Algorithm.Step(cells, l, weir.Ask{Now: now + n, Cost: 1}); d.Allowed() || d.Remaining != 0 {
				t.Fatalf("%d a minute after %d forced costs: %s", count, n+1, d)
			}
			var sum int64
			l.Algorithm.(weir.Carrier).Spent(cells, l, now+n, func(_, units int64) { sum += units })
			if sum < count || sum > weir.MaxCost+weir.MaxCost/64 {
				t.Fatalf("%d a minute after %d forced costs: %d units count", count, n+1, sum)
			}
		}
	}
}
