package memory

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// TestMemoryPerKeySoak measures what a key costs, all told, how long the garbage
// collector takes over ten million of them, and how long a new key waits while
// the table grows.
func TestMemoryPerKeySoak(t *testing.T) {
	if os.Getenv("WEIR_SOAK") == "" {
		t.Skip("takes a minute: set WEIR_SOAK=1")
	}
	for _, c := range []struct {
		limit *weir.Limit
		most  float64 // bytes
	}{
		{&weir.Limit{Name: "1 word", Algorithm: algorithm.TokenBucket, Count: 100, Period: time.Hour}, 24},
		{&weir.Limit{Name: "2 words", Algorithm: algorithm.FixedWindow, Count: 100, Period: time.Hour}, 36},
		{&weir.Limit{Name: "2 words of a sliding window", Algorithm: algorithm.SlidingWindow, Count: 10, Period: time.Hour}, 36},
		{&weir.Limit{Name: "3 words", Algorithm: algorithm.SlidingWindow, Count: 100, Period: time.Hour}, 44},
		{&weir.Limit{Name: "4 words", Algorithm: algorithm.SlidingWindow, Count: 1 << 40, Period: time.Hour}, 56},
		{&weir.Limit{Name: "sub-windows", Algorithm: algorithm.SlidingSubwindows, Count: 100_000, Period: time.Hour}, 260 + 24},
	} {
		l := compile(t, c.limit)
		steps := []int{1_000_000, 10_000_000}
		if l.Cells > maxDirect {
			steps = steps[:1]
		}
		s, _ := newStore(t, Options{MaxBytes: 16 << 30})
		waits := make([]time.Duration, 0, steps[len(steps)-1])
		beforeAll := heap()
		key := make([]byte, 0, 32)
		done := 0
		for _, n := range steps {
			for ; done < n; done++ {
				key = fmt.Appendf(key[:0], "user:%09d", done)
				k := string(key)
				began := time.Now()
				if _, err := s.TakeOne(context.Background(), k, l, 1); err != nil {
					t.Fatal(err)
				}
				waits = append(waits, time.Since(began))
			}
			each := float64(heap()-beforeAll) / float64(n)
			gc := forcedGC()
			sorted := slices.Clone(waits)
			slices.Sort(sorted)
			t.Logf("%s (%d cells), %d keys: %.1f bytes a key, forced GC %v, first touch p50 %v p99 %v p99.9 %v p99.99 %v, %s",
				l.Name, l.Cells, n, each, gc, sorted[n/2], sorted[n/100*99], sorted[n/1000*999], sorted[n/10000*9999], resident())
			if each > c.most {
				t.Errorf("%s: %.1f bytes a key at %d keys, want at most %v", l.Name, each, n, c.most)
			}
		}
		if st := s.Stats(); st.Keys != int64(done) {
			t.Errorf("%s: %d keys are kept, want %d", l.Name, st.Keys, done)
		}
		runtime.KeepAlive(waits)
	}
}

// TestFullLogsSoak measures what logs cost that have filled side by side.
func TestFullLogsSoak(t *testing.T) {
	if os.Getenv("WEIR_SOAK") == "" {
		t.Skip("takes a minute: set WEIR_SOAK=1")
	}
	for _, c := range []struct{ count, keys int64 }{
		{100, 500_000}, {500, 100_000}, {777, 64_000}, {1000, 50_000}, {1024, 1_000_000},
	} {
		count, keys := c.count, c.keys
		l := compile(t, &weir.Limit{Algorithm: algorithm.SlidingLog, Count: count, Period: time.Hour})
		cost := count / 25
		before := heap()
		s, _ := newStore(t, Options{MaxBytes: 16 << 30})
		for left := count; left > 0; left -= cost {
			for k := range keys {
				d, err := s.TakeOne(t.Context(), strconv.FormatInt(k, 10), l, min(cost, left))
				if err != nil || !d.Allowed() {
					t.Fatal(d, err)
				}
			}
		}
		each, most := float64(heap()-before)/float64(keys), float64(8*count+24+24)
		t.Logf("%d full logs of %d: %.1f bytes each", keys, count, each)
		if each > most {
			t.Errorf("full logs of %d: %.1f bytes each, want at most %.0f", count, each, most)
		}
		runtime.KeepAlive(s)
	}
}

// heap returns the bytes in use after everything that can go has gone.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// forcedGC returns the median time of five collections.
func forcedGC() time.Duration {
	var all [5]time.Duration
	for i := range all {
		began := time.Now()
		runtime.GC()
		all[i] = time.Since(began)
	}
	slices.Sort(all[:])
	return all[2]
}
