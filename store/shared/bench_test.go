package shared_test

import (
	"context"
	"fmt"
	"testing"
	"time"

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

// A decision on the node takes no memory, whatever decides it.
func TestDecisionOnTheNodeAllocatesNothing(t *testing.T) {
	store, local := memory.New(memory.Options{MaxBytes: 64 << 20}), memory.New(memory.Options{MaxBytes: 64 << 20})
	defer store.Close()
	defer local.Close()
	s, err := shared.New(store, shared.Options{Local: local, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for mode, cost := range map[params.ConsistencyMode]int64{
		params.ConsistencyLeased: 1, params.ConsistencyEventual: 1, params.ConsistencyLocal: 1,
		params.ConsistencyStrict: 1<<40 + 1, // a remembered refusal
	} {
		l := compiled(t, weir.PerHour(1<<40, algorithm.FixedWindow), func(l *weir.Limit) { l.Consistency.Mode = mode })
		take := func() {
			if d, err := s.TakeOne(t.Context(), "k", l, cost); err != nil || d.Allowed() != (cost == 1) {
				t.Fatal(d, err)
			}
		}
		onNode := func() uint64 { now := s.Stats(); return now.Held + now.Recalled }
		for began := onNode(); mode != params.ConsistencyLocal && onNode() < began+100; {
			take()
		}
		before := onNode()
		if n := testing.AllocsPerRun(1000, take); n != 0 {
			t.Errorf("%s: %v allocations", mode, n)
		}
		if n := onNode() - before; mode != params.ConsistencyLocal && n < 900 {
			t.Errorf("%s: %d of 1001 decided on the node", mode, n)
		}
	}
}
