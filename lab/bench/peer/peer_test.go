package peer

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// eachSubject runs f on a fresh limiter of every subject.
func eachSubject(t *testing.T, limit Limit, f func(t *testing.T, allow Allow)) {
	for _, s := range All() {
		t.Run(s.Name, func(t *testing.T) {
			allow, done, err := s.Open(limit)
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			f(t, allow)
		})
	}
}

// A comparison is fair only if all decide alike: of one burst exactly Burst
// pass, whoever asks and however many at once.
func TestEveryLimiterAdmitsExactlyTheBurst(t *testing.T) {
	const burst, askers, each = 1000, 8, 5000
	eachSubject(t, Limit{Burst: burst, Every: time.Hour}, func(t *testing.T, allow Allow) {
		var admitted atomic.Int64
		var all sync.WaitGroup
		for range askers {
			all.Go(func() {
				for range each {
					if allow("one") {
						admitted.Add(1)
					}
				}
			})
		}
		all.Wait()
		if n := admitted.Load(); n != burst {
			t.Errorf("admitted %d of a burst of %d", n, burst)
		}
		if !allow("another") {
			t.Error("a second key was refused: keys are not apart")
		}
	})
}

// What the shapes rely on: the limits that they use are not exhausted, nor does
// a span of theirs overflow.
func TestEveryLimiterTakesLargeLimits(t *testing.T) {
	for _, limit := range []Limit{
		{Burst: 10_000_000, Every: 100 * time.Second},
		{Burst: 1_000_000_000, Every: time.Millisecond},
	} {
		eachSubject(t, limit, func(t *testing.T, allow Allow) {
			for i := range 10_000 {
				if !allow("one") {
					t.Fatalf("%+v: request %d was refused", limit, i+1)
				}
			}
		})
	}
}

func TestTokenBucketsRefill(t *testing.T) {
	// Limiters that count in windows give back all at once, so only these.
	for _, name := range []string{Ours, "x/time/rate, sync.Map", "x/time/rate, 256 shards", "throttled memstore"} {
		s, ok := ByName(name)
		if !ok {
			t.Fatalf("no limiter %q", name)
		}
		allow, done, err := s.Open(Limit{Burst: 5, Every: 2 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		// Ten units after the burst take 20 ms, or longer where others keep the
		// processor busy; never less.
		start := time.Now()
		for admitted := 0; admitted < 15; {
			if allow("one") {
				admitted++
			}
			if time.Since(start) > time.Minute {
				t.Fatalf("%s: admitted %d in a minute, want 15 in 20 ms", name, admitted)
			}
		}
		// Clocks may be a millisecond off.
		if took := time.Since(start); took < 19*time.Millisecond {
			t.Errorf("%s: admitted 15 in %s, want 20 ms or more", name, took)
		}
		done()
	}
}
