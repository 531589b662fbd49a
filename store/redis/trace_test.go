package redis

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
)

// TestTraces asks the store and the algorithms themselves the same random
// questions: all verbs, receipts and leases, costs far beyond the limit, clocks
// that go back, and limits that are changed under way.
func TestTraces(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	for _, a := range algorithm.All {
		if _, ok := a.(algorithm.Scripted); !ok {
			continue
		}
		t.Run(a.Name(), func(t *testing.T) {
			t.Parallel()
			tr := newTrace(t, "redis://"+r.Addr, a)
			decisions := 12_000
			switch {
			case os.Getenv("WEIR_SOAK") == "1":
				decisions = 1_000_000
			case testing.Short():
				decisions = 2_000
			}
			for tr.decided < decisions {
				tr.ask(t)
			}
		})
	}
}

// A node whose clock was days ahead, and is set right, counts calendar windows on.
func TestCalendarAfterTheClockWasSet(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	now := int64(1_773_500_966_535_897)
	s := openTold(t, "redis://"+r.Addr, func() int64 { return now })
	l := &weir.Limit{Algorithm: algorithm.FixedWindow, Count: 10, Period: 24 * time.Hour, Params: params.Params{Anchor: params.AnchorCalendar}}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	for _, days := range []int64{0, 9, -5, 3, -20} {
		now += days * 24 * 3600e6
		d, err := s.TakeOne(t.Context(), fmt.Sprint("key", days), l, 1)
		if err != nil || d.Remaining != 9 {
			t.Errorf("%d days on: %+v, %v", days, d, err)
		}
	}
}

// Leases whose units add up to more than a double can hold leave nothing behind.
func TestHugeLeases(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	now := int64(1_773_500_966_535_897)
	s := openTold(t, "redis://"+r.Addr, func() int64 { return now })
	l := &weir.Limit{Algorithm: algorithm.Concurrency, Count: 10, Period: time.Second}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	take := func(id, cost int64, v weir.Verb) weir.Decision {
		t.Helper()
		ops := []weir.Op{{Key: "k", Limit: l, Cost: cost, ID: id, Verb: v}}
		if err := s.Take(t.Context(), ops); err != nil {
			t.Fatal(err)
		}
		return ops[0].Decision
	}
	for id, cost := range []int64{3_919_937_471_807_587, 6_079_810_604_566_113, weir.MaxCost, 1 << 32, 1<<32 + 1} {
		take(int64(id+1), cost, weir.Force)
		if got := take(0, 1, weir.Peek).Remaining; got != 0 {
			t.Errorf("%d left after %d were forced", got, cost)
		}
	}
	take(2, 1, weir.Refund)
	take(5, 1, weir.Refund)
	now += l.Period.Microseconds()
	take(7, 3, weir.Spend)
	if d := take(0, 1, weir.Peek); d.Remaining != 7 {
		t.Errorf("%d left of 10 when all but 3 have ended, want 7", d.Remaining)
	}
	take(7, 1, weir.Refund)
	if n := r.Do(t, "DBSIZE"); n != int64(0) {
		t.Errorf("%v keys are left", n)
	}
}

// newRandom returns chance that WEIR_SEED repeats.
func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(seeds.Of(t), 0))
}

// A trace asks about one algorithm.
type trace struct {
	*rand.Rand
	store    *Store
	groups   [][]*weir.Limit // of each group one limit is in force at a time
	current  []*weir.Limit
	now      int64
	rows     map[string][]int64
	receipts [32]int64
	decided  int
	leases   bool
}

func newTrace(t *testing.T, url string, a weir.Algorithm) *trace {
	tr := &trace{Rand: newRandom(t), now: 1_773_500_966_535_897, rows: map[string][]int64{}}
	tr.store = openTold(t, url, func() int64 { return tr.now })
	for i, group := range variants(a) {
		for _, l := range group {
			l.Scope, l.Algorithm = fmt.Sprint("scope", i), a
			if t := a.Traits(); t&weir.Lends != 0 && t&weir.Refills == 0 && a != algorithm.FixedWindow {
				l.Scope += l.Period.String() // what is carried to other periods has tests of its own
			}
			if err := l.Compile(); err != nil {
				t.Fatal(err)
			}
			tr.leases = l.Traits()&weir.Leases != 0
		}
		tr.groups, tr.current = append(tr.groups, group), append(tr.current, group[0])
	}
	return tr
}

