package event

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/store/memory"
)

// Every duration lies in its bucket, buckets have no gaps, and none above 64 ns is
// wider than an eighth of where it begins.
func TestLatencyBuckets(t *testing.T) {
	from := time.Duration(0)
	for b := range LatencyBuckets {
		bound := LatencyBound(b)
		if got := LatencyBucket(from); got != b {
			t.Fatalf("%d ns is in bucket %d, not in %d", from, got, b)
		}
		if got := LatencyBucket(bound - 1); got != b {
			t.Fatalf("%d ns is in bucket %d, not in %d", bound-1, got, b)
		}
		if width := bound - from; from >= 64 && width > from/8 {
			t.Fatalf("bucket %d from %d to %d ns is wider than an eighth", b, from, bound)
		}
		from = bound
	}
	if from < 30*time.Second {
		t.Errorf("buckets end at %s", from)
	}
	if b := LatencyBucket(time.Hour); b != LatencyBuckets-1 {
		t.Errorf("an hour is in bucket %d", b)
	}
	if b := LatencyBucket(-1); b != 0 {
		t.Errorf("a clock that was set back is in bucket %d", b)
	}
}

// slow is a memory store that takes a millisecond.
type slow struct{ weir.Store }

func (s slow) Take(ctx context.Context, ops []weir.Op) error {
	time.Sleep(time.Millisecond) // of the bubble's clock
	return s.Store.Take(ctx, ops)
}

// Of one decision in 256 the time is told, by each limit that the request met, and
// with the region in each event.
func TestLatencyIsTold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		defer store.Close()
		own := weir.Limits{weir.PerDay(1000, algorithm.TokenBucket), weir.PerMinute(1000, algorithm.FixedWindow)}
		queue := NewLocal(1000)
		var o *Observer
		var err error
		series := func() []limits.Ref { return []limits.Ref{{Limit: own[0]}, {Limit: own[1]}} }
		if o, err = New(Options{Queue: queue, Limits: series, Region: "eu-1", Sample: -1}); err != nil {
			t.Fatal(err)
		}
		lim, err := weir.New(slow{store}, own, weir.Options{Observers: []weir.Observer{o}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- o.Run(ctx) }()
		synctest.Wait()
		var r weir.Request // its first decision is the first of 256
		for range 3 * weir.LatencyEvery {
			r.Reset()
			r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "key", Value: "k"}}})
			if _, err := lim.Decide(ctx, &r); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if err := queue.Close(); err != nil {
			t.Fatal(err)
		}
		told := map[string]uint64{}
		err = queue.Receive(t.Context(), func(_ context.Context, batch []Event) error {
			for _, e := range batch {
				if e.Region != "eu-1" {
					t.Errorf("event %s is of region %q", e.ID(), e.Region)
				}
				if e.Rollup == nil || e.Rollup.Latency == nil {
					continue
				}
				if e.Rollup.Latency.Every != weir.LatencyEvery {
					t.Errorf("of one in %d", e.Rollup.Latency.Every)
				}
				for _, c := range e.Rollup.Latency.Counts {
					if bound := LatencyBound(c.Bucket); bound < time.Millisecond || bound > time.Millisecond*9/8+1 {
						t.Errorf("%d decisions of a millisecond are told as below %s", c.Count, bound)
					}
					told[e.Rollup.Algorithm] += c.Count
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprint(map[string]uint64{"token_bucket": 3, "fixed_window": 3}); fmt.Sprint(told) != want {
			t.Errorf("told %v, want %s", told, want)
		}
	})
}

func TestRegionIsBounded(t *testing.T) {
	opt := Options{Queue: NewLocal(1), Limits: func() []limits.Ref { return nil }, Region: string(make([]byte, MaxRegion+1))}
	if _, err := New(opt); err == nil {
		t.Error("a region of 64 bytes is taken")
	}
}

// To note a time costs no allocation.
func TestLatencyDoesNotAllocate(t *testing.T) {
	l := weir.PerDay(1, algorithm.TokenBucket)
	o, _, r := decided(t, l, 0)
	if n := testing.AllocsPerRun(100, func() { o.countLatency(r.Ops(), time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if got, _ := o.rollups.reported[l.Counters()].meter.takeMeasured(); got == nil || got.Counts[0].Count != 101 {
		t.Errorf("noted %+v", got)
	}
}

// decided returns an observer that knows l, and a request that was decided by it.
func decided(t *testing.T, l *weir.Limit, sample int64) (*Observer, *weir.Limiter, *weir.Request) {
	t.Helper()
	store := memory.New(memory.Options{})
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	o, err := New(Options{Queue: NewLocal(1), Limits: func() []limits.Ref { return []limits.Ref{{Limit: l}} }, Sample: sample})
	if err != nil {
		t.Fatal(err)
	}
	lim, err := weir.New(store, weir.Limits{l}, weir.Options{Observers: []weir.Observer{o}})
	if err != nil {
		t.Fatal(err)
	}
	o.rollups.learnLimits()
	r := &weir.Request{Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "key", Value: "k"}}}}}
	if _, err := lim.Decide(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	return o, lim, r
}
