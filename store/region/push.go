package region

import (
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/transport"
)

// A peer is another region as this node sees it.
type peer struct {
	name  string
	store weir.Store
	queue *transport.Queue
	clock *clock.Clock // of its store
	// reported is units, failures the calls without an answer, lastAnswer when the last had one,
	// in node time.
	reported, failures atomic.Uint64
	lastAnswer         atomic.Int64
}

const (
	// tickEvery is how often what is due is reported, sweepEvery how often what is known of
	// keys is forgotten that are not in use.
	tickEvery, sweepEvery = 25 * time.Millisecond, time.Second
	// pushesAtOnce is how many pushes are under way.
	pushesAtOnce = 64
)

// runReports reports what is due, until the store is closed.
func (s *Store) runReports() {
	for swept := s.env.Now(); s.env.Park(s.ctx, s.table.wake, tickEvery) != transport.Ended; {
		if now := s.env.Now(); int64(now-swept) >= sweepEvery.Microseconds() {
			swept = now
			s.sweepIdle()
		}
		s.publish(0)
	}
}

// publish begins the pushes that are due, as far as there is room for them. If the store
// closes it begins the last one of each key, and waits for room until the given time.
func (s *Store) publish(closing clock.Node) {
	for _, p := range s.table.takeDue(s.clock.Now(), closing > 0) {
		if s.pushing.Load() == pushesAtOnce {
			if s.clock.Now() >= closing {
				s.table.finishPush(p.outbound, 0, false, s.clock.Now())
				continue
			}
			s.queue.Wait() // every push ends in time
		}
		s.pushing.Add(1)
		s.queue.Go(func() { // which is open: close waits for this loop
			own, ok := s.pushCounter(p)
			s.table.finishPush(p.outbound, own, ok, s.clock.Now())
			s.pushing.Add(-1)
		})
	}
}

// pushCounter reports to every other region how far the region's own counter of a key has come,
// if it is this node's turn. It returns how many units all know of now, and whether there is
// nothing that they should and do not.
func (s *Store) pushCounter(p push) (all int64, ok bool) {
	r, c, key := p.limit, p.epoch, p.key
	look := func(l *weir.Limit) weir.Op {
		return weir.Op{Key: key, Limit: l, Cost: 1, Role: weir.Always, Verb: weir.Peek}
	}
	ops := []weir.Op{look(c.own), look(c.reported), look(c.sent)}
	if r.most != nil {
		ops = append(ops, look(r.most))
	}
	turn := r.turn
	if p.urgent {
		turn = r.urgentTurn
	}
	if !p.last {
		ops = append(ops, weir.Op{Key: key, Limit: turn, Cost: 1})
	}
	asked, err := s.queue.DecideInBackground(ops)
	if err != nil {
		return 0, false
	}
	own, reported, sent := counterValue(&ops[0]), counterValue(&ops[1]), counterValue(&ops[2])
	if r.most != nil {
		raiseTo(&s.overshot, r.limit.Overshoot()-ops[3].Decision.Remaining)
	}
	mine := p.last || ops[len(ops)-1].Decision.Allowed()
	s.table.observe(p.outbound, own, reported, sent, mine, asked, s.clock.Now())
	was := sent
	if !p.urgent || was < reported {
		was = reported // whatever was on its way before has had its time
	}
	if !mine || own <= was {
		return 0, true
	}
	raiseCounter(s.queue, key, c.sent, own, sent)
	if !s.pushToPeers(key, c, r.limit, own, was) {
		return 0, false
	}
	raiseCounter(s.queue, key, c.reported, own, reported)
	return own, true
}

// counterValue returns how far a counter has come, as an op on it says.
func counterValue(o *weir.Op) int64 { return counterMax - o.Decision.Remaining }

// raiseCounter raises a counter of the region to n, if it is no further than was. If it cannot
// be, others hear once more what they know.
func raiseCounter(q *transport.Queue, key string, l *weir.Limit, n, was int64) {
	if n > was {
		_, _ = q.DecideInBackground([]weir.Op{{Key: key, Limit: l, Cost: n - was, Headroom: counterMax - n}})
	}
}

// raiseTo raises n to at least v.
func raiseTo(n *atomic.Int64, v int64) {
	for old := n.Load(); v > old && !n.CompareAndSwap(old, v); old = n.Load() {
	}
}

// pushToPeers reports to all other regions at once, and returns whether all know of it.
func (s *Store) pushToPeers(key string, c *epochCounters, l *weir.Limit, own, was int64) bool {
	var failed atomic.Bool
	pushes := transport.NewGroup(s.env)
	for _, p := range s.peers {
		if p.queue.IsShardOpen(p.queue.ShardOfKey(key)) {
			failed.Store(true)
			continue
		}
		pushes.Go(func() {
			if !s.pushToPeer(p, key, c, l, own, was) {
				failed.Store(true)
			}
		})
	}
	pushes.Wait()
	return !failed.Load()
}

// pushToPeer raises a peer's copy of the counter to own, and charges what it did not know of.
// Made twice, late or out of order it charges nothing twice: a raise passes only from
// where it was thought to be, or below.
func (s *Store) pushToPeer(p *peer, key string, c *epochCounters, l *weir.Limit, own, was int64) bool {
	for range 5 {
		now, known := p.clock.Earliest(p.clock.Now())
		switch {
		case !c.window || !known:
		case int64(now) >= c.end:
			return true // it does not count there any more
		case int64(now) < c.since.Load():
			return false // it does not count there yet
		}
		ops := []weir.Op{
			{Key: key, Limit: c.copy, Cost: own - was, Headroom: counterMax - own},
			{Key: key, Limit: l, Cost: own - was, Role: weir.Always, Verb: weir.Force},
		}
		if c.window && !known {
			// Its clock is not known yet.
			ops = ops[:1]
			ops[0].Verb = weir.Peek
		}
		sent, err := p.queue.DecideInBackground(ops)
		if err != nil {
			p.failures.Add(1)
			return false
		}
		p.clock.Observe(p.queue.ShardOfKey(key), clock.Store(ops[0].Now), sent)
		p.lastAnswer.Store(int64(s.clock.Now()))
		if ops[0].Charged {
			p.reported.Add(uint64(own - was))
		}
		if was = counterValue(&ops[0]); was >= own {
			return true
		}
	}
	return false
}
