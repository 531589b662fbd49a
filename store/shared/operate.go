package shared

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/store/internal/transport"
)

// Forgetter is a shared store whose keys can be forgotten one by one.
type Forgetter interface {
	Forget(ctx context.Context, key string, l *weir.Limit) (found bool, err error)
}

// Forget makes key under l as if never seen, if the store that counts it is a
// [Forgetter], and reports whether anything was known of it. What this node holds and
// remembers of the key goes at once. Other nodes draw from what they hold until their lots
// end, on top of the new count, and forget refusals within a second. What was fetched is
// not given back: it was of the old count.
//
// It returns errors.ErrUnsupported, weir.ErrClosed, the end of ctx, or the error of the store that
// counts the key; nothing is promised of the count then.
func (s *Store) Forget(ctx context.Context, key string, l *weir.Limit) (bool, error) {
	if s.closed.Load() {
		return false, weir.ErrClosed
	}
	p, err := s.policies.forLimit(l)
	if err != nil {
		return false, err
	}
	at := s.shared
	if p.decider == nil {
		at = s.local
	}
	f, ok := at.(Forgetter)
	if !ok {
		return false, fmt.Errorf("shared: the store cannot forget single keys: %w", errors.ErrUnsupported)
	}
	held, err := s.forgetHeld(ctx, key, l)
	if err != nil {
		return false, err
	}
	found, err := f.Forget(ctx, key, l)
	if err != nil {
		return found, err
	}
	// Others may have asked meanwhile, before the store forgot.
	more, err := s.forgetHeld(ctx, key, l)
	return found || held || more, err
}

// forgetHeld forgets what the node holds and remembers of a key, and reports whether it
// held anything. It waits for a flight under way, which may bring units of the old count.
func (s *Store) forgetHeld(ctx context.Context, key string, l *weir.Limit) (bool, error) {
	for {
		held, f := s.table.ForgetKey(key, l)
		if f == nil {
			s.refusals.ForgetKey(s.table.TagForKey(key, l), s.clock.Now())
			return held, nil
		}
		if err := s.queue.AwaitLanding(ctx, &f.Flight); err != nil {
			return false, err
		}
	}
}

var _ documents.Board = (*Store)(nil)

// inside has what the other packages of this module ask of a Store, with types that no program
// can name. It is embedded, so that a Store has it and its documentation does not.
type inside struct{ of *Store }

// ReadDocument implements documents.Board by the shared store. It returns
// documents.ErrNoBoard if that is none, weir.ErrClosed, or the error of the shared store.
func (in inside) ReadDocument(ctx context.Context, name string, known int64) (documents.Document, error) {
	s := in.of
	b, err := s.documentBoard()
	if err != nil {
		return documents.Document{}, err
	}
	d, err := b.ReadDocument(ctx, name, known)
	if err != nil && ctx.Err() == nil {
		s.confirm(err)
	}
	return d, err
}

// SwapDocument implements documents.Board by the shared store. Errors are those of
// ReadDocument.
func (in inside) SwapDocument(ctx context.Context, name string, was int64, d documents.Document) (documents.Document, error) {
	s := in.of
	b, err := s.documentBoard()
	if err != nil {
		return documents.Document{}, err
	}
	return b.SwapDocument(ctx, name, was, d)
}

func (s *Store) documentBoard() (documents.Board, error) {
	if s.closed.Load() {
		return nil, weir.ErrClosed
	}
	if b, ok := s.shared.(documents.Board); ok {
		return b, nil
	}
	return nil, documents.ErrNoBoard
}

// confirm asks a shared store of one shard whether it answers, after a call that decides
// nothing has failed by err, and opens the breaker if it does not: no decision needs to wait
// to find that out, and the outage is logged before what follows from it.
func (s *Store) confirm(err error) {
	var partial interface{ Partial() bool }
	if s.maintenance.shards > 1 || s.queue.IsOpen() || errors.As(err, &partial) && partial.Partial() || errors.Is(err, weir.ErrClosed) ||
		errors.Is(err, documents.ErrDocument) || errors.Is(err, documents.ErrChanged) {
		return
	}
	err = s.renewNode(func(ops []weir.Op) error {
		_, err := s.queue.DecideInBudget(context.Background(), ops)
		return err
	})
	if r, ok := errors.AsType[*transport.Result](err); ok && !r.Excused && (r.Outcome == transport.Failed || r.Outcome == transport.Late) {
		s.queue.TripBreaker(0, err)
	}
}

// NodeOf implements weir.NodeStore.
func (s *Store) NodeOf(l *weir.Limit) (node uint64, alone bool) {
	p, err := s.policies.forLimit(l)
	return uint64(s.nodes.id), err == nil && p.decider == nil
}
