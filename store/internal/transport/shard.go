package transport

import (
	"slices"
	"sync"
	"time"
)

// A shard is the calls of one part of the store that fails as one.
type shard struct {
	q     *Queue
	index int

	mu sync.Mutex // guards all below; never held while the driver runs
	// waiting are the calls to be sent, in order of arrival: those that decisions wait
	// for, and the others. Some have been left.
	waiting [2][]*Call
	// live is how many calls wait, those behind others included, that were not left.
	live int
	// byKey is the call under way for a key; later spends wait behind it.
	byKey map[uint64]*Call
	// flight is what was sent and has not ended, oldest first.
	flight     []*Call
	background int // how many in flight are background calls
	working    int
	watched    bool
	breaker    Breaker
}

func listOf(class Class) int {
	if class == Background {
		return 1
	}
	return 0
}

// enter queues a call for a caller who waits so long, unless there is no room or the shard is open.
func (s *shard) enter(c *Call, waits time.Duration) *Result {
	if s.breaker.isOpen.Load() {
		return errOpen
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.entered = s.q.env.Now()
	c.ends = c.entered.Add(waits.Microseconds())
	switch {
	case s.breaker.isOpen.Load():
		return errOpen
	case s.live >= s.q.opt.Waiting:
		return s.busy()
	}
	if c.tag != 0 {
		switch first := s.byKey[c.tag]; {
		case first == nil:
			s.byKey[c.tag] = c
		case first.limit == c.limit && first.key == c.key:
			if !s.join(first, c) {
				return s.busy()
			}
			s.live++
			return nil
		}
		// Beside the calls of another key of the same tag it is sent by itself.
	}
	if r := s.push(c); r != nil {
		delete(s.byKey, c.tag)
		return r
	}
	s.live++
	return nil
}

func (s *shard) busy() *Result {
	s.q.stats.busy.Add(1)
	return errBusy
}

// push appends a call to what waits, and sees to it that a worker takes it, if one may.
func (s *shard) push(c *Call) *Result {
	if s.breaker.isOpen.Load() {
		return errOpen
	}
	if s.working < s.q.opt.Workers && s.q.work.run(s.run) {
		s.working++
	}
	if s.working == 0 {
		return errClosed
	}
	list := listOf(c.class)
	s.waiting[list] = append(s.waiting[list], c)
	return nil
}

// run is a worker: it sends what waits, until nothing does.
func (s *shard) run() {
	batch := make([]*Call, 0, min(s.q.opt.Batch, 16))
	for {
		if batch = s.next(batch[:0]); len(batch) == 0 {
			return
		}
		s.q.driver.Send(s.index, batch)
		clear(batch)
	}
}

// next takes out what a worker sends together. Nothing ends the worker.
func (s *shard) next(batch []*Call) []*Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.q.env.Now()
	for len(batch) < s.q.opt.Batch {
		c := s.pop()
		if c == nil {
			break
		}
		c.state, c.sent = sent, now
		c.Within, c.due = s.q.opt.Budget, now.Add(s.q.opt.Budget.Microseconds())
		if c.class != Foreground {
			c.Within = s.q.opt.Timeout
		}
		if c.class == Background {
			c.due = now.Add(s.q.opt.Timeout.Microseconds())
			s.background++
		}
		s.live--
		s.merge(c)
		s.flight = append(s.flight, c)
		batch = append(batch, c)
	}
	if len(batch) == 0 {
		s.working--
		return nil
	}
	s.q.stats.calls.Add(uint64(len(batch)))
	if !s.watched {
		s.watched = s.q.helpers.run(s.watch)
	}
	return batch
}

// pop takes out the call that came first, but for background calls of which enough are
// under way.
func (s *shard) pop() *Call {
	for {
		list := 0
		if fore, back := s.waiting[0], s.waiting[1]; len(back) > 0 && s.background < s.q.atMostBackground() &&
			(len(fore) == 0 || back[0].entered < fore[0].entered) {
			list = 1
		}
		if len(s.waiting[list]) == 0 {
			return nil
		}
		c := s.waiting[list][0]
		s.waiting[list][0] = nil
		s.waiting[list] = s.waiting[list][1:]
		if !c.left {
			return c
		}
		s.release(c)
	}
}

// atMostBackground is how many background calls of a shard are under way at a time.
func (q *Queue) atMostBackground() int { return max(q.opt.Workers*q.opt.Batch/4, 1) }

// Finish ends a call: a nil result says that its Ops are answered. Its driver calls it
// once, and must not touch the call afterwards.
func (c *Call) Finish(r *Result) {
	s := c.shard
	s.mu.Lock()
	i := slices.Index(s.flight, c)
	s.flight = slices.Delete(s.flight, i, i+1)
	if c.class == Background {
		s.background--
	}
	opened := s.record(c, r)
	s.release(c)
	var left []*Call
	for i := len(c.with) - 1; i >= 0; i-- { // c itself is the last: its caller may use it again
		f := c.with[i]
		if r == nil {
			copyAnswers(f.Ops, c.Ops[i+1:i+2])
		}
		left = f.end(r, left)
	}
	left = c.end(r, left)
	s.mu.Unlock()
	for _, f := range left {
		f.then(f.Ops, f.err())
	}
	if opened {
		s.opened(r)
	}
}

// end hands a call back. If its caller has left and waits for the answer elsewhere, it
// is appended to left. Requires: mu.
func (c *Call) end(r *Result, left []*Call) []*Call {
	c.state, c.result = finished, r
	switch {
	case !c.left:
		c.gate.Open()
	case c.then != nil:
		left = append(left, c)
	}
	return left
}

// drop answers a call that waits, and those behind it, without sending them. Requires:
// mu.
func (s *shard) drop(c *Call, r *Result) {
	if s.byKey[c.tag] == c {
		delete(s.byKey, c.tag)
	}
	for _, f := range append(c.behind, c) {
		if f.left || f.state != queued {
			continue
		}
		s.live--
		f.end(r, nil)
	}
	c.behind = nil
}

// leave takes a call back for a caller who waits no longer, for a reason that is about
// the caller or not. It returns false if the call has ended meanwhile: its gate is open.
func (s *shard) leave(c *Call, r *Result) (*Result, bool) {
	s.mu.Lock()
	var opened bool
	defer func() {
		s.mu.Unlock()
		if opened {
			s.opened(r)
		}
	}()
	if r.Outcome == Late {
		opened = s.judge(c.ends) // what was sent before has waited for longer
	}
	if c.state == finished {
		return nil, false
	}
	c.left = true
	r.MayRun = c.state == sent
	if r.MayRun {
		r.left = c
		return r, true
	}
	s.live--
	s.sweep(listOf(c.class))
	if r.Outcome == Late {
		r.Outcome = Unsent
		s.q.stats.busy.Add(1)
		opened = s.isStuck(c) || opened
	}
	return r, true
}

// sweep takes out of what waits the calls that were left, if they are many. Requires: mu.
func (s *shard) sweep(list int) {
	all := s.waiting[list]
	if s.live*2+64 > len(all) {
		return
	}
	s.waiting[list] = nil
	for _, c := range all {
		if c.left {
			s.release(c)
		} else {
			s.waiting[list] = append(s.waiting[list], c)
		}
	}
}
