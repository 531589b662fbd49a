package transport

import (
	"context"
	"time"

	"github.com/weirlimit/weir/store/internal/clock"
)

// recordEnd tells the breaker how a call ended, unless it was told before, and reports
// whether that opened it. Requires: mu.
func (s *shard) recordEnd(c *Call, r *Result) bool {
	switch {
	case c.failed:
		return false
	case r == nil:
		return s.breaker.recordCall(false, s.q.opt.Tuning.RunsOnly)
	case r.Outcome != Failed && r.Outcome != Late:
		s.countFailure(r)
		return false
	}
	return s.recordFailure(c, r)
}

// recordFailure records the failure of a call, and reports whether that opened the breaker.
// Requires: mu.
func (s *shard) recordFailure(c *Call, r *Result) bool {
	if !c.failed {
		c.failed = true
		s.countFailure(r)
	}
	if r.Outcome == Late {
		// However many wait, one silence is one failure: a server that gets no turn for a
		// moment, on a host that is busy, is not out.
		now := s.q.env.Now()
		if !hadTime(c, now) || now-s.lateAt < clock.Node(s.q.opt.Budget.Microseconds())*3/4 && s.lateAt > 0 {
			return false
		}
		s.lateAt = now
	}
	return !r.Excused && !s.q.opt.NeverOpens && s.breaker.recordCall(true, s.q.opt.Tuning.RunsOnly)
}

// hadTime reports whether a shard had its time for c, a call that was sent, but for a
// quarter: two clocks tell it. That in which this node did not run is not the shard's: a
// caller waits no more than a second for its own node, and then gives up a store that is well.
func hadTime(c *Call, now clock.Node) bool {
	q := c.shard.q
	has := q.opt.Budget
	if c.class == Background {
		has = q.opt.Timeout
	}
	passed := time.Duration(now-c.sent) * time.Microsecond
	if q.env.Late != nil {
		passed -= q.env.Late(c.late)
	}
	return passed >= has/4*3
}

func (s *shard) countFailure(r *Result) {
	s.q.stats.failed.Add(1)
	if r.Outcome == Late {
		s.q.stats.late.Add(1)
	}
}

// isStuck records that a call got no turn for a whole budget, if nothing was sent in it,
// and reports whether that opened the breaker. Requires: mu.
func (s *shard) isStuck(c *Call) bool {
	before := s.q.env.Now() - clock.Node(s.q.opt.Budget.Microseconds())
	if c.class != Foreground || c.entered > before ||
		c.tag != 0 && s.byKey[c.tag] != c || // the call that it waits behind is judged
		len(s.flight) == 0 || s.flight[len(s.flight)-1].sent > before {
		return false
	}
	last := s.flight[len(s.flight)-1]
	c.sent, c.late = last.sent, last.late // since then it waits for the shard
	return s.recordFailure(c, &Result{Outcome: Late})
}

// awaitCall waits until a call has ended, or its caller waits no longer. Meanwhile a fetch is
// judged each time that it has had the budget.
func (s *shard) awaitCall(ctx context.Context, c *Call, left time.Duration) Wake {
	if c.class != Fetch {
		wake := s.q.env.Park(ctx, c.gate, left)
		for wake == TimedOut {
			more := extraWait(c)
			if more == 0 {
				break
			}
			wake = s.q.env.Park(ctx, c.gate, more)
		}
		return wake
	}
	budget := clock.Node(s.q.opt.Budget.Microseconds())
	for by := c.entered + budget; ; by = s.recordLate(c, by, budget) {
		now := s.q.env.Now()
		if by-now < -budget/4 {
			by = now + budget // it looks late itself: what was sent has as much time again
		}
		wait := time.Duration(max(min(by, c.ends)-now, 0)) * time.Microsecond
		if wake := s.q.env.Park(ctx, c.gate, wait); wake != TimedOut || by >= c.ends {
			return wake
		}
	}
}

// recordLate notes that a fetch has had its time, if it was over by an instant, and returns when
// it is next.
func (s *shard) recordLate(c *Call, by, budget clock.Node) (next clock.Node) {
	s.mu.Lock()
	opened := c.state == sent && c.due <= by && s.recordLateCall(c, errLate)
	if next = by + budget; c.state == sent {
		next = c.due
	}
	s.mu.Unlock()
	if opened {
		s.handleOpened(errLate)
	}
	return next
}

// recordLeftCalls judges what callers have left in flight, until all of it has been judged.
func (s *shard) recordLeftCalls() {
	budget := clock.Node(s.q.opt.Budget.Microseconds())
	for until := clock.Node(0); ; {
		s.mu.Lock()
		opened := s.recordResult(until)
		due := clock.Never
		for _, c := range s.flight {
			due = min(due, c.due)
		}
		isBusy := due != clock.Never
		s.watched = isBusy
		now := s.q.env.Now()
		until = min(now+budget, due)
		s.mu.Unlock()
		if opened {
			s.handleOpened(errLate)
		}
		wait := until - now
		if wait < -budget/4 {
			// It looks late itself: what was sent has as much time again.
			wait = budget
		}
		if !isBusy || s.q.env.Park(s.q.ctx, nil, time.Duration(max(wait, 0))*time.Microsecond) == Ended {
			return
		}
	}
}

// recordResult notes what has had its time by the given instant, and reports whether that opened
// the breaker. Requires: mu.
func (s *shard) recordResult(by clock.Node) (opened bool) {
	for _, c := range s.flight {
		if c.due <= by {
			opened = s.recordLateCall(c, errLate) || opened
		}
	}
	return opened
}

// recordLateCall notes that a call has had its time, and reports whether that opened the breaker:
// a fetch counts if somebody waits for it, once more for each budget until it is left.
// Its key is released: those who wait behind it hear that it is late, and the next spend
// makes a call of its own. Requires: mu.
func (s *shard) recordLateCall(c *Call, r *Result) bool {
	c.due = clock.Never
	s.dropCall(c, errUnsent) // those behind it
	if c.class == Fetch {
		if !c.left {
			c.due = s.q.env.Now().Add(s.q.opt.Budget.Microseconds())
		}
		c.flight.Overdue.Store(true)
		if !c.flight.Waited.Load() {
			return false
		}
	}
	return s.recordFailure(c, r)
}
