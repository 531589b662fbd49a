package shared_test

import (
	"errors"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/shared"
)

// only is a store without its optional interfaces.
type only struct{ weir.Store }

// What the shared store cannot do the nodes cannot.
func TestStoreThatCannotForget(t *testing.T) {
	local := memory.New(memory.Options{MaxBytes: 1 << 20})
	full := memory.New(memory.Options{MaxBytes: 1 << 20})
	l := compiled(t, weir.PerDay(400, algorithm.FixedWindow), func(l *weir.Limit) { l.Consistency.Mode = params.ConsistencyStrict })
	for _, store := range []weir.Store{only{full}, full} {
		s, err := shared.New(store, shared.Options{Local: local})
		if err != nil {
			t.Fatal(err)
		}
		_, able := store.(documents.Board)
		if _, err := s.Forget(t.Context(), "k", l); errors.Is(err, errors.ErrUnsupported) == able {
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
