package redis

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/transport"
)

// singles are used again for an op that stands alone.
var singles = sync.Pool{New: func() any { return new([1]weir.Op) }}

// TakeOne implements weir.Store.
func (s *Store) TakeOne(ctx context.Context, key string, l *weir.Limit, cost int64) (weir.Decision, error) {
	ops := singles.Get().(*[1]weir.Op)
	defer singles.Put(ops)
	ops[0] = weir.Op{Key: key, Limit: l, Cost: cost}
	err := s.Take(ctx, ops[:])
	return ops[0].Decision, err
}

// Take implements weir.Store. Ops on the same key and limit are decided as a
// sequence. See the package comment for ops whose keys are on several servers.
func (s *Store) Take(ctx context.Context, ops []weir.Op) error {
	if s.closed.Load() {
		return weir.ErrClosed
	}
	_, err := s.queue.DecideByClass(ctx, transport.ClassOf(ctx), nil, ops)
	if err == nil {
		return nil
	}
	err = s.errorOf(err)
	if ctx.Err() != nil {
		s.endPermits(ops, err)
	}
	return err
}

// errorOf counts a call without an answer, and returns why it has none.
func (s *Store) errorOf(err error) error {
	r, ok := errors.AsType[*transport.Result](err)
	if !ok {
		return err
	}
	if r.Outcome != transport.Rejected { // what the server rejects is counted where it is heard
		s.stats.errors.Add(1)
	}
	switch {
	case s.closed.Load() || errors.Is(r.Err, weir.ErrClosed):
		return weir.ErrClosed
	case errors.Is(r.Err, transport.ErrBusy):
		s.stats.busy.Add(1)
		return ErrBusy
	case r.Outcome == transport.Open:
		return s.whyLost()
	case r.Outcome == transport.CallerGone:
		s.stats.timeouts.Add(1)
		return &TimeoutError{Sent: r.MayRun, Err: r.Err, result: r}
	case errors.Is(r.Err, transport.ErrLate):
		s.stats.timeouts.Add(1)
		return &TimeoutError{Sent: r.MayRun, Err: context.DeadlineExceeded}
	}
	return r.Err
}

// busyPause is how long a place waits to be given back when the queue is full.
const busyPause = 10 * time.Millisecond

// endPermits gives back the places under new names that a call may have taken which its
// caller has left, as err says: in the background, when the call has ended.
func (s *Store) endPermits(ops []weir.Op, err error) {
	late, ok := errors.AsType[*TimeoutError](err)
	if !ok || late.result == nil || !late.Sent {
		return
	}
	var back []weir.Op
	for i := range ops {
		if o := &ops[i]; o.NewLease && (o.Verb == weir.Spend || o.Verb == weir.Force) {
			undo := o.Undo(o.Cost)
			undo.Key = strings.Clone(o.Key)
			back = append(back, undo)
		}
	}
	s.life.Lock()
	defer s.life.Unlock()
	if len(back) == 0 || s.closed.Load() {
		return
	}
	over := make(chan struct{})
	late.result.WhenEnded(func([]weir.Op, error) { close(over) })
	s.ending.Go(func() {
		<-over
		err := s.Take(context.Background(), back)
		// Those who have left may still fill the queue.
		for end := time.Now().Add(timeout); errors.Is(err, ErrBusy) && time.Now().Before(end) && !s.closed.Load(); {
			time.Sleep(busyPause)
			err = s.Take(context.Background(), back)
		}
		if err != nil {
			s.stats.lost.Add(uint64(len(back)))
		}
	})
}
