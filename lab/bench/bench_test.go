package bench

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/lab/bench/load"
	"github.com/weirlimit/weir/lab/bench/measure"
	"github.com/weirlimit/weir/lab/bench/ours"
	"github.com/weirlimit/weir/lab/bench/peer"
	"github.com/weirlimit/weir/lab/bench/shape"
	"github.com/weirlimit/weir/store/memory"
)

// run measures work and reports processor time beside wall time.
func run(b *testing.B, procs int, work measure.Work) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	r := measure.Run(procs, int64(b.N), work)
	// In place of the benchmark's own, which has the collection before the round
	// in it.
	b.ReportMetric(r.Wall, "ns/op")
	b.ReportMetric(r.CPU, "cpu-ns/op")
	if r.Refused > r.Ops/20 {
		b.Errorf("%d of %d decisions were not as they must be", r.Refused, r.Ops)
	}
}

// BenchmarkTake measures one decision of every limiter in every shape.
func BenchmarkTake(b *testing.B) {
	keys := load.Zipf(1_000_000)
	for _, sh := range shape.All {
		for _, s := range peer.All() {
			b.Run(fmt.Sprintf("%s/%s", sh.Name, s.Name), func(b *testing.B) {
				allow, done, err := s.Open(sh.Limit())
				if err != nil {
					b.Fatal(err)
				}
				defer done()
				if err := sh.Fill(allow, keys); err != nil {
					b.Fatal(err)
				}
				run(b, sh.Procs, sh.Work(allow, keys))
			})
		}
	}
}

// BenchmarkDecide measures requests of two entries under rules from a file.
func BenchmarkDecide(b *testing.B) {
	sh := shape.All[0]
	wide := sh.Limit()
	for _, c := range ours.Cases {
		b.Run(c.Name, func(b *testing.B) {
			set, err := c.Set(wide.Every, wide.Burst)
			if err != nil {
				b.Fatal(err)
			}
			limiter, done, err := ours.Open(set, memory.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer done()
			if err := c.Exhaust(limiter, load.HotKey); err != nil {
				b.Fatal(err)
			}
			run(b, 1, sh.Work(c.Ask(limiter), nil))
		})
	}
}

// BenchmarkFirstTouch measures the first decision of a key while the table
// grows: -benchtime 10000000x grows it to ten million.
func BenchmarkFirstTouch(b *testing.B) {
	for _, k := range ours.Kinds {
		b.Run(k.Name, func(b *testing.B) {
			allow, done, err := ours.Hold(k.Name)
			if err != nil {
				b.Fatal(err)
			}
			defer done()
			b.ReportAllocs()
			text := make([]byte, 0, 32)
			for i := range b.N {
				text = load.AppendKey(text[:0], i)
				if !allow(string(text)) {
					b.Fatalf("the first request of key %s was refused", text)
				}
			}
		})
	}
}
