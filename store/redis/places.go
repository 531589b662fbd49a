package redis

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/weirlimit/weir"
)

// busyPause is how long a place waits to be given back when the queue is full.
const busyPause = 10 * time.Millisecond

// endPermits gives back the places under new names that a call may have taken which its
// caller has left, as err says: in the background, when the call has ended.
func (s *Store) endPermits(ops []weir.Op, err error) {
	var late *TimeoutError
	if !errors.As(err, &late) || late.result == nil || !late.Sent {
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
	late.result.Then(func([]weir.Op, error) { close(over) })
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
