package transport

import (
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
	if s.live >= s.q.opt.Waiting {
		return s.busy()
	}
	first := s.byKey[c.tag]
	if first != nil && first.limit == c.limit && first.key == c.key {
		if !s.join(first, c) {
			return s.busy()
		}
		s.live++
		return nil
	}
	if r := s.push(c); r != nil {
		return r
	}
	s.live++
	if c.tag != 0 && first == nil { // beside the calls of another key it is sent by itself
		s.byKey[c.tag] = c
	}
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
	if s.working < s.q.opt.Workers && s.q.work.Go(s.worker) {
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
		if begun := s.q.opt.Tuning.Begun; begun != nil {
			for _, c := range batch {
				c.Context, c.report = begun(c.Context, len(c.Ops))
			}
		}
		s.q.opt.Tuning.Send(s.q.driven.Load(), s.index, batch)
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
		if c.class != Foreground { // else its caller judges it, or leaves it
			c.Within = s.q.opt.Timeout
			s.watchFlight()
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
	return batch
}

// pop takes out the call that came first, but for background calls of which enough are
// under way.
func (s *shard) pop() *Call {
	for {
		list := 0
		if fore, back := s.waiting[0], s.waiting[1]; len(back) > 0 && s.background < s.q.opt.atMostBackground() &&
			(len(fore) == 0 || back[0].entered < fore[0].entered) {
			list = 1
		}
		all := s.waiting[list]
		if len(all) == 0 {
			return nil
		}
		c := all[0]
		all[0] = nil
		if s.waiting[list] = all[1:]; len(all) == 1 {
			s.waiting[list] = all[:0] // its room is used again
		}
		if !c.left {
			return c
		}
		s.release(c)
	}
}

// atMostBackground is how many background calls of a shard are under way at a time.
func (o *Options) atMostBackground() int { return max(o.Workers*o.Batch/4, 1) }

// leave takes a call back for a caller who waits no longer, for the reason in r, and says
// there whether it may run. It returns false if the call has ended meanwhile: its gate is
// open.
func (s *shard) leave(c *Call, r *Result) bool {
	s.mu.Lock()
	// What was sent before has waited for longer.
	opened := r.Outcome == Late && s.recordResult(c.ends)
	ended := c.state == finished
	switch c.left = !ended; c.state {
	case sent:
		r.MayRun, r.left = true, c
		r.Excused = time.Duration(c.sent-c.entered)*time.Microsecond > s.q.opt.Budget/8
		if c.due != clock.Never {
			s.watchFlight()
		}
	case queued:
		s.live--
		s.sweep(listOf(c.class))
		if r.Outcome == Late {
			r.Outcome = Unsent
			s.q.stats.busy.Add(1)
			opened = s.isStuck(c) || opened
		}
	}
	s.mu.Unlock()
	if opened {
		s.opened(errLate)
	}
	return !ended
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
