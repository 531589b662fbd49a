package storetest

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
)

// RunChanges changes limits on stores that open returns: their numbers, their algorithms and
// their periods. What was spent stays spent. A fixed window of another period may keep its
// end if the store keepsEnds.
func RunChanges(t *testing.T, open Open, keepsEnds bool) {
	t.Helper()
	changeBuckets(t, open)
	lowerWindow(t, open)
	changeWindows(t, open)
	changeCounters(t, open)
	changeForms(t, open, keepsEnds)
}

// changeBuckets changes the numbers of buckets as people do, back and forth, on one store
// that open returns. Each decision is that of a bucket which is kept in units: what was
// spent stays spent, and what remains is the burst less that.
func changeBuckets(t *testing.T, open Open) {
	t.Helper()
	var clock atomic.Int64
	clock.Store(start)
	s := open(t, clock.Load)
	lives := uint64(40)
	if os.Getenv("WEIR_SOAK") == "1" {
		lives = 4000
	}
	for life := range lives {
		r := rand.New(rand.NewPCG(life, 31))
		c := &changer{T: t, store: s, set: clock.Store, Rand: r, now: start, owed: new(big.Rat), slack: new(big.Rat), key: fmt.Sprint("changed ", life)}
		a := []weir.Algorithm{algorithm.TokenBucket, algorithm.LeakyBucket}[life%2]
		versions := c.versions(a, fmt.Sprint("changed ", life))
		c.become(versions[0])
		for step := range 120 {
			if r.IntN(4) == 0 {
				c.become(versions[r.IntN(len(versions))])
			}
			c.step()
			if t.Failed() {
				for _, l := range versions {
					t.Logf("a version of life %d: %d per %s, burst %d", life, l.Count, l.Period, l.Burst)
				}
				t.Fatalf("life %d, step %d under %d per %s, burst %d", life, step, c.l.Count, c.l.Period, c.l.Burst)
			}
		}
	}
}

// lowerWindow lowers the count of a window to one whose row is short, of a few batches, and
// raises it to one between: what was spent before, and what a third limit spends meanwhile, is
// more than a few batches.
func lowerWindow(t *testing.T, open Open) {
	t.Helper()
	s := open(t, func() int64 { return start })
	window := func(count int64, period time.Duration) *weir.Limit {
		return compiled(t, &weir.Limit{Name: "lowered", Algorithm: algorithm.SlidingWindow, Count: count, Period: period})
	}
	for _, high := range []*weir.Limit{window(16_385, time.Minute), window(100_000, time.Minute), window(1_000, time.Hour), window(100_000, time.Hour)} {
		for _, first := range []bool{false, true} { // the low count was asked before, and is an elder when the high one spends
			key := fmt.Sprint("lowered from ", high.Count, high.Period, first)
			ask := func(l *weir.Limit, verb weir.Verb, cost int64) int64 {
				ops := []weir.Op{{Key: key, Limit: l, Cost: cost, Verb: verb}}
				if err := s.Take(context.Background(), ops); err != nil {
					t.Fatal(err)
				}
				return ops[0].Decision.Remaining
			}
			if first {
				ask(window(40, time.Minute), weir.Spend, 1)
				ask(high, weir.Spend, high.Count-1)
			} else {
				ask(high, weir.Spend, high.Count)
			}
			for _, count := range []int64{40, 1000} {
				if left := ask(window(count, time.Minute), weir.Spend, 1); left != 0 {
					t.Errorf("%s: %d of %d a minute are left", key, left, count)
				}
			}
		}
	}
}

