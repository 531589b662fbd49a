package shared_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/shared"
)

func BenchmarkWarmLease(b *testing.B) {
	store, local := memory.New(memory.Options{MaxBytes: 64 << 20}), memory.New(memory.Options{MaxBytes: 64 << 20})
	defer store.Close()
	defer local.Close()
	s, err := shared.New(store, shared.Options{Local: local})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	l := compiled(b, weir.PerHour(1<<40, algorithm.SlidingWindow), func(l *weir.Limit) { l.Consistency.Mode = params.ConsistencyLeased })
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("user:", i)
	}
	ctx := context.Background()
	for _, on := range []struct {
		name string
		weir.Store
	}{{"memory", store}, {"shared", s}} {
		b.Run(on.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := on.TakeOne(ctx, keys[i%len(keys)], l, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
