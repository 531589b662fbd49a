package event_test

import (
	"context"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/event"
	"github.com/weirlimit/weir/store/memory"
)

// What it costs to be observed, on decisions that allow and that refuse: compare
// the lines with and without.
func BenchmarkDecide(b *testing.B) {
	for _, c := range []struct {
		name     string
		count    int64
		observed bool
	}{
		{"allowed/alone", 1 << 50, false}, {"allowed/observed", 1 << 50, true},
		{"refused/alone", 1, false}, {"refused/observed", 1, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := weir.PerDay(c.count, algorithm.TokenBucket)
			s := memory.New(memory.Options{})
			defer s.Close()
			var opt weir.Options
			if c.observed {
				o, err := event.New(event.Options{Queue: &kept{}, Limits: func() []event.Series { return []event.Series{{Limit: l}} }})
				if err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan error)
				go func() { ended <- o.Run(ctx) }()
				defer func() {
					cancel()
					if err := <-ended; err != nil {
						b.Error(err)
					}
				}()
				opt.Observers = []weir.Observer{o}
			}
			lim, err := weir.New(s, weir.Limits{l}, opt)
			if err != nil {
				b.Fatal(err)
			}
			entries := []weir.Entry{{Key: "key", Value: "203.0.113.77"}}
			var r weir.Request
			b.ReportAllocs()
			for b.Loop() {
				r.Reset()
				r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: entries})
				if _, err := lim.Decide(context.Background(), &r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
