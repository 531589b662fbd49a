package clocked

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

// Failing is a store that can be made to fail while it is used. Its time begins now.
type Failing struct {
	*Store
	Down atomic.Bool
}

// NewFailing returns a store that works until Down is set. It is closed when the
// test ends.
func NewFailing(t testing.TB) *Failing {
	s := &Failing{Store: New(t)}
	s.Now.Store(time.Now().UnixMicro())
	return s
}

var errDown = errors.New("connection refused")

// Take implements weir.Store.
func (s *Failing) Take(ctx context.Context, ops []weir.Op) error {
	if s.Down.Load() {
		return errDown
	}
	return s.Store.Take(ctx, ops)
}

// TakeOne implements weir.Store.
func (s *Failing) TakeOne(ctx context.Context, key string, l *weir.Limit, cost int64) (weir.Decision, error) {
	if s.Down.Load() {
		return weir.Decision{}, errDown
	}
	return s.Store.TakeOne(ctx, key, l, cost)
}
