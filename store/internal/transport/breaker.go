package transport

import (
	"cmp"
	"errors"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
)

const (
	// failuresInRow opens the breaker.
	failuresInRow = 5
	// failuresOfLast opens it, of the last so many calls.
	failuresOfLast = 10
	lastCalls      = 20
	// maxProbes is how many probes of a shard may be without an answer, as the driver
	// does not end them.
	maxProbes = 16
)

// A Breaker is the circuit breaker of one shard. It opens by failures, and is closed by
// a probe. All but isOpen is guarded by the shard.
type Breaker struct {
	isOpen atomic.Bool
	row    int    // failures since the last success
	last   uint32 // the last calls, 1 for a failure, newest lowest
	seen   int    // how many of them there were
	probes int    // under way, those left behind included
}

// record counts the end of a call and reports whether it opened the breaker. RunsOnly: by
// failures in a row alone.
func (b *Breaker) record(failed, runsOnly bool) bool {
	if b.isOpen.Load() {
		return false
	}
	b.last <<= 1
	b.seen = min(b.seen+1, lastCalls)
	if !failed {
		b.row = 0
		return false
	}
	b.row++
	b.last = (b.last | 1) & (1<<lastCalls - 1)
	if b.row < failuresInRow && (runsOnly || b.seen < lastCalls || bits.OnesCount32(b.last) < failuresOfLast) {
		return false
	}
	b.isOpen.Store(true)
	return true
}

// close closes the breaker and forgets what was recorded.
func (b *Breaker) close() {
	b.row, b.last, b.seen = 0, 0, 0
	b.isOpen.Store(false)
}

// opened answers what waits at a shard whose breaker has just opened, begins to probe
// it, and tells the owner of the queue.
func (s *shard) opened(err error) {
	s.mu.Lock()
	for _, c := range slices.Concat(s.waiting[0], s.waiting[1], s.flight) {
		s.drop(c, errOpen) // of what is in flight, those behind it
	}
	s.waiting = [2][]*Call{}
	s.mu.Unlock()
	s.q.helpers.Go(s.probeUntilClosed)
	if opened := s.q.driven.Load().opened; opened != nil {
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
		if !s.probe() {
			continue
		}
		s.mu.Lock()
		s.breaker.close()
		s.mu.Unlock()
		if closed := s.q.driven.Load().closed; closed != nil {
			closed(s.index)
		}
		if s.q.opt.Closed != nil {
			s.q.opt.Closed()
		}
		return
	}
}

// probe reports whether the shard answers a probe within its budget.
func (s *shard) probe() bool {
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
		if err = s.q.driven.Load().Probe(s.index, within); err == nil && s.q.opt.Probe != nil && len(s.q.shards) == 1 {
			err = s.q.opt.Probe(func(ops []weir.Op) error { return s.ask(ops, within) })
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

// ask decides ops by a call that passes by the breaker.
func (s *shard) ask(ops []weir.Op, within time.Duration) error {
	c := s.q.newCall(s.q.ctx, Background, ops)
	defer s.q.spare.Put(c)
	c.result = c.Ask(c.Ops, within)
	copyAnswers(ops, c.Ops)
	return c.err()
}

// Trip opens the breaker of a shard because of err, unless it is open. Its prober closes
// it.
func (q *Queue) Trip(shard int, err error) {
	s := &q.shards[shard]
	s.mu.Lock()
	was := s.breaker.isOpen.Swap(true)
	s.mu.Unlock()
	if !was {
		s.opened(err)
	}
}

// IsOpen reports whether the breakers of all shards are open: the store is away.
func (q *Queue) IsOpen() bool {
	for i := range q.shards {
		if !q.shards[i].breaker.isOpen.Load() {
			return false
		}
	}
	return true
}

// IsShardOpen reports whether the breaker of a shard is open.
func (q *Queue) IsShardOpen(shard int) bool { return q.shards[shard].breaker.isOpen.Load() }
