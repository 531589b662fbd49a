package redis

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
)

// TestFamilyTwinsAgreeAtTheEdges asks every algorithm and its twin about limits,
// costs and times at the edges of what there can be, and compares all fields.
func TestFamilyTwinsAgreeAtTheEdges(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	limits := 48 // of each algorithm
	switch {
	case os.Getenv("WEIR_SOAK") != "":
		limits = 3000
	case testing.Short():
		limits = 16
	}
	for _, a := range algorithm.All {
		if _, ok := a.(algorithm.Scripted); !ok {
			continue
		}
		t.Run(a.Name(), func(t *testing.T) {
			t.Parallel()
			tr := &trace{Rand: newRandom(t), rows: map[string][]int64{}, leases: a.Name() == algorithm.Concurrency.Name()}
			tr.store = openTold(t, "redis://"+r.Addr, func() int64 { return tr.now })
			refused := 0
			for i := range limits {
				refused += tr.life(t, tr.edgeLimit(a, i))
			}
			if refused < limits*4 {
				t.Errorf("only %d decisions of %d limits refused", refused, limits)
			}
		})
	}
}

// edgeCounts and edgePeriods are numbers at which something changes: the width of a
// counter, the length of a step, what a double holds.
var (
	edgeCounts = []int64{1, 2, 3, 59, 60, 61, 1<<11 - 1, 1 << 11, 1<<11 + 1, 1<<16 - 1, 1 << 16, 1<<32 - 1, 1 << 32, 1 << 40,
		1 << 52, weir.MaxCost - 1, weir.MaxCost}
	edgePeriods = []time.Duration{1, 2, 59, 60, 61, 1000, 1e6, 6e7, 36e8, 864e8, weir.MaxPeriod / time.Microsecond}
)

// near returns n or a number beside it, or any below it.
func (tr *trace) near(n int64) int64 {
	switch tr.IntN(5) {
	case 0:
		return max(n-1, 0)
	case 1:
		return n + 1
	case 2:
		return tr.Int64N(max(n, 1))
	}
	return n
}

// edgeLimit returns a limit of its own scope that a store can keep.
func (tr *trace) edgeLimit(a weir.Algorithm, i int) *weir.Limit {
	for {
		l := &weir.Limit{Scope: fmt.Sprint("edge", i), Algorithm: a, Count: edgeCounts[tr.IntN(len(edgeCounts))],
			Period: edgePeriods[tr.IntN(len(edgePeriods))] * time.Microsecond}
		if tr.IntN(2) == 0 {
			l.Burst = edgeCounts[tr.IntN(len(edgeCounts))]
		}
		if tr.IntN(3) == 0 {
			l.Count = min(max(tr.near(l.Count), 1), weir.MaxCost)
		}
		switch a.Name() {
		case "sliding_subwindows":
			l.Form, l.Precision = params.Form(tr.IntN(3)), []int{0, 2, 3, 60, 240}[tr.IntN(5)]
		case "fixed_window":
			l.Anchor = params.Anchor(tr.IntN(3))
			if l.Anchor == params.AnchorCalendar {
				l.Calendar = params.CalendarDay + params.Calendar(tr.IntN(4))
			}
		case "leaky_queue":
			l.Free = int64(tr.IntN(3))
		case "sliding_log":
			l.MaxLog = 10_000
		case "concurrency":
			l.Count = min(l.Count, 10_000)
		}
		if l.Compile() == nil && Check(l) == nil {
			return l
		}
	}
}

// life asks about one key from an edge of time on, and returns how many decisions
// refused.
func (tr *trace) life(t *testing.T, l *weir.Limit) (refused int) {
	t.Helper()
	period := micros.Of(l.Period)
	starts := []int64{1, 1_773_500_966_535_897, 1_773_500_966_535_897 / max(period, 1) * period, 1 << 50}
	tr.now = max(tr.near(starts[tr.IntN(len(starts))]), 1)
	left := l.Burst
	var log []string
	for n := range 60 {
		o := weir.Op{Key: "k", Limit: l}
		o.Verb = [...]weir.Verb{weir.Spend, weir.Spend, weir.Spend, weir.Peek, weir.Force, weir.Refund}[tr.IntN(6)]
		costs := []int64{0, 1, l.Count, l.Burst, left, left + 1, l.Count / 2, weir.MaxCost}
		o.Cost = min(tr.near(costs[tr.IntN(len(costs))]), weir.MaxCost)
		if a := l.Algorithm.Name(); a == "sliding_log" {
			o.Cost = min(o.Cost, 10_001) // a log writes each
		}
		if tr.leases {
			o.ID = 1 + tr.Int64N(12)
		} else if tr.IntN(2) == 0 {
			o.ID = tr.receipts[tr.IntN(len(tr.receipts))]
			if tr.IntN(2) == 0 {
				o.FlowsFrom = max(tr.now-tr.near(period), 1)
			}
		}
		ops := []weir.Op{o}
		if err := tr.store.Take(t.Context(), ops); err != nil {
			t.Fatalf("%+v: %v", ops, err)
		}
		want, cells := tr.step(&ops[0])
		log = append(log, fmt.Sprintf("at %d %s %d (%d): %v", tr.now, o.Verb, o.Cost, o.ID, want))
		if got := ops[0]; got.Decision != want || got.Now != tr.now {
			t.Fatalf("%v\nstep %d at %d: %s %d of %d per %v, burst %d, id %d charged at %d, params %+v\nanswered %+v at %d\n    want %+v\nrow %v", strings.Join(log, "\n"), n, tr.now,
				o.Verb, o.Cost, l.Count, l.Period, l.Burst, o.ID, o.FlowsFrom, l.Params, got.Decision, got.Now, want, cells)
		}
		if !want.Allowed() {
			refused++
		}
		if left = want.Remaining; ops[0].Charged {
			tr.receipts[tr.IntN(len(tr.receipts))] = ops[0].Receipt()
		}
		pauses := []int64{0, 0, 1, period, period / l.Count, period / 60, micros.Of(max(want.RetryAfter, 0)), micros.Of(want.ResetAfter)}
		// Never back: when a key was forgotten would matter, and may differ.
		tr.now = min(max(tr.now+tr.near(max(pauses[tr.IntN(len(pauses))], 0)), 1), 1<<51)
	}
	return refused
}
