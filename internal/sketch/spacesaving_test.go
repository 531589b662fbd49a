package sketch_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/sketch"
)

func summary[K sketch.ID](t *testing.T, counters int) *sketch.SpaceSaving[K] {
	t.Helper()
	s, err := sketch.NewSpaceSaving[K](counters)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// checkSummary holds a summary against exact counts: the whole theorem.
func checkSummary[K sketch.ID](t *testing.T, s *sketch.SpaceSaving[K], exact map[K]int64, counters int) {
	t.Helper()
	var total int64
	for _, n := range exact {
		total += n
	}
	most := total / int64(counters)
	kept := map[K]bool{}
	top := s.TopCounters(counters)
	for i, c := range top {
		kept[c.Key] = true
		if n := exact[c.Key]; c.Count < n || c.Count-c.Error > n {
			t.Fatalf("key %v: %d units outside %d-%d..%d", c.Key, n, c.Count, c.Error, c.Count)
		}
		if c.Error > most {
			t.Fatalf("key %v: error %d above M/c = %d", c.Key, c.Error, most)
		}
		if i > 0 && c.Count > top[i-1].Count {
			t.Fatalf("Top is out of order at %d: %v", i, top)
		}
	}
	for key, n := range exact {
		if n > most && !kept[key] {
			t.Fatalf("key %v with %d units above M/c = %d has no counter", key, n, most)
		}
	}
	if len(top) != min(counters, len(exact)) {
		t.Errorf("%d keys have a counter, want %d", len(top), min(counters, len(exact)))
	}
}

func TestSpaceSavingBound(t *testing.T) {
	f := func(counters int, next func() (uint64, int64)) {
		t.Helper()
		s := summary[uint64](t, counters)
		exact := map[uint64]int64{}
		for range 50_000 {
			key, n := next()
			s.AddUnits(key, n)
			exact[key] += n
		}
		checkSummary(t, s, exact, counters)
	}
	z, r := zipf(3, 20_000), rand.New(rand.NewPCG(3, 3))
	f(200, func() (uint64, int64) { return z.Uint64(), 1 })
	f(64, func() (uint64, int64) { return z.Uint64(), 1 + r.Int64N(100) })
	f(1, func() (uint64, int64) { return z.Uint64(), 1 })
	f(30_000, func() (uint64, int64) { return z.Uint64(), 1 })
	round := uint64(0)
	f(100, func() (uint64, int64) { round++; return round % 101, 1 }) // evicts the next key each time
}

func TestSpaceSavingEdges(t *testing.T) {
	for _, n := range []int{0, -1, sketch.MaxCounters + 1} {
		if _, err := sketch.NewSpaceSaving[uint64](n); err == nil {
			t.Errorf("NewSpaceSaving(%d) succeeded", n)
		}
	}
	s := summary[string](t, 2)
	s.AddUnits("a", 0)
	s.AddUnits("a", -4)
	if len(s.TopCounters(1)) != 0 {
		t.Error("a cost below 1 took a counter")
	}
	s.AddUnits("a", math.MaxInt64)
	s.AddUnits("a", math.MaxInt64)
	s.AddUnits("b", 1)
	s.AddUnits("c", 2)
	want := "[{a 9223372036854775807 0} {c 3 1}]"
	if got := fmt.Sprint(s.TopCounters(9)); got != want {
		t.Errorf("Top = %s, want %s", got, want)
	}
	if got := s.TopCounters(-1); len(got) != 0 {
		t.Errorf("Top(-1) = %v", got)
	}
}
