package sketch_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/internal/sketch"
)

func arrivals(t testing.TB, depth, width int) *sketch.TAT {
	t.Helper()
	s, err := sketch.NewTAT(depth, width)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func estimate(s *sketch.TAT, h uint64) int64 {
	shard := s.Shard(s.ShardIndex(h))
	shard.Lock()
	defer shard.Unlock()
	return shard.Estimate(h)
}

func raise(s *sketch.TAT, h uint64, v int64) {
	shard := s.Shard(s.ShardIndex(h))
	shard.Lock()
	defer shard.Unlock()
	shard.RaiseStamps(h, v)
}

// take decides one cost by the generic cell rate algorithm on the sketch.
func take(s *sketch.TAT, h uint64, now, interval, burst int64) bool {
	shard := s.Shard(s.ShardIndex(h))
	shard.Lock()
	defer shard.Unlock()
	tat := max(shard.Estimate(h), now) + interval
	if tat-now > burst*interval {
		return false
	}
	shard.RaiseStamps(h, tat)
	return true
}

func TestTATAgainstExactStamps(t *testing.T) {
	f := func(keys, width int, depth int) {
		t.Helper()
		s := arrivals(t, depth, width)
		exact := map[uint64]int64{}
		r := rand.New(rand.NewPCG(1, 1))
		for range 2 * keys {
			key, v := r.Uint64N(uint64(keys)), 1+r.Int64N(1<<60)
			raise(s, hash(key), v)
			exact[key] = max(exact[key], v)
		}
		for key, v := range exact {
			if got := estimate(s, hash(key)); got < v {
				t.Fatalf("key %d: estimate %d earlier than %d", key, got, v)
			}
		}
		// Of keys never seen, those with every cell taken by another.
		const probes = 100_000
		wrong := 0
		for key := range uint64(probes) {
			if estimate(s, hash(1<<40+key)) != 0 {
				wrong++
			}
		}
		share := float64(wrong) / probes
		want := math.Pow(1-math.Exp(-float64(len(exact))/float64(width)), float64(depth))
		if share < 0.8*want-0.001 || share > 1.2*want+0.001 {
			t.Errorf("%d keys in %d x %d: %.4f of others have a stamp, want %.4f", keys, depth, width, share, want)
		}
	}
	f(5000, 1<<12, 4)
	f(20_000, 1<<12, 4)
	f(1000, 1<<10, 1)
	f(500, 1<<12, 2)
}

func TestTATRaise(t *testing.T) {
	s := arrivals(t, 4, 1<<10)
	f := func(v, want int64) {
		t.Helper()
		raise(s, 77, v)
		if got := estimate(s, 77); got != want {
			t.Errorf("after Raise(%d): %d, want %d", v, got, want)
		}
	}
	f(math.MinInt64, 0)
	f(10, 10)
	f(4, 10)
	f(11, 11)
	f(math.MaxInt64, math.MaxInt64)
	if got := estimate(s, hash(78)); got != 0 {
		t.Errorf("another key has %d", got)
	}
}

// In a sketch too small for its keys, no key gets more than its own bucket would
// give, and a key alone gets all of it.
func TestTATNeverAdmitsMore(t *testing.T) {
	const interval, burst = 100_000, 5
	s := arrivals(t, 2, 64)
	exact := map[uint64]int64{}
	z, r := zipf(4, 500), rand.New(rand.NewPCG(4, 4))
	now, more := 1000*second, 0
	for range 100_000 {
		now += r.Int64N(2000)
		key := z.Uint64()
		tat := max(exact[key], now) + interval
		allowed := take(s, hash(key), now, interval, burst)
		if allowed && tat-now > burst*interval {
			t.Fatalf("key %d admitted where its own bucket is empty", key)
		}
		if allowed {
			exact[key] = tat
		} else if tat-now <= burst*interval {
			more++
		}
	}
	if more == 0 {
		t.Error("nothing was refused in excess: the sketch is too large to test anything")
	}

	alone := arrivals(t, 4, 1<<18)
	admitted := 0
	for now = second; now < 11*second; now += 1000 {
		if take(alone, hash(1), now, interval, burst) {
			admitted++
		}
	}
	if want := 100 + burst - 1; admitted != want {
		t.Errorf("a key alone was admitted %d, want %d", admitted, want)
	}
}

func TestTATConcurrent(t *testing.T) {
	const burst = 100_000
	s := arrivals(t, 4, 1<<10)
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range burst / 4 {
				if take(s, hash(1), second, 10, burst) {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if admitted.Load() != burst {
		t.Errorf("%d admitted, want %d", admitted.Load(), burst)
	}
}

func TestTATSize(t *testing.T) {
	for _, o := range [][2]int{{-1, 1}, {0, 1}, {17, 1}, {4, -1}, {4, 0}, {4, sketch.MaxWidth + 1}} {
		if _, err := sketch.NewTAT(o[0], o[1]); err == nil {
			t.Errorf("NewTAT(%d, %d) succeeded", o[0], o[1])
		}
	}
	f := func(depth, width, shards int, bytes int64) {
		t.Helper()
		s := arrivals(t, depth, width)
		if s.Shards() != shards || s.Bytes() != bytes {
			t.Errorf("NewTAT(%d, %d): %d shards, %d bytes; want %d, %d", depth, width, s.Shards(), s.Bytes(), shards, bytes)
		}
	}
	f(4, 1<<18, 16, 8<<20)
	f(3, 1000, 16, 8*3*1024)
	f(1, 4, 4, 8*4)
	f(1, 1, 1, 8)
}

func TestPlainSketchesDoNotAllocate(t *testing.T) {
	f := func(what string, call func(h uint64)) {
		t.Helper()
		key := uint64(0)
		if n := testing.AllocsPerRun(1000, func() { key++; call(hash(key)) }); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
	c, _ := sketch.NewCountMin(4, 1024)
	f("CountMin", func(h uint64) { c.AddUnits(h, 2); c.Raise(h, 3); c.Estimate(h) })
	b, _ := sketch.NewBloom(4096, 7)
	f("Bloom", func(h uint64) { b.Add(h); b.Has(h) })
	s := arrivals(t, 4, 1024)
	f("TAT", func(h uint64) { take(s, h, second, 10, 10) })
	top := summary[uint64](t, 64)
	f("SpaceSaving", func(h uint64) { top.AddUnits(h, 1); top.AddUnits(h%50, 1) })
}
