package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
)

// usage returns MEMORY USAGE of a key, which is that of a user's key of up to ten bytes.
func usage(t *testing.T, r *servertest.RedisServer, name string) int64 {
	t.Helper()
	got, ok := r.Do(t, "MEMORY", "USAGE", name, "SAMPLES", "0").(int64)
	if !ok {
		t.Fatalf("no key %q", name)
	}
	return got
}

// The memory of a key, as docs/reference/redis.md states it.
func TestMemoryPerKey(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	s := open(t, "redis://"+r.Addr, Options{Timeout: long})
	weighed := map[string]bool{}
	f := func(what string, l *weir.Limit, times int, most int64) {
		t.Helper()
		weighed[l.Algorithm.Name()] = true
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		for i := range times {
			ops := []weir.Op{{Key: "user_12345", Limit: l, Cost: 1, ID: int64(i+1) << 40}}
			if err := s.Take(t.Context(), ops); err != nil || !ops[0].Charged {
				t.Fatalf("%s: %+v, %v", what, ops, err)
			}
		}
		name, err := s.Name("user_12345", l)
		if err != nil {
			t.Fatal(err)
		}
		got := usage(t, r, name)
		t.Logf("%s: %d bytes", what, got)
		if got > most {
			t.Errorf("%s takes %d bytes, %d are stated", what, got, most)
		}
	}
	bucket := func(count int64, period time.Duration) *weir.Limit {
		return &weir.Limit{Algorithm: algorithm.TokenBucket, Count: count, Period: period}
	}
	f("a bucket without fraction", bucket(100, time.Minute), 3, 104)
	f("a bucket with fraction", bucket(7919, time.Minute), 3, 104)
	f("a leaky bucket", &weir.Limit{Algorithm: algorithm.LeakyBucket, Count: 100, Period: time.Minute}, 3, 104)
	f("a leaky bucket with fraction", &weir.Limit{Algorithm: algorithm.LeakyBucket, Count: 7919, Period: time.Minute}, 3, 104)
	f("a queue", &weir.Limit{Algorithm: algorithm.LeakyQueue, Count: 100, Period: time.Minute}, 3, 104)
	f("a fixed window", weir.PerHour(1_000_000, algorithm.FixedWindow), 3, 72)
	f("a window from the first request", &weir.Limit{Algorithm: algorithm.FixedWindow, Count: 100, Period: time.Hour,
		Params: params.Params{Anchor: params.AnchorFirst}}, 3, 104)
	f("a lockout", weir.PerHour(5, algorithm.Lockout), 3, 104)
	f("a sliding window of one", weir.PerHour(1, algorithm.SlidingWindow), 1, 104)
	f("a sliding window", weir.PerHour(100, algorithm.SlidingWindow), 100, 104)
	f("a sliding counter", weir.PerHour(1_000_000, algorithm.SlidingCounter), 3, 104)
	f("sub-windows", weir.PerHour(1000, algorithm.SlidingSubwindows), 3, 104)
	f("a log of 50", weir.PerHour(50, algorithm.SlidingLog), 50, 800)
	f("a log of 1000", weir.PerHour(1000, algorithm.SlidingLog), 1000, 10_480)
	f("1000 leases", &weir.Limit{Algorithm: algorithm.Concurrency, Count: 1000, Period: time.Hour}, 1000, 118*1000)
	f("100 leases", &weir.Limit{Algorithm: algorithm.Concurrency, Count: 100, Period: time.Hour}, 100, 118*100)
	for _, a := range algorithm.All {
		if _, ok := a.(algorithm.Scripted); ok && !weighed[a.Name()] {
			t.Errorf("%s was not weighed: state in docs/reference/redis.md what it takes", a.Name())
		}
	}
}

// A sliding window takes most when all of its sub-windows have units.
func TestMemoryOfFullSlidingWindow(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	now := int64(1_773_500_966_535_897)
	s := openTold(t, "redis://"+r.Addr, func() int64 { return now })
	l := perHour(t, 100, algorithm.SlidingWindow)
	for range 200 {
		if _, err := s.TakeOne(t.Context(), "k", l, 1); err != nil {
			t.Fatal(err)
		}
		now += l.Period.Microseconds() / 120
	}
	name, err := s.Name("k", l)
	if err != nil {
		t.Fatal(err)
	}
	if used := usage(t, r, name); used > 192 {
		t.Errorf("%v bytes, docs/reference/redis.md says at most 192", used)
	}
}

// Sub-windows take most when all of them have units.
func TestMemoryOfFullSubwindows(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	now := int64(1_773_500_966_535_897)
	s := openTold(t, "redis://"+r.Addr, func() int64 { return now })
	l := perHour(t, 1000, algorithm.SlidingSubwindows)
	for range 61 {
		if _, err := s.TakeOne(t.Context(), "k", l, 1); err != nil {
			t.Fatal(err)
		}
		now += l.Period.Microseconds() / 60
	}
	name, err := s.Name("k", l)
	if err != nil {
		t.Fatal(err)
	}
	got := usage(t, r, name)
	t.Logf("61 sub-windows: %d bytes", got)
	if got < 150 || got > 328 {
		t.Errorf("61 sub-windows take %d bytes, 328 are stated", got)
	}
}

// The log of the textbooks is a sorted set, one member for each request. It decides
// as ours does, and takes eleven times the memory.
const sortedSetLog = `
local now, period, count = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - period)
if redis.call('ZCARD', KEYS[1]) >= count then return 0 end
redis.call('ZADD', KEYS[1], now, ARGV[1] .. ':' .. ARGV[4])
redis.call('PEXPIRE', KEYS[1], period / 1000)
return 1`

func TestListTakesLessThanSortedSet(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	now := int64(1_773_500_966_535_897)
	s := openTold(t, "redis://"+r.Addr, func() int64 { return now })
	client := s.nodes.routeTag("").reached.Load().Client
	for _, count := range []int64{100, 1000} {
		l := &weir.Limit{Algorithm: algorithm.SlidingLog, Count: count, Period: time.Hour}
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		set := fmt.Sprint("set", count)
		for i := range 3 * count {
			d, err := s.TakeOne(t.Context(), "k", l, 1)
			if err != nil {
				t.Fatal(err)
			}
			got, err := client.Do(t.Context(), client.B().Eval().Script(sortedSetLog).Numkeys(1).Key(set).
				Arg(fmt.Sprint(now), fmt.Sprint(l.Period.Microseconds()), fmt.Sprint(count), fmt.Sprint(i)).Build()).AsInt64()
			if err != nil {
				t.Fatal(err)
			}
			if (got == 1) != d.Allowed() {
				t.Fatalf("request %d: the sorted set says %v, the list %v", i, got, d.Allowed())
			}
			now += l.Period.Microseconds() / (2 * count)
		}
		name, err := s.Name("k", l)
		if err != nil {
			t.Fatal(err)
		}
		list, sorted := usage(t, r, name), usage(t, r, set)
		t.Logf("%d units: list %d bytes, sorted set %d", count, list, sorted)
		if most := map[int64]int64{100: 3, 1000: 10}[count]; sorted < most*list {
			t.Errorf("%d units: list %d bytes, sorted set %d: less than %d times as many", count, list, sorted, most)
		}
	}
}
