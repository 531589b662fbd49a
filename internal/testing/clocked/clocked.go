// Package clocked is for tests: a real store whose time is the tester's, and
// which can be told to fail.
package clocked

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/memory"
)

// Store is a memory store. Safe for concurrent use, but for Fail and FailOnce.
type Store struct {
	*memory.Store
	// Now is its time, in microseconds since the Unix epoch.
	Now atomic.Int64
	// Takes counts the calls of Take that succeeded.
	Takes atomic.Int64
	// Fail makes Take and TakeOne return it, after as many calls as FailAfter
	// says; with FailOnce only the first of them. Nil means that none fails.
	Fail      error
	FailAfter atomic.Int64
	FailOnce  bool
}

// New returns an empty store, which is closed when the test ends.
func New(t testing.TB) *Store {
	s := &Store{}
	s.Now.Store(1_700_000_000_000_000)
	s.Store = memory.New(memory.Options{MaxBytes: 64 << 20, Now: s.Now.Load})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Advance moves the time on by d.
func (s *Store) Advance(d time.Duration) { s.Now.Add(d.Microseconds()) }

// Take implements weir.Store.
func (s *Store) Take(ctx context.Context, ops []weir.Op) error {
	if err := s.failing(); err != nil {
		return err
	}
	err := s.Store.Take(ctx, ops)
	if err == nil {
		s.Takes.Add(1)
	}
	return err
}

// TakeOne implements weir.Store.
func (s *Store) TakeOne(ctx context.Context, key string, l *weir.Limit, cost int64) (weir.Decision, error) {
	if err := s.failing(); err != nil {
		return weir.Decision{}, err
	}
	return s.Store.TakeOne(ctx, key, l, cost)
}

func (s *Store) failing() error {
	if s.Fail == nil {
		return nil
	}
	if n := s.FailAfter.Add(-1); n >= 0 || s.FailOnce && n < -1 {
		return nil
	}
	return s.Fail
}
