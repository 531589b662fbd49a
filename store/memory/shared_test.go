package memory

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	seeding "github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/params"
)

// TestFamilyLimitsOfOneScope: the limits of one rule, its tiers and overrides, count
// in one scope by counts, periods and bursts of their own. What a key is refused by one
// of them does not depend on what other keys ask of the others.
func TestFamilyLimitsOfOneScope(t *testing.T) {
	rng := rand.New(rand.NewPCG(seeding.Of(t), 0))
	periods := []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}
	small := params.Params{Sketch: params.SketchOptions{Width: 1 << 12, Depth: 4, BloomBits: 1 << 14, BloomHashes: 3}}
	for _, a := range algorithm.All {
		if a.Traits()&weir.Leases != 0 {
			continue // each request needs a lease of its own
		}
		draw := func() *weir.Limit {
			l := &weir.Limit{Name: "rule", Scope: "d/rule", Algorithm: a, Count: 1 + rng.Int64N(30), Period: periods[rng.IntN(len(periods))]}
			if a.Traits()&weir.Sketches != 0 {
				l.Params = small
			}
			return compile(t, l)
		}
		for range 20 {
			among, clock := newStore(t, Options{})
			alone, other := newStore(t, Options{})
			others := []*weir.Limit{draw(), draw(), draw()}
			l := draw()
			ask := func(s *Store, key string, l *weir.Limit) weir.Decision {
				d, err := s.TakeOne(context.Background(), key, l, 1)
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			for i := range 60 {
				step := rng.Int64N(micros.Of(l.Period)/20 + 1)
				clock.Add(step)
				other.Add(step)
				ask(among, "other", others[rng.IntN(len(others))])
				if i%10 == 0 {
					among.sweeper.sweepPart(clock.Load(), i/10)
				}
				got, want := ask(among, "key", l), ask(alone, "key", l)
				if got.Allowed() != want.Allowed() || got.RetryAfter != want.RetryAfter || got.Remaining != want.Remaining {
					t.Fatalf("%s %d per %s, request %d: beside limits of other keys in its scope %s, alone %s", a.Name(), l.Count, l.Period, i, got, want)
				}
			}
		}
	}
}

// TestWindowsOfOldRulesAreDropped: what an approximate limit counted in another period
// is kept while it counts, and then no longer.
func TestWindowsOfOldRulesAreDropped(t *testing.T) {
	s, clock := newStore(t, Options{})
	limit := func(period time.Duration) *weir.Limit {
		return compile(t, &weir.Limit{Algorithm: algorithm.Approximate, Scope: "approximate", Count: 3, Period: period,
			Params: params.Params{Sketch: params.SketchOptions{Width: 1 << 10, BloomBits: 1 << 12, BloomHashes: 2}}})
	}
	minute, hour := limit(time.Minute), limit(time.Hour)
	for _, l := range []*weir.Limit{minute, hour} {
		if _, err := s.TakeOne(context.Background(), "k", l, 3); err != nil {
			t.Fatal(err)
		}
	}
	look := func(want ...bool) {
		t.Helper()
		s.sweeper.sweepPart(clock.Load(), 0)
		for i, l := range []*weir.Limit{minute, hour} {
			if _, ok := s.Approximate(l); ok != want[i] {
				t.Errorf("the window of %s: %t", l.Period, ok)
			}
		}
	}
	look(true, true)
	if d, err := s.TakeOne(context.Background(), "k", minute, 1); err != nil || d.Allowed() {
		t.Errorf("%s, %v", d, err)
	}
	clock.Add(micros.Of(4 * time.Minute))
	look(false, true)
	clock.Add(micros.Of(4 * time.Hour))
	look(false, true) // the last one stays, whoever asks next
}