// changeWindows changes the count of sliding windows on one store that open returns, in
// every third life their period and algorithm too. Under a limit of a minute, what was spent
// in the last minute is never there again. Where the count alone was changed, what was spent
// a tenth of a minute before that is there, but for a part of a batch.
func changeWindows(t *testing.T, open Open) {
	t.Helper()
	var clock atomic.Int64
	clock.Store(start)
	s := open(t, clock.Load)
	lives := uint64(30)
	if os.Getenv("WEIR_SOAK") == "1" {
		lives = 3000
	}
	for life := range lives {
		r := rand.New(rand.NewPCG(life, 37))
		counts := []int64{1, 2, 20, 21, 40, 100, 1000, 16_384, 16_385, 100_000}
		now, key := int64(start), fmt.Sprint("window ", life)
		var versions []*weir.Limit
		for range 2 + r.IntN(2) {
			versions = append(versions, compiled(t, &weir.Limit{Name: key, Algorithm: algorithm.SlidingWindow, Count: counts[r.IntN(len(counts))], Period: time.Minute}))
		}
		hasForms := life%3 == 2
		if hasForms {
			form := []weir.Algorithm{algorithm.SlidingWindow, algorithm.SlidingSubwindows}[r.IntN(2)]
			versions = append(versions, compiled(t, &weir.Limit{Name: key, Algorithm: form, Count: counts[r.IntN(len(counts))], Period: []time.Duration{2 * time.Minute, time.Hour}[r.IntN(2)]}))
		}
		l := versions[0]
		var spent []taking
		sum := func(within time.Duration) (n int64) {
			for _, x := range spent {
				if x.at > now-micros.Of(within) {
					n += x.units
				}
			}
			return n
		}
		for step := range 100 {
			if r.IntN(4) == 0 {
				l = versions[r.IntN(len(versions))]
			}
			now += r.Int64N(micros.Of(time.Minute) / []int64{1, 20, 1000}[r.IntN(3)])
			clock.Store(now)
			most, least := max(l.Count-sum(l.Period), 0), l.Count-sum(l.Period*11/10)
			o := weir.Op{Key: key, Limit: l, Cost: max(1, []int64{1, most, most + 1, r.Int64N(most + 1)}[r.IntN(4)])}
			o.Verb = []weir.Verb{weir.Spend, weir.Spend, weir.Spend, weir.Peek}[r.IntN(4)]
			ops := []weir.Op{o}
			if err := s.Take(context.Background(), ops); err != nil {
				t.Fatal(err)
			}
			d, left := ops[0].Decision, ops[0].Decision.Remaining
			if ops[0].Charged {
				spent = append(spent, taking{now, o.Cost})
				left += o.Cost
			}
			batch := l.Count / 16
			for _, v := range versions {
				batch = max(batch, v.Count/16) // of a row that is kept for when the count is raised again
			}
			if l.Period == time.Minute && left > most || !hasForms && left < least-batch {
				t.Fatalf("life %d, step %d, %d a minute: %d were left before %s of %d, want %d to %d: %s", life, step, l.Count, left, o.Verb, o.Cost, least, most, d)
			}
		}
	}
}

// changeCounters changes the count of sliding counters at one instant: what remains is
// the count less what was spent.
func changeCounters(t *testing.T, open Open) {
	t.Helper()
	s := open(t, func() int64 { return start })
	for life := range uint64(20) {
		r, key, spent := rand.New(rand.NewPCG(life, 41)), fmt.Sprint("counter ", life), int64(0)
		for step := range 50 {
			l := compiled(t, &weir.Limit{Name: key, Algorithm: algorithm.SlidingCounter, Period: time.Minute,
				Count: []int64{1, 100, 262_143, 262_144, 300_000, 1 << 33}[r.IntN(6)]})
			left := max(l.Count-spent, 0)
			ops := []weir.Op{{Key: key, Limit: l, Cost: max(1, []int64{1, left, left + 1, r.Int64N(left + 1)}[r.IntN(4)])}}
			if err := s.Take(context.Background(), ops); err != nil {
				t.Fatal(err)
			}
			if o := &ops[0]; o.Charged != (o.Cost <= left) {
				t.Fatalf("life %d, step %d, %d a minute: %d of %d: %s", life, step, l.Count, o.Cost, left, o.Decision)
			} else if o.Charged {
				spent += o.Cost
			}
		}
	}
}

// A changer is a bucket in units. What is owed is at least owed, and slack more at most,
// by what is rounded at each change.
type changer struct {
	*testing.T
	*rand.Rand
	store       weir.Store
	set         func(int64)
	key         string
	l           *weir.Limit
	now, at     int64 // at is when owed was right
	owed, slack *big.Rat
	last        *weir.Limit // by whose numbers it flows
	most        float64     // that may be owed: what was when it was changed, and twice the burst
}

// versions returns limits of one place, with numbers as people write them.
func (c *changer) versions(a weir.Algorithm, name string) []*weir.Limit {
	counts := []int64{1, 5, 10, 20, 21, 60, 100, 101, 997, 1000, 7919, 10_000, 10_001, 10_002, 16_384, 16_385, 1_000_000}
	periods := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}
	type numbers struct {
		count  int64
		period time.Duration
		burst  int64
	}
	first := numbers{count: counts[c.IntN(len(counts))], period: periods[c.IntN(len(periods))]}
	fixed := []int64{0, 10_000, 100, first.count}[c.IntN(4)]
	var all []*weir.Limit
	for i := range 2 + c.IntN(3) {
		n := first
		switch c.IntN(5) {
		case 0:
			n.count *= 10
		case 1:
			n.count = max(n.count/10, 1)
		case 2:
			n.count++
		case 3:
			n.count, n.period = counts[c.IntN(len(counts))], periods[c.IntN(len(periods))]
		default:
			n.burst = counts[c.IntN(len(counts))]
		}
		if i == 0 {
			n = first
		}
		if n.burst == 0 {
			n.burst = fixed
		}
		if n.burst/n.count > 1000 {
			n.period = min(n.period, time.Minute) // else it would owe for longer than a key may
		}
		all = append(all, compiled(c, &weir.Limit{Name: name, Algorithm: a, Count: n.count, Period: n.period, Burst: n.burst}))
	}
	return all
}

