package transport

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirlimit/weir"
)

// handleOpened answers what waits at a shard whose breaker has just opened, begins to probe
// it, and tells the owner of the queue.
func (s *shard) handleOpened(err error) {
	s.mu.Lock()
	for _, c := range slices.Concat(s.waiting[0], s.waiting[1], s.flight) {
		s.dropCall(c, errOpen) // of what is in flight, those behind it
	}
	s.waiting = [2][]*Call{}
	s.mu.Unlock()
	s.q.helpers.Go(s.probeUntilClosed)
	if opened := s.q.opt.Tuning.Opened; opened != nil {
		opened(s.index, err)
	}
	if s.q.opt.Opened != nil && s.q.IsOpen() {
		s.q.opt.Opened(err)
	}
}

// probeUntilClosed probes the shard until it answers or the queue is closed. Nodes do
// not probe together: each interval is another, by a fifth.
func (s *shard) probeUntilClosed() {
	rnd := rand.New(rand.NewPCG(s.q.opt.Seed, uint64(s.index)))
	for {
		every := s.q.opt.ProbeEvery
		every += time.Duration(rnd.Int64N(int64(every)/5+1)) - every/10
		if s.q.env.Park(s.q.ctx, nil, every) == Ended {
			return
		}
		if !s.answersProbe() {
			continue
		}
		s.mu.Lock()
		s.breaker.close()
		s.mu.Unlock()
		if closed := s.q.opt.Tuning.Closed; closed != nil {
			closed(s.index)
		}
		if s.q.opt.Closed != nil {
			s.q.opt.Closed()
		}
		return
	}
}

// answersProbe reports whether the shard answers a probe within its budget.
func (s *shard) answersProbe() bool {
	s.mu.Lock()
	if s.breaker.probes == maxProbes {
		s.mu.Unlock()
		return false
	}
	s.breaker.probes++
	s.mu.Unlock()
	gate, within := NewGate(), cmp.Or(s.q.opt.Tuning.ProbeFor, s.q.opt.Budget)
	var err error
	s.q.env.Go(func() {
		if err = s.q.driver.Probe(s.index, within); err == nil && s.q.opt.Probe != nil && len(s.q.shards) == 1 {
			err = s.q.opt.Probe(func(ops []weir.Op) error { return s.askPastBreaker(ops, within) })
		}
		s.mu.Lock()
		s.breaker.probes--
		s.mu.Unlock()
		gate.Open()
	})
	s.q.stats.calls.Add(1)
	var r *Result
	if s.q.env.Park(s.q.ctx, gate, within) == Opened && (err == nil || errors.As(err, &r) && r.Excused) {
		return true // or one of its servers is out, and others answer
	}
	s.q.stats.failed.Add(1)
	return false
}

// askPastBreaker decides ops by a call that passes by the breaker.
func (s *shard) askPastBreaker(ops []weir.Op, within time.Duration) error {
	c := s.q.newCall(s.q.ctx, Background, ops)
	defer s.q.spare.Put(c)
	c.result = c.AskDriver(c.Ops, within)
	copyAnswers(ops, c.Ops)
	return c.resultError()
}

// TripBreaker opens the breaker of a shard because of err, unless it is open. Its prober closes
// it.
func (q *Queue) TripBreaker(shard int, err error) {
	s := &q.shards[shard]
	s.mu.Lock()
	was := s.breaker.isOpen.Swap(true)
	s.mu.Unlock()
	if !was {
		s.handleOpened(err)
	}
}
