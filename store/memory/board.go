package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/documents"
)

var _ documents.Board = (*Store)(nil)

// board keeps documents in this process. Its lock is held for a few words, and
// never with another.
type board struct {
	mu  sync.Mutex
	all map[string]documents.Document
}

// inside has what the other packages of this module ask of a Store, with types that no program
// can name. It is embedded, so that a Store has it and its documentation does not.
type inside struct{ of *Store }

// ReadDocument implements documents.Board.
func (in inside) ReadDocument(_ context.Context, name string, known int64) (documents.Document, error) {
	s := in.of
	if s.closed.Load() {
		return documents.Document{}, weir.ErrClosed
	}
	s.board.mu.Lock()
	d := s.board.all[name]
	s.board.mu.Unlock()
	if d.Version == known {
		d.Data = nil
	}
	d.Data, d.Now = slices.Clone(d.Data), s.clock.now(0)
	return d, nil
}

// SwapDocument implements documents.Board.
func (in inside) SwapDocument(_ context.Context, name string, was int64, d documents.Document) (documents.Document, error) {
	s := in.of
	switch {
	case s.closed.Load():
		return documents.Document{}, weir.ErrClosed
	case len(d.Data) > documents.MaxDocument:
		return documents.Document{}, fmt.Errorf("store memory: %w: %d bytes, more than %d", documents.ErrDocument, len(d.Data), documents.MaxDocument)
	}
	s.board.mu.Lock()
	defer s.board.mu.Unlock()
	if s.board.all[name].Version != was {
		return documents.Document{}, documents.ErrChanged
	}
	if s.board.all == nil {
		s.board.all = map[string]documents.Document{}
	}
	d.Version, d.Data = max(was, d.Version)+1, slices.Clone(d.Data)
	s.board.all[name] = d
	d.Now = s.clock.now(0)
	return d, nil
}