// become goes over to l, unless what is owed would take more than the 35 years that a key
// may owe.
func (c *changer) become(l *weir.Limit) {
	owed, _ := c.owed.Float64()
	if owed += 2 * float64(l.Burst); owed*float64(l.Period)/float64(l.Count) < float64(30*366*24*time.Hour) || c.l == nil {
		c.l = l
	}
}

// rate returns how many units of l flow in within so many microseconds.
func rate(l *weir.Limit, us int64) *big.Rat {
	return new(big.Rat).Mul(big.NewRat(l.Count, micros.Of(l.Period)), new(big.Rat).SetInt64(us))
}

// flow has flow in what does until now, and goes over to the numbers of l.
func (c *changer) flow(l *weir.Limit) {
	if c.last != nil {
		in := rate(c.last, c.now-c.at)
		if c.owed.Sub(c.owed, in); c.owed.Sign() < 0 {
			if c.slack.Add(c.slack, c.owed); c.slack.Sign() < 0 {
				c.slack.SetInt64(0)
			}
			c.owed.SetInt64(0)
		}
	}
	if c.last != nil && c.last != l && c.owed.Sign()+c.slack.Sign() > 0 {
		c.slack.Add(c.slack, rate(l, 4)).Add(c.slack, rate(c.last, 2))
	}
	if owed, _ := c.owed.Float64(); owed <= float64(2*l.Burst) {
		c.most = float64(2 * l.Burst)
	} else if c.last == nil || c.last.Price != l.Price {
		c.most = owed + float64(2*l.Burst)
	}
	c.at, c.last = c.now, l
}

// left returns how many units remain at least and at most under l.
func (c *changer) left(l *weir.Limit) (least, most int64) {
	floor := func(owed *big.Rat) int64 {
		r := new(big.Rat).Sub(new(big.Rat).SetInt64(l.Burst), owed)
		if r.Sign() < 0 {
			return 0
		}
		return new(big.Int).Quo(r.Num(), r.Denom()).Int64()
	}
	return floor(new(big.Rat).Add(c.owed, c.slack)), floor(c.owed)
}

// step asks once, and compares.
func (c *changer) step() {
	switch c.IntN(3) {
	case 0:
		c.now += c.Int64N(1 + 2*micros.Of(c.l.Period)/c.l.Count)
	case 1:
		c.now += c.Int64N(micros.Of(c.l.Period))
	}
	c.set(c.now)
	c.flow(c.l)
	least, most := c.left(c.l)
	o := weir.Op{Key: c.key, Limit: c.l, Cost: max(1, []int64{1, most, most + 1, c.Int64N(most + 1)}[c.IntN(4)])}
	switch c.IntN(8) {
	case 0:
		o.Verb = weir.Peek
	case 1:
		o.Verb, o.Role = weir.Refund, weir.Always
	case 2:
		owed, _ := new(big.Rat).Add(c.owed, c.slack).Float64()
		if cost := 1 + c.Int64N(c.l.Burst); owed+float64(cost) < c.most {
			o.Verb, o.Role, o.Cost = weir.Force, weir.Always, cost
		}
	}
	ops := []weir.Op{o}
	if err := c.store.Take(context.Background(), ops); err != nil {
		c.Fatal(err)
	}
	o = ops[0]
	switch {
	case o.Verb == weir.Refund:
		if c.owed.Sub(c.owed, new(big.Rat).SetInt64(o.Cost)); c.owed.Sign() < 0 {
			c.owed.SetInt64(0)
		}
	case o.Verb == weir.Force:
	case o.Decision.Allowed() && o.Cost > most:
		c.Errorf("%d of %d passed", o.Cost, most)
	case !o.Decision.Allowed() && o.Cost <= least:
		c.Errorf("%d of %d were refused: %s", o.Cost, least, o.Decision)
	}
	if o.Charged && o.Verb != weir.Refund {
		c.owed.Add(c.owed, new(big.Rat).SetInt64(o.Cost))
	}
	if least, most = c.left(c.l); o.Decision.Remaining < least || o.Decision.Remaining > most {
		c.Errorf("%d remain after %d by verb %d, want %d to %d", o.Decision.Remaining, o.Cost, o.Verb, least, most)
	}
}
