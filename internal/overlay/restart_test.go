package overlay_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/testing/clocked"
	seeding "github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/store/memory"
)

// TestFamilyOverrideTellsWhatBeginsAnew: a key that counts from zero under an
// override, or after one is taken back, is warned of, and no other.
func TestFamilyOverrideTellsWhatBeginsAnew(t *testing.T) {
	rng := rand.New(rand.NewPCG(seeding.Of(t), 0))
	ctx := context.Background()
	counts := []int64{1, 2, 20, 21, 100, 16_384, 16_385, 7919}
	ways := []weir.Algorithm{algorithm.SlidingWindow, algorithm.SlidingWindow, algorithm.TokenBucket, algorithm.FixedWindow, algorithm.SlidingCounter}
	for range 200 {
		periods := []time.Duration{time.Minute, time.Minute, time.Hour}
		count := func() int64 { return counts[rng.IntN(len(counts))] }
		period := func() time.Duration { return periods[rng.IntN(len(periods))] }
		l := &weir.Limit{Name: "permin", Scope: "api/user", Algorithm: ways[rng.IntN(len(ways))], Count: count(), Period: period()}
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		store, log := clocked.New(t), &logs{}
		o, err := overlay.New(ctx, overlay.Options{Rules: weir.Limits{l}, Board: store, Now: store.Now.Load, Restarts: memory.Restarts, Logger: log.logger()})
		if err != nil {
			t.Fatal(err)
		}
		n, err := weir.New(store, o, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, user := range []string{"overridden", "lifted", "overridden again"} {
			key := overlay.Target{Domain: "api", Entries: []weir.Entry{{Key: "user", Value: user}}, Limit: l, Key: user}
			left := func(spend bool) weir.Decision {
				d, err := n.Take(ctx, user, 0)
				if spend && err == nil {
					d, err = n.Take(ctx, user, d.Remaining)
				}
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			override := func() {
				if err := o.Keys.Override(ctx, key, overlay.Numbers{Count: count(), Period: period()}, 0, overlay.Author{}); err != nil {
					t.Fatal(err)
				}
			}
			if user != "overridden" {
				override()
			}
			was := left(true).Limit
			before := log.lines()
			if user != "lifted" {
				override()
			} else if _, err := o.Keys.LiftEntry(ctx, key, overlay.Override, overlay.Author{}); err != nil {
				t.Fatal(err)
			}
			told := strings.Contains(strings.TrimPrefix(log.lines(), before), "key counts from zero")
			if d := left(false); told != (d.Remaining == d.Limit.Burst) {
				t.Fatalf("%s, %s: %d per %s was %d per %s: of a key that spent all %d remain, told %t", l.Algorithm.Name(), user,
					d.Limit.Count, d.Limit.Period, was.Count, was.Period, d.Remaining, told)
			}
		}
	}
}
