package admit

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
)

// Room bounds how many requests wait at a time. Safe for concurrent use.
type Room struct {
	most    int64
	waiting *atomic.Int64
}

// NewRoom returns a room for most requests, at least 1. Zero means 1024.
func NewRoom(most int) Room { return Room{int64(cmp.Or(most, 1024)), new(atomic.Int64)} }

// enter takes a place in the room, if there is one.
func (r *Room) enter() bool {
	if r.waiting.Add(1) > r.most {
		r.waiting.Add(-1)
		return false
	}
	return true
}

func (r *Room) leave() { r.waiting.Add(-1) }

// Waiter is a request that waits, several times perhaps, and not beyond an instant. Not
// safe for concurrent use.
type Waiter struct {
	ctx    context.Context
	end    time.Time
	room   *Room
	inside bool
	poll   backoff.Backoff
}

// NewWaiter returns a waiter that waits for most, or until the deadline of ctx if that is
// earlier. Done must be called.
func (r *Room) NewWaiter(ctx context.Context, most time.Duration) *Waiter {
	end := time.Now().Add(max(most, 0))
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	return &Waiter{ctx: ctx, end: end, room: r, poll: backoff.Backoff{Min: 10 * time.Millisecond, Max: time.Second}}
}

// Done says that w waits no more.
func (w *Waiter) Done() {
	if w.inside {
		w.inside = false
		w.room.leave()
	}
}

// TimeLeft returns how long w may wait yet.
func (w *Waiter) TimeLeft() time.Duration { return time.Until(w.end) }

// PermitDelay returns when to ask again for a permit that is not free: how long others hold
// theirs is not known, and wait is when they lose them if they died.
func (w *Waiter) PermitDelay(wait time.Duration) time.Duration { return min(wait, w.poll.Next()) }

// Sleep waits for d. It returns refusal at once where that is too long or the room is
// full, and the context's error if that ends first.
func (w *Waiter) Sleep(d time.Duration, refusal error) error {
	if d > w.TimeLeft() {
		return refusal
	}
	if !w.inside {
		if w.inside = w.room.enter(); !w.inside {
			return refusal
		}
	}
	if !backoff.Sleep(w.ctx, d) {
		return w.ctx.Err()
	}
	return nil
}
