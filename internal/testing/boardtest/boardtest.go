// Package boardtest tests stores that keep documents.
package boardtest

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"github.com/weirlimit/weir/internal/documents"
)

// Run tests a board that keeps no document yet. valid returns a document
// that may be kept, unlike those for other n.
func Run(t *testing.T, b documents.Board, valid func(n int) []byte) {
	t.Helper()
	ctx := t.Context()
	read := func(known int64) documents.Document {
		t.Helper()
		d, err := b.ReadDocument(ctx, "doc", known)
		if err != nil {
			t.Fatal(err)
		}
		if d.Now < 1e15 {
			t.Errorf("the store's time is %d", d.Now)
		}
		return d
	}
	if d := read(0); d.Version != 0 || d.Data != nil {
		t.Errorf("a new board has version %d, %q", d.Version, d.Data)
	}
	if d := read(7); d.Version != 0 || d.Data != nil {
		t.Errorf("a new board has version %d, %q", d.Version, d.Data)
	}
	if _, err := b.SwapDocument(ctx, "doc", 7, documents.Document{Data: valid(0)}); !errors.Is(err, documents.ErrChanged) {
		t.Errorf("a document that is not there was replaced: %v", err)
	}
	first, err := b.SwapDocument(ctx, "doc", 0, documents.Document{Data: valid(1)})
	if err != nil || first.Version < 1 {
		t.Fatalf("version %d, %v", first.Version, err)
	}
	if d := read(0); d.Version != first.Version || !bytes.Equal(d.Data, valid(1)) {
		t.Errorf("got version %d, %q, want %d", d.Version, d.Data, first.Version)
	}
	if d := read(first.Version); d.Version != first.Version || d.Data != nil {
		t.Errorf("a document that is known was sent again: %q", d.Data)
	}
	for _, was := range []int64{0, first.Version - 1, first.Version + 1} {
		if _, err := b.SwapDocument(ctx, "doc", was, documents.Document{Data: valid(2)}); !errors.Is(err, documents.ErrChanged) {
			t.Errorf("version %d was replaced as %d: %v", first.Version, was, err)
		}
	}
	// Versions grow, also above one that the board has never seen.
	above := first.Version + 1e9
	second, err := b.SwapDocument(ctx, "doc", first.Version, documents.Document{Version: above, Data: valid(2)})
	if err != nil || second.Version <= above {
		t.Errorf("version %d after %d, %v; want it above %d", second.Version, first.Version, err, above)
	}
	if d := read(first.Version); d.Version != second.Version || !bytes.Equal(d.Data, valid(2)) {
		t.Errorf("got version %d, %q", d.Version, d.Data)
	}
	if _, err := b.SwapDocument(ctx, "doc", second.Version, documents.Document{Data: make([]byte, documents.MaxDocument+1)}); !errors.Is(err, documents.ErrDocument) {
		t.Errorf("a document that is too large: %v", err)
	}
	contended(t, b, valid)
}

// contended lets writers race: of those that read one version one wins.
func contended(t *testing.T, b documents.Board, valid func(n int) []byte) {
	t.Helper()
	const writers, each = 8, 5
	var mu sync.Mutex
	from := map[int64]int{}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for won := 0; won < each; {
				d, err := b.ReadDocument(t.Context(), "doc", 0)
				if err == nil {
					_, err = b.SwapDocument(t.Context(), "doc", d.Version, documents.Document{Data: valid(100 + w)})
				}
				switch {
				case err == nil:
					won++
					mu.Lock()
					from[d.Version]++
					mu.Unlock()
				case !errors.Is(err, documents.ErrChanged):
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	if len(from) != writers*each {
		t.Errorf("%d versions were replaced by %d writes: some were lost", len(from), writers*each)
	}
}
