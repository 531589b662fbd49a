package gateway_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/memory"
)

// clocked is a memory store whose time is the tester's, and which can be told
// to fail.
type clocked struct {
	*memory.Store
	now atomic.Int64
	// takes counts the calls that succeeded.
	takes atomic.Int64
	// fail makes Take return it, after as many calls as failAfter says.
	fail      error
	failAfter atomic.Int64
}

func newStore(t testing.TB) *clocked {
	s := &clocked{}
	s.now.Store(1_700_000_000_000_000)
	s.Store = memory.New(memory.Options{MaxBytes: 64 << 20, Now: s.now.Load})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *clocked) advance(d time.Duration) { s.now.Add(d.Microseconds()) }

func (s *clocked) Take(ctx context.Context, ops []weir.Op) error {
	if s.fail != nil && s.failAfter.Add(-1) < 0 {
		return s.fail
	}
	defer s.takes.Add(1)
	return s.Store.Take(ctx, ops)
}

func (s *clocked) TakeOne(ctx context.Context, key string, l *weir.Limit, cost int64) (weir.Decision, error) {
	if s.fail != nil && s.failAfter.Add(-1) < 0 {
		return weir.Decision{}, s.fail
	}
	return s.Store.TakeOne(ctx, key, l, cost)
}
