package region

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/micros"
)

// Forget makes a key as if never seen, in all regions if they count it together. It
// reports whether anything was known of it. The error is of a store, or is errors.ErrUnsupported
// where the store of a region cannot forget single keys.
func (s *Store) Forget(ctx context.Context, key string, l *weir.Limit) (found bool, err error) {
	r, err := s.regionalOf(&weir.Op{Key: key, Limit: l, Cost: 1})
	if err != nil {
		return false, err
	}
	if found, err = forgetInStore(ctx, s.own, key, l); err != nil || r == nil {
		return found, err
	}
	for _, p := range s.peers {
		had, err := forgetInStore(ctx, p.store, key, l)
		if found = found || had; err != nil {
			return found, fmt.Errorf("region %s: %w", p.name, err)
		}
	}
	return found, nil
}

func forgetInStore(ctx context.Context, store weir.Store, key string, l *weir.Limit) (bool, error) {
	if f, ok := store.(interface {
		Forget(ctx context.Context, key string, l *weir.Limit) (found bool, err error)
	}); ok {
		return f.Forget(ctx, key, l)
	}
	return false, fmt.Errorf("region: the store cannot forget single keys: %w", errors.ErrUnsupported)
}

// ReadDocument implements documents.Board by the region's own store, which need not be
// one.
func (in inside) ReadDocument(ctx context.Context, name string, known int64) (documents.Document, error) {
	s := in.of
	if b, ok := s.own.(documents.Board); ok {
		return b.ReadDocument(ctx, name, known)
	}
	return documents.Document{}, documents.ErrNoBoard
}

// SwapDocument implements documents.Board by the region's own store, which need not be
// one.
func (in inside) SwapDocument(ctx context.Context, name string, was int64, d documents.Document) (documents.Document, error) {
	s := in.of
	if b, ok := s.own.(documents.Board); ok {
		return b.SwapDocument(ctx, name, was, d)
	}
	return documents.Document{}, documents.ErrNoBoard
}

// Stats are counted since the store was opened, unless a field says otherwise.
type Stats struct {
	// Lag is the longest that another region has not been told of something, now.
	Lag time.Duration
	// Capped is how often units were refused until other regions know more.
	Capped uint64
	// Overshot is the most units above a limit that were seen.
	Overshot int64
	Peers    []PeerStats // in the order of Options.Peers
}

// PeerStats is another region as this node sees it.
type PeerStats struct {
	Name string
	Open bool // now: its circuit breaker is
	// Reported is units that it was told of, and Failures the calls without an answer.
	Reported, Failures uint64
	// SinceAnswer is for how long it has not answered.
	SinceAnswer time.Duration
}

// Stats returns how the region and the others are doing.
func (s *Store) Stats() Stats {
	now := s.clock.Now()
	_, _, lag := s.table.unreported(now)
	st := Stats{Lag: micros.Duration(lag), Capped: s.capped.Load(), Overshot: s.overshot.Load()}
	for _, p := range s.peers {
		st.Peers = append(st.Peers, PeerStats{Name: p.name, Open: p.queue.IsOpen(), Reported: p.reported.Load(),
			Failures: p.failures.Load(), SinceAnswer: micros.Duration(max(int64(now)-p.lastAnswer.Load(), 0))})
	}
	return st
}
