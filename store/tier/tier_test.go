package tier_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/tier"
)

// only is a store without its optional interfaces.
type only struct{ weir.Store }

// What the shared store cannot do the tier cannot.
func TestStoreThatCannotForget(t *testing.T) {
	local := memory.New(memory.Options{MaxBytes: 1 << 20})
	full := memory.New(memory.Options{MaxBytes: 1 << 20})
	l := compiled(t, weir.PerDay(400, algorithm.FixedWindow), func(l *weir.Limit) { l.Consistency.Mode = params.ConsistencyStrict })
	for _, shared := range []weir.Store{only{full}, full} {
		s, err := tier.New(shared, tier.Options{Local: local})
		if err != nil {
			t.Fatal(err)
		}
		_, able := shared.(documents.Board)
		if _, err := s.Forget(t.Context(), "k", l); errors.Is(err, tier.ErrNoForget) == able {
			t.Errorf("able %t: Forget: %v", able, err)
		}
		if _, err := s.ReadDocument(t.Context(), "doc", 0); errors.Is(err, documents.ErrNoBoard) == able {
			t.Errorf("able %t: ReadDocument: %v", able, err)
		}
		if _, err := s.SwapDocument(t.Context(), "doc", 0, documents.Document{}); errors.Is(err, documents.ErrNoBoard) == able {
			t.Errorf("able %t: SwapDocument: %v", able, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []weir.Store{local, full} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func BenchmarkWarmLease(b *testing.B) {
	shared, local := memory.New(memory.Options{MaxBytes: 64 << 20}), memory.New(memory.Options{MaxBytes: 64 << 20})
	defer shared.Close()
	defer local.Close()
	s, err := tier.New(shared, tier.Options{Local: local})
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
	for _, store := range []struct {
		name string
		weir.Store
	}{{"memory", shared}, {"tier", s}} {
		b.Run(store.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := store.TakeOne(ctx, keys[i%len(keys)], l, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func compiled(t testing.TB, l *weir.Limit, change func(*weir.Limit)) *weir.Limit {
	t.Helper()
	if change != nil {
		change(l)
	}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return l
}
