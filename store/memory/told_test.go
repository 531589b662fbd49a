package memory

import (
	"strconv"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// TestTimeStandsStill: where something was decided later than the clock says, time
// stands still until the clock has caught up, however the segment was split or merged
// meanwhile. A processor that reads its counter ahead of a lock is late like that.
func TestTimeStandsStill(t *testing.T) {
	s := newIdle(Options{MaxBytes: 1 << 30})
	defer s.Close()
	late := s.clock.now(0) + time.Hour.Microseconds()
	tab := s.tables.bySize[1]
	tab.eachSegment(func(g *segment) { g.latest = late })
	plain := compile(t, weir.PerHour(1_000_000, algorithm.TokenBucket))
	other := compile(t, &weir.Limit{Name: "other", Algorithm: tally{cells: 2}, Count: 1000, Period: time.Minute})
	sketched := compile(t, &weir.Limit{Name: "sketched", Algorithm: algorithm.Approximate, Count: 1000, Period: time.Minute})
	take := func(what string, key int, limits ...*weir.Limit) {
		t.Helper()
		var ops []weir.Op
		for _, l := range limits {
			ops = append(ops, weir.Op{Key: strconv.Itoa(key), Limit: l, Cost: 1})
		}
		if err := s.Take(t.Context(), ops); err != nil {
			t.Fatal(err)
		}
		for i := range ops {
			if ops[i].Now != late {
				t.Fatalf("%s: key %d was decided at %d, want %d", what, key, ops[i].Now, late)
			}
		}
	}
	const keys = 100_000
	for k := range keys {
		take("new key", k, plain)
	}
	if s.Stats().Splits == 0 {
		t.Fatal("no segment has split")
	}
	for k := range keys {
		take("known key", k, plain)
	}
	// What is decided together is decided at the latest of the times, and then that is
	// the time for all of it.
	for range 2 {
		for k := range 100 {
			for _, limits := range [][]*weir.Limit{{plain, other}, {other, plain}, {plain, other, plain}} {
				s.tables.bySize[2].eachSegment(func(g *segment) { g.latest = 0 })
				take("several limits", k, limits...)
				take("the other limit alone", k, other)
			}
			take("estimated", k, sketched)
		}
	}
	for k := range keys {
		if _, err := s.Forget(t.Context(), strconv.Itoa(k), plain); err != nil {
			t.Fatal(err)
		}
	}
	// Of two that are merged, either may have decided last.
	tab.eachSegment(func(g *segment) {
		if g.bits > topBits && g.prefix&1 == 0 {
			g.latest = 0
		}
	})
	before := s.Stats().Shrinks
	for part := range sweepRounds {
		s.sweeper.sweepPart(s.clock.now(0), part)
	}
	if s.Stats().Shrinks == before {
		t.Fatal("no segments were merged")
	}
	for k := range keys / 100 {
		take("after a merge", k, plain)
	}
	// Another segment's time is its own.
	if d, err := s.TakeOne(t.Context(), "1", compile(t, &weir.Limit{Algorithm: algorithm.SlidingWindow, Count: 5, Period: time.Minute}), 1); err != nil || d.Remaining != 4 {
		t.Errorf("%+v, %v", d, err)
	}
	s.sweeper.sweepPart(late+1, 0)
	if g := tab.tops[0].directory.Load().segments[0].Load(); g.latest != late+1 {
		t.Errorf("rows were dropped as expired at %d, and the time is still %d", late+1, g.latest)
	}
}
