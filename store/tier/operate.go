package tier

import (
	"context"
	"errors"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/clock"
)

// Forgetter is a shared store whose keys can be forgotten one by one.
type Forgetter interface {
	Forget(ctx context.Context, key string, l *weir.Limit) (found bool, err error)
}

// Forget makes key under l as if never seen, if the store that counts it is a
// [Forgetter], and reports whether anything was known of it. What this node holds
// of the key and remembers of it goes at once. Other nodes spend what they hold
// within the lifetime of their leases, on top of the new count, and forget refusals
// within a second.
//
// What was fetched is not given back: it was of the old count.
func (s *Store) Forget(ctx context.Context, key string, l *weir.Limit) (bool, error) {
	p, err := s.ready(l)
	if err != nil {
		return false, err
	}
	at := s.link.store
	if p.mode == params.ConsistencyLocal {
		at = s.local
	}
	f, ok := at.(Forgetter)
	if !ok {
		return false, ErrNoForget
	}
	tag := s.tag(key, l)
	held, err := s.letGo(ctx, tag, key, l)
	if err != nil {
		return false, err
	}
	found, err := f.Forget(ctx, key, l)
	if err != nil {
		return found, err
	}
	// Others may have asked meanwhile, before the store forgot.
	more, err := s.letGo(ctx, tag, key, l)
	return found || held || more, err
}

// letGo forgets what the node holds of a key and remembers of it, and reports
// whether it held anything. It waits for a call under way, which may bring units
// of what is to be forgotten.
func (s *Store) letGo(ctx context.Context, tag uint64, key string, l *weir.Limit) (held bool, err error) {
	g := s.leases.shard(tag)
	for {
		g.mu.Lock()
		e := g.all[tag]
		if e == nil || e.key != key {
			g.mu.Unlock()
			break
		}
		f := e.fetch
		if f == nil {
			held = e.letGo()
			g.mu.Unlock()
			break
		}
		g.mu.Unlock()
		if err := s.link.Settle(ctx, f.Flight); err != nil {
			return false, err
		}
	}
	held = s.slots.letGo(tag, key) || held
	s.refusals.Forget(tag, clock.Node(s.link.now()))
	return s.leases.returns.discard(key, l) || held, nil
}

// discard forgets what is to be given back of a key, and reports whether that was
// anything.
func (r *returns) discard(key string, l *weir.Limit) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.all)
	r.all = slices.DeleteFunc(r.all, func(b giveBack) bool {
		gone := b.key == key && b.limit.ID() == l.ID()
		if gone {
			r.bytes -= b.size()
		}
		return gone
	})
	return len(r.all) < n
}

// letGo empties a lease. Its share of an overshoot stays: the store counts that
// elsewhere. Requires: mu, and that no fetch is under way.
func (e *lease) letGo() (held bool) {
	held = e.balance() > 0
	for i := range e.lots {
		e.lots[i].units = 0
	}
	e.refused, e.ask, e.retry = 0, 0, 0
	e.remaining, e.asked, e.reset, e.scarce = 0, 0, 0, false
	if t := e.tally; t != nil {
		held = held || t.untold+t.telling > 0
		t.known, t.untold, t.telling, t.counted, t.receipt = false, 0, 0, false, 0
	}
	return held
}

var _ documents.Board = (*Store)(nil)

// ReadDocument implements documents.Board by the shared store, which need not be one.
func (s *Store) ReadDocument(ctx context.Context, name string, known int64) (documents.Document, error) {
	b, err := s.board()
	if err != nil {
		return documents.Document{}, err
	}
	d, err := b.ReadDocument(ctx, name, known)
	if err != nil && ctx.Err() == nil {
		s.confirm(err)
	}
	return d, err
}

// SwapDocument implements documents.Board by the shared store, which need not be one.
func (s *Store) SwapDocument(ctx context.Context, name string, was int64, d documents.Document) (documents.Document, error) {
	b, err := s.board()
	if err != nil {
		return documents.Document{}, err
	}
	return b.SwapDocument(ctx, name, was, d)
}

func (s *Store) board() (documents.Board, error) {
	if s.closed.Load() {
		return nil, weir.ErrClosed
	}
	if b, ok := s.link.store.(documents.Board); ok {
		return b, nil
	}
	return nil, documents.ErrNoBoard
}

// ErrNoForget: the store that counts a key cannot forget single ones.
var ErrNoForget = errors.New("tier: the store cannot forget single keys")