// variants returns groups of limits that follow each other in reloads.
func variants(a weir.Algorithm) [][]*weir.Limit {
	all := [][]*weir.Limit{
		{{Count: 5, Period: 100 * time.Millisecond}, {Count: 3, Period: 100 * time.Millisecond}, {Count: 7, Period: 100 * time.Millisecond}},
		{{Count: 100, Period: time.Minute, Burst: 20}, {Count: 60, Period: time.Minute, Burst: 30}, {Count: 100, Period: 30 * time.Second}},
		{{Count: 7919, Period: 7 * time.Second}},
		{{Count: 1, Period: time.Hour}, {Count: 2, Period: time.Hour}},
	}
	with := func(p params.Params, counts ...int64) {
		var group []*weir.Limit
		for _, n := range counts {
			group = append(group, &weir.Limit{Count: n, Period: time.Second, Params: p})
		}
		all = append(all, group)
	}
	switch a {
	case algorithm.TokenBucket, algorithm.LeakyBucket:
		with(params.Params{}, 1_000_003)
		with(params.Params{}, 1999, 7, 1000)
	case algorithm.LeakyQueue:
		with(params.Params{Free: 3, MaxDelay: 250 * time.Millisecond}, 10, 13)
	case algorithm.FixedWindow:
		with(params.Params{Anchor: params.AnchorFirst}, 8, 5)
		with(params.Params{Phase: 300 * time.Millisecond}, 8)
		with(params.Params{}, 10_000_000)
		for c := params.CalendarDay; c <= params.CalendarYear; c++ {
			with(params.Params{Anchor: params.AnchorCalendar, Calendar: c}, 8, 9)
		}
	case algorithm.SlidingWindow:
		with(params.Params{}, 21, 100, 64, 65, 1000, 16_384, 700)
		with(params.Params{}, 2, 20, 7)
		with(params.Params{}, 1<<40, 16_385, 1<<53, 1<<53-1, 70_000, 7*1<<50)
		with(params.Params{Grain: 1}, 100, 30)
		with(params.Params{Grain: 4}, 1)
		with(params.Params{Grain: 3}, 20, 8)
		with(params.Params{Grain: 4}, 1000, 5000)
		all = append(all, []*weir.Limit{{Count: 9, Period: 3 * time.Microsecond}, {Count: 5, Period: 3 * time.Microsecond}},
			[]*weir.Limit{{Count: 900, Period: 7919 * time.Microsecond}, {Count: 5000, Period: 7919 * time.Microsecond, Params: params.Params{Grain: 2}}},
			[]*weir.Limit{{Count: 1 << 33, Period: 365 * 24 * time.Hour}, {Count: 1 << 35, Period: 365 * 24 * time.Hour}})
	case algorithm.SlidingCounter:
		with(params.Params{}, 1<<40)
		all = append(all, []*weir.Limit{{Count: 1 << 33, Period: 365 * 24 * time.Hour}, {Count: 1 << 35, Period: 365 * 24 * time.Hour}})
	case algorithm.SlidingSubwindows:
		with(params.Params{Form: params.Weighted, Precision: 10}, 30, 20)
		with(params.Params{Form: params.Lenient, Precision: 2}, 30, 40)
		with(params.Params{Precision: 240}, 100_000, 70_000)
		with(params.Params{Form: params.Weighted}, 1<<33)
		with(params.Params{Precision: 12, Form: params.Strict}, 30)
		with(params.Params{Precision: 12, Form: params.Weighted}, 30)
		all[len(all)-2] = append(all[len(all)-2], all[len(all)-1]...)
		all = all[:len(all)-1]
	case algorithm.SlidingLog:
		with(params.Params{MaxLog: 5000}, 2500, 40)
	case algorithm.Concurrency:
		with(params.Params{}, 9_990, 10)
	}
	return all
}

