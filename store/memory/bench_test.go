//go:build unix

package memory_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/memory"
)

// cpu starts to measure processor time and returns what reports it for each op:
// on a shared machine wall time says little.
func cpu(b *testing.B) func() {
	used := func() int64 {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			b.Fatal(err)
		}
		return r.Utime.Nano() + r.Stime.Nano()
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}

// plenty is a token bucket that benchmarks do not empty.
func plenty() *weir.Limit {
	return &weir.Limit{Algorithm: algorithm.TokenBucket, Count: 1_000_000_000, Period: time.Second, Burst: 1_000_000_000}
}

func newLimiter(b *testing.B, limits ...*weir.Limit) *weir.Limiter {
	b.Helper()
	s := memory.New(memory.Options{MaxBytes: 4 << 30})
	b.Cleanup(func() { s.Close() })
	l, err := weir.New(s, weir.Limits(limits), weir.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return l
}

func benchKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "user:" + strconv.Itoa(100_000_000+i)
	}
	return keys
}

func BenchmarkTakeHot(b *testing.B) {
	l, ctx := newLimiter(b, plenty()), context.Background()
	b.ReportAllocs()
	defer cpu(b)()
	for b.Loop() {
		if d, err := l.Take(ctx, "user:123456789", 1); err != nil || !d.Allowed() {
			b.Fatal(d, err)
		}
	}
}

func BenchmarkTakeHotParallel(b *testing.B) {
	l, ctx := newLimiter(b, plenty()), context.Background()
	defer cpu(b)()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if d, err := l.Take(ctx, "user:123456789", 1); err != nil || !d.Allowed() {
				b.Error(d, err)
				return
			}
		}
	})
}

func BenchmarkTakeZipf1M(b *testing.B) {
	const n = 1 << 20
	l, ctx := newLimiter(b, plenty()), context.Background()
	keys := benchKeys(n)
	z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.01, 1, n-1)
	order := make([]uint32, 1<<22)
	for i := range order {
		order[i] = uint32(z.Uint64())
	}
	for _, k := range keys {
		if _, err := l.Take(ctx, k, 1); err != nil {
			b.Fatal(err)
		}
	}
	i := 0
	defer cpu(b)()
	for b.Loop() {
		if d, err := l.Take(ctx, keys[order[i&(len(order)-1)]], 1); err != nil || !d.Allowed() {
			b.Fatal(d, err)
		}
		i++
	}
}

func BenchmarkDecideTwoRules(b *testing.B) {
	l, ctx := newLimiter(b, plenty(), &weir.Limit{Algorithm: algorithm.TokenBucket, Count: 500_000_000,
		Period: time.Second, Burst: 1_000_000_000}), context.Background()
	b.ReportAllocs()
	defer cpu(b)()
	for b.Loop() {
		r := l.Acquire()
		r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: benchEntries})
		if d, err := l.Decide(ctx, r); err != nil || !d.Allowed() {
			b.Fatal(d, err)
		}
		l.Recycle(r)
	}
}

var benchEntries = []weir.Entry{{Key: "ip", Value: "203.0.113.7"}, {Key: "path", Value: "/login"}}
