package grpcserver

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// calls counts calls under way, from their first frame on: a call whose message
// does not come holds a goroutine as others do.
//
// grpc tells of the beginning of every call, and of the end of those alone that
// have reached their handler. The others are looked for, a few with every call
// that begins, and all when there are too many.
type calls struct {
	most int64
	open atomic.Int64
	// swept is when ended calls were last looked for, in nanoseconds since the
	// Unix epoch.
	swept  atomic.Int64
	shards [16]shard
	next   atomic.Uint32
}

// shard is a ring of calls that have not been ended, apart from others so that
// connections do not wait for each other.
type shard struct {
	mu   sync.Mutex
	ring call // its neighbours are the first and the last
	_    [64]byte
}

// call is the context of one call.
type call struct {
	context.Context
	shard      *shard
	prev, next *call // nil once it has ended; Requires: shard.mu
	// header is what came with the call, conn where the answer goes.
	header metadata.MD
	conn   *conn
	// cancel ends a call that is refused. Others end with the context that grpc
	// made, which they need until their answer is sent. Nil means nothing.
	cancel context.CancelFunc
}

// callKey finds the call among the values of a context.
type callKey struct{}

// Value implements context.Context.
func (c *call) Value(key any) any {
	if _, ok := key.(callKey); ok {
		return c
	}
	return c.Context.Value(key)
}

// HeaderValues returns the values of a field that came with the call that ctx belongs to,
// by its name in lower case. They are not to be changed. Unlike package metadata it
// copies nothing, and so costs a call that has none, or whose value is of no
// interest, no allocation.
func HeaderValues(ctx context.Context, name string) []string {
	if k, ok := ctx.Value(callKey{}).(*call); ok {
		return k.header[name]
	}
	return nil
}

// connOf returns the connection of the call that ctx belongs to.
func connOf(ctx context.Context) *conn {
	if k, ok := ctx.Value(callKey{}).(*call); ok {
		return k.conn
	}
	return nil
}

func newCalls(most int) *calls {
	c := &calls{most: int64(most)}
	for i := range c.shards {
		r := &c.shards[i].ring
		r.prev, r.next = r, r
	}
	return c
}

// beginCall counts a call, or returns false when there are too many.
func (c *calls) beginCall(k *call) bool {
	if c.open.Add(1) > c.most {
		c.sweepEnded(time.Now())
		if c.open.Load() > c.most {
			c.open.Add(-1)
			return false
		}
	}
	s := &c.shards[c.next.Add(1)%uint32(len(c.shards))]
	k.shard = s
	s.mu.Lock()
	c.forgetEnded(s)
	k.prev, k.next = s.ring.prev, &s.ring
	k.prev.next, s.ring.prev = k, k
	s.mu.Unlock()
	return true
}

// forgetEnded forgets the longest known calls of a shard if they have ended: two for
// each one that begins, so that what has ended is not kept. Requires: s.mu.
func (c *calls) forgetEnded(s *shard) {
	for range 2 {
		k := s.ring.next
		if k == &s.ring {
			return
		}
		if k.Err() != nil {
			c.removeCall(k)
			continue
		}
		// Look at another next time.
		k.prev.next, k.next.prev = k.next, k.prev
		k.prev, k.next = s.ring.prev, &s.ring
		k.prev.next, s.ring.prev = k, k
	}
}

// endCall is called when the handler of the call that ctx belongs to has returned.
func (c *calls) endCall(ctx context.Context) {
	k, ok := ctx.Value(callKey{}).(*call)
	if !ok || k.shard == nil {
		return
	}
	k.shard.mu.Lock()
	c.removeCall(k)
	k.shard.mu.Unlock()
}

// removeCall forgets k unless it is forgotten. Requires: k.shard.mu.
func (c *calls) removeCall(k *call) {
	if k.next == nil {
		return
	}
	k.prev.next, k.next.prev = k.next, k.prev
	k.prev, k.next = nil, nil
	c.open.Add(-1)
}

// sweepEvery bounds what a flood of calls makes sweeps cost.
const sweepEvery = 50 * time.Millisecond

// sweepEnded forgets calls that have ended without reaching their handler.
func (c *calls) sweepEnded(now time.Time) {
	last := c.swept.Load()
	if now.UnixNano()-last < int64(sweepEvery) || !c.swept.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for k := s.ring.next; k != &s.ring; {
			next := k.next
			if k.Err() != nil {
				c.removeCall(k)
			}
			k = next
		}
		s.mu.Unlock()
	}
}

// tapCall is grpc's tap: it sees each call when its header is read, on the
// goroutine that reads the connection.
func (s *Server) tapCall(ctx context.Context, info *tap.Info) (context.Context, error) {
	k := &call{Context: ctx, header: info.Header}
	if p, ok := peer.FromContext(ctx); ok {
		if a, ok := p.Addr.(connAddr); ok {
			k.conn = a.conn
		}
	}
	end, ends := ctx.Deadline()
	late := ends && time.Until(end) > s.opt.CallTimeout
	if (late || !ends) && !s.streams[info.FullMethodName] {
		k.Context, k.cancel = context.WithTimeout(ctx, s.opt.CallTimeout)
	}
	if s.calls.beginCall(k) {
		return k, nil
	}
	if k.cancel != nil {
		k.cancel()
	}
	if late {
		// grpc keeps the timer of a call that is refused here until it fires. So
		// this one goes on, and finds that its time is over.
		return k, nil
	}
	return nil, tooMany
}

var tooMany = status.Error(codes.Unavailable, "too many calls are under way on this server")