// ask asks one question, or several at once of keys of their own.
func (tr *trace) ask(t *testing.T) {
	n := 1
	if tr.IntN(2) > 0 {
		n = 1 + tr.IntN(48)
	}
	if tr.IntN(200) == 0 {
		i := tr.IntN(len(tr.groups))
		tr.current[i] = tr.groups[i][tr.IntN(len(tr.groups[i]))]
	}
	together := n > 1 && n < 9
	if together {
		n = 2 + n%2
	}
	ops := make([]weir.Op, n)
	for i := range ops {
		ops[i] = tr.op()
		if n > 1 {
			ops[i].Key = fmt.Sprint(ops[i].Key, " of ", i)
			ops[i].Role = weir.Always
		}
		if together {
			ops[i].Role, ops[i].Verb = weir.Enforce, weir.Spend
		}
		if tr.IntN(8) == 0 {
			ops[i].Cost = min(tr.remaining(ops[i])+int64(tr.IntN(2)), weir.MaxCost)
		}
	}
	asked := fmt.Sprintf("%+v", ops)
	if err := tr.store.Take(t.Context(), ops); err != nil {
		t.Fatalf("%v: %v", asked, err)
	}
	if together && !tr.allow(ops) {
		// All or nothing: each says what a Peek says.
		for i := range ops {
			ops[i].Verb = weir.Peek
		}
	}
	for i := range ops {
		o := &ops[i]
		tr.decided++
		want, cells := tr.step(o)
		if o.Decision != want || o.Now != tr.now {
			t.Fatalf("decision %d at %d: %s %q of %d %q, id %d charged at %d, params %+v\nanswered %+v at %d\n    want %+v\nrow %v", tr.decided, tr.now, o.Verb, o.Key,
				o.Cost, o.Limit.Name, o.ID, o.FlowsFrom, o.Limit.Params, o.Decision, o.Now, want, cells[:min(len(cells), 12)])
		}
		if together && o.Charged != (o.Verb == weir.Spend) {
			t.Fatalf("decision %d of %s: charged %v", tr.decided, asked, o.Charged)
		}
		if o.Charged {
			tr.receipts[tr.IntN(len(tr.receipts))] = o.Receipt()
		}
	}
	tr.now += tr.pause()
}

// allow reports whether the algorithm allows all of ops.
func (tr *trace) allow(ops []weir.Op) bool {
	all := true
	for i := range ops {
		o := ops[i]
		o.Verb = weir.Peek
		d, _ := tr.step(&o)
		all = all && d.Allowed()
	}
	return all
}

// remaining returns how many units of an op's key are left: so many are allowed, and
// one more is not.
func (tr *trace) remaining(o weir.Op) int64 {
	row := make([]int64, o.Limit.Cells)
	copy(row, tr.rows[fmt.Sprint(o.Key, o.Limit.ID())])
	return o.Limit.Algorithm.Step(row, o.Limit, weir.Ask{Now: tr.now, Cost: 1, ID: o.ID, Verb: weir.Peek}).Remaining
}

// step asks the algorithm, and returns the row as it was.
func (tr *trace) step(o *weir.Op) (weir.Decision, []int64) {
	name := fmt.Sprint(o.Key, o.Limit.ID())
	row := tr.rows[name]
	if row == nil {
		row = make([]int64, o.Limit.Cells)
		tr.rows[name] = row
	}
	before := append([]int64(nil), row[:min(len(row), 12)]...)
	return o.Limit.Algorithm.Step(row, o.Limit, weir.Ask{Now: tr.now, Cost: o.Cost, ID: o.AskID(), Verb: o.Verb}), before
}

func (tr *trace) op() weir.Op {
	l := tr.current[tr.IntN(len(tr.current))]
	o := weir.Op{Key: fmt.Sprint("{key}%", tr.IntN(2)), Limit: l, Cost: tr.cost(l)}
	o.Verb = [...]weir.Verb{weir.Spend, weir.Spend, weir.Spend, weir.Spend, weir.Peek, weir.Force, weir.Refund}[tr.IntN(7)]
	if tr.leases {
		o.ID = 1 + tr.Int64N(12)
		if tr.IntN(20) == 0 {
			o.ID = (&weir.Request{Lease: fmt.Sprint(tr.IntN(1000))}).LeaseID()
		}
	} else if tr.IntN(2) == 0 {
		o.ID = tr.receipts[tr.IntN(len(tr.receipts))]
		if tr.IntN(2) == 0 {
			o.FlowsFrom = tr.now - tr.Int64N(int64(1)<<tr.IntN(40))
		}
	}
	return o
}

func (tr *trace) cost(l *weir.Limit) int64 {
	switch tr.IntN(32) {
	case 0:
		return 0
	case 1:
		return tr.Int64N(weir.MaxCost + 1)
	case 2, 3:
		return min(tr.Int64N(l.Count+l.Count/4+2), weir.MaxCost)
	case 4, 5, 6, 7:
		return 1 + tr.Int64N(max(l.Count/4, 1))
	}
	return 1
}

// pause returns how far the clock moves, in microseconds: now and then back.
func (tr *trace) pause() int64 {
	switch tr.IntN(60) {
	case 0:
		return tr.Int64N(3 * 3600e6)
	case 1:
		return -tr.Int64N(200e3)
	case 2:
		if tr.IntN(4) == 0 {
			return -tr.Int64N(5 * 60e6)
		}
		return -tr.Int64N(3e6)
	case 3, 4, 5, 6:
		return tr.Int64N(20e6)
	case 7, 8, 9, 10, 11, 12:
		return tr.Int64N(1e6)
	case 13, 14, 15, 16, 17, 18, 19, 20:
		return 0
	}
	return tr.Int64N(5e3)
}
