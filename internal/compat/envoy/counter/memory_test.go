package counter_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/weirlimit/weir/internal/compat/envoy/counter"
)

func TestMemoryWindows(t *testing.T) {
	m := counter.NewMemory(counter.MemoryOptions{})
	add := func(at int64, h counter.Hit) uint64 {
		t.Helper()
		hits := []counter.Hit{h}
		if err := m.Add(t.Context(), at, hits); err != nil {
			t.Fatal(err)
		}
		return hits[0].Count
	}
	short := counter.Hit{Key: []byte("k"), Hits: 1, Period: 60, End: now + 60}
	long := counter.Hit{Key: []byte("k"), Hits: 1, Period: 3600, End: now + 3600}
	for i, c := range []struct {
		at   int64
		h    counter.Hit
		want uint64
	}{
		{now, short, 1}, {now + 59, short, 2}, {now + 59, long, 3},
		// The longest window keeps the counter.
		{now + 60, long, 4}, {now + 3599, short, 5}, {now + 3600, long, 1},
	} {
		if got := add(c.at, c.h); got != c.want {
			t.Errorf("%d: at %d the counter stands at %d, want %d", i, c.at-now, got, c.want)
		}
	}
}

// What finds no room is counted too high, never too low, and only until its
// window is over.
func TestMemoryIsBounded(t *testing.T) {
	const keys = 400_000
	m := counter.NewMemory(counter.MemoryOptions{MaxBytes: 8 << 20})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	hits := make([]counter.Hit, 1)
	add := func(i int, at, end int64) uint64 {
		hits[0] = counter.Hit{Key: fmt.Appendf(nil, "k%d", i), Hits: 3, Period: 60, End: end}
		if err := m.Add(t.Context(), at, hits); err != nil {
			t.Fatal(err)
		}
		return hits[0].Count
	}
	over := 0
	for i := range keys {
		if n := add(i, now, now+60); n < 3 {
			t.Fatalf("key %d stands at %d", i, n)
		} else if n > 3 {
			over++
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 10<<20 {
		t.Errorf("with 8 MiB allowed the heap has grown by %d bytes", grown)
	}
	if s := m.Stats(); s.Shared == 0 || s.Keys > 8<<20/96 {
		t.Errorf("%+v", s)
	}
	t.Logf("%d of %d keys are counted too high: %+v", over, keys, m.Stats())
	for i := 0; i < keys; i += 97 {
		if n := add(i, now, now+60); n < 6 {
			t.Fatalf("key %d stands at %d the second time", i, n)
		}
	}
	// A sketch does not give back what others may have counted.
	late := counter.Hit{Key: []byte(fmt.Sprint("k", keys-1)), Hits: 100, Back: true, Period: 60, End: now + 60}
	hits[0] = late
	if err := m.Add(t.Context(), now, hits); err != nil || hits[0].Count < 3 {
		t.Errorf("given back: %d, %v", hits[0].Count, err)
	}
	// In the next window there is room again.
	shared := m.Stats().Shared
	for i := range 10_000 {
		if n := add(i, now+60, now+120); n != 3 {
			t.Fatalf("key %d stands at %d in the next window", i, n)
		}
	}
	if s := m.Stats(); s.Shared != shared {
		t.Errorf("in the next window keys still find no room: %+v", s)
	}
}

// Keys that come and go leave nothing behind, long before memory is full.
func TestMemoryForgetsWhatIsOver(t *testing.T) {
	m := counter.NewMemory(counter.MemoryOptions{})
	hits := make([]counter.Hit, 1)
	most := 0
	for second := range int64(60) {
		for i := range 5000 {
			hits[0] = counter.Hit{Key: fmt.Appendf(nil, "k%d_%d", i, second), Hits: 1, Period: 1, End: now + second + 1}
			if err := m.Add(t.Context(), now+second, hits); err != nil || hits[0].Count != 1 {
				t.Fatal(hits[0].Count, err)
			}
		}
		most = max(most, m.Stats().Keys)
	}
	if most > 40_000 {
		t.Errorf("of 5000 keys a second %d are kept", most)
	}
}

func TestMemoryAtTheSameTime(t *testing.T) {
	m := counter.NewMemory(counter.MemoryOptions{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			hits := make([]counter.Hit, 3)
			for i := range 2000 {
				for k := range hits {
					hits[k] = hit(fmt.Sprint("k", (i+k)%5), 1)
				}
				if err := m.Add(t.Context(), now, hits); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	total := uint64(0)
	for k := range 5 {
		hits := []counter.Hit{hit(fmt.Sprint("k", k), 0)}
		if err := m.Look(t.Context(), now, hits); err != nil {
			t.Fatal(err)
		}
		total += hits[0].Count
	}
	if total != 8*2000*3 {
		t.Errorf("%d hits are counted", total)
	}
	m.Close()
	if err := m.Add(t.Context(), now, []counter.Hit{hit("k", 1)}); !errors.Is(err, counter.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
