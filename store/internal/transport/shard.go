package transport

import (
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir/store/internal/clock"
)

// A shard is the calls of one part of the store that fails as one.
type shard struct {
	q     *Queue
	index int
	// worker and watcher are run and watch, which each Go would allocate anew.
	worker, watcher func()

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
	lateAt     clock.Node // when the breaker heard last that a call is late
	starved    starved
}

// enqueueCall queues a call for a caller who waits so long, unless there is no room or the shard is open.
func (s *shard) enqueueCall(c *Call, waits time.Duration) *Result {
	if s.breaker.isOpen.Load() {
		return errOpen
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.entered, c.starved = updateStarved(s), s.starved.total
	c.ends = c.entered.Add(waits.Microseconds())
	c.until = c.ends
	if s.live >= s.q.opt.Waiting {
		return s.refuseBusy()
	}
	first := s.byKey[c.tag]
	if first != nil && first.limit == c.limit && first.key == c.key {
		if !s.joinBehind(first, c) {
			return s.refuseBusy()
		}
		s.live++
		return nil
	}
	if r := s.pushWaiting(c); r != nil {
		return r
	}
	s.live++
	if c.tag != 0 && first == nil { // beside the calls of another key it is sent by itself
		s.byKey[c.tag] = c
	}
	return nil
}

// runWorker is a worker: it sends what waits, until nothing does.
func (s *shard) runWorker() {
	batch := make([]*Call, 0, min(s.q.opt.Batch, 16))
	for {
		if batch = s.nextBatch(batch[:0]); len(batch) == 0 {
			return
		}
		if w := s.q.opt.Tuning.Watcher; w != nil {
			for _, c := range batch {
				c.Context, c.report = w.Begin(c.Context, len(c.Ops))
			}
		}
		s.q.opt.Tuning.Send(s.q.driver, s.index, batch)
		clear(batch)
	}
}

// nextBatch takes out what a worker sends together. Nothing ends the worker.
func (s *shard) nextBatch(batch []*Call) []*Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, late := updateStarved(s), time.Duration(0)
	if s.q.env.Late != nil {
		late = s.q.env.Late(0)
	}
	for len(batch) < s.q.opt.Batch {
		c := s.popWaiting()
		if c == nil {
			break
		}
		c.state, c.sent, c.late = sent, now, late
		c.Within, c.due = s.q.opt.Budget, now.Add(s.q.opt.Budget.Microseconds())
		if c.class != Foreground {
			c.Within = s.q.opt.Timeout
		}
		if c.class == Background {
			c.due = now.Add(s.q.opt.Timeout.Microseconds())
			s.background++
		}
		s.live--
		s.mergeBehind(c)
		s.flight = append(s.flight, c)
		batch = append(batch, c)
	}
	if len(batch) == 0 {
		s.working--
		return nil
	}
	s.q.stats.calls.Add(uint64(len(batch)))
	return batch
}

// leaveCall takes a call back for a caller who waits no longer, for the reason in r, and says
// there whether it may run. It returns false if the call has ended meanwhile: its gate is
// open.
func (s *shard) leaveCall(c *Call, r *Result) bool {
	s.mu.Lock()
	updateStarved(s)
	// What was sent before has waited for longer.
	opened := r.Outcome == Late && s.recordResult(c.ends)
	ended := c.state == finished
	switch c.left = !ended; c.state {
	case sent:
		r.MayRun, r.left = true, c
		r.Excused = time.Duration(c.sent-c.entered)*time.Microsecond > s.q.opt.Budget/8
		if c.due != clock.Never && !s.watched {
			s.watched = s.q.helpers.Go(s.watcher)
		}
	case queued:
		s.live--
		s.sweepLeft(listOfClass(c.class))
		if r.Outcome == Late {
			r.Outcome = Unsent
			s.q.stats.busy.Add(1)
			opened = s.isStuck(c) || opened
		}
	}
	s.mu.Unlock()
	if opened {
		s.handleOpened(errLate)
	}
	return !ended
}

// Finish ends a call: a nil result says that its Ops are answered. Its driver calls it
// once, and must not touch the call afterwards.
func (c *Call) Finish(r *Result) {
	if c.isSub {
		c.result = r
		c.gate.Open()
		return
	}
	s := c.shard
	if t := &s.q.opt.Tuning; t.Watcher != nil {
		failure := ""
		if r != nil {
			failure = t.FailureOf(r.Err)
		}
		t.Watcher.End(time.Duration(s.q.env.Now()-c.sent)*time.Microsecond, failure, c.report)
	}
	s.mu.Lock()
	updateStarved(s)
	i := slices.Index(s.flight, c)
	s.flight = slices.Delete(s.flight, i, i+1)
	if c.class == Background {
		s.background--
	}
	opened := s.recordEnd(c, r)
	s.release(c)
	if len(c.with) > 0 && r == nil {
		for i := range c.Ops { // each stands alone, though a store says Charged of a refused Always
			o := &c.Ops[i]
			o.Answer.Set(o.Decision, o.Now, 0, o.Decision.Allowed(), false)
		}
	}
	var left []*Call
	for i := len(c.with) - 1; i >= 0; i-- { // c itself is the last: its caller may use it again
		f := c.with[i]
		if r == nil {
			copyAnswers(f.Ops, c.Ops[i+1:i+2])
		}
		left = f.handBack(r, left)
	}
	left = c.handBack(r, left)
	s.mu.Unlock()
	for _, f := range left {
		f.then(f.Ops, f.resultError())
	}
	if opened {
		s.handleOpened(r)
	}
}
