package pauses

import (
	"context"
	"sync/atomic"
	"time"
)

// Room bounds how many wait at a time. Safe for concurrent use.
type Room struct{ waiting atomic.Int64 }

// Waiter is somebody who waits, several times perhaps, and not beyond an
// instant. Not safe for concurrent use.
type Waiter struct {
	ctx     context.Context
	end     time.Time
	room    *Room
	most    int64
	counted bool
}

// Waiter returns one that waits until end or the deadline of ctx at the latest,
// and among most at a time. Done must be called.
func (r *Room) Waiter(ctx context.Context, end time.Time, most int) *Waiter {
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	return &Waiter{ctx: ctx, end: end, room: r, most: int64(most)}
}

// Done says that w waits no more.
func (w *Waiter) Done() {
	if w.counted {
		w.counted = false
		w.room.waiting.Add(-1)
	}
}

// Left returns how long w may wait yet.
func (w *Waiter) Left() time.Duration { return time.Until(w.end) }

// Sleep waits for d. Where that is too long, or too many wait already, it
// returns refusal at once, and else the context's error if that ends first.
func (w *Waiter) Sleep(d time.Duration, refusal error) error {
	if d > w.Left() {
		return refusal
	}
	if !w.counted {
		w.counted = true
		if w.room.waiting.Add(1) > w.most {
			return refusal
		}
	}
	if !Sleep(w.ctx, d) {
		return w.ctx.Err()
	}
	return nil
}
