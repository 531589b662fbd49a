package redis

import (
	"context"
	"errors"
	"strings"

	"github.com/weirlimit/weir"
)

// endPlaces gives back the places under new names that a call may have taken which its
// caller has left, as err says: in the background, when the call has ended.
func (s *Store) endPlaces(ops []weir.Op, err error) {
	var late *TimeoutError
	if !errors.As(err, &late) || late.over == nil || !late.Sent {
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
	s.ending.Go(func() {
		<-late.over
		if err := s.takeSeveral(context.Background(), back); err != nil {
			s.stats.lost.Add(uint64(len(back)))
		}
	})
}
