package tier

import (
	"context"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/transport"
)

// unsaid is the keys of which the node has something to tell, in the order in
// which they are due: those of one interval are in one queue.
//
// Safe for concurrent use.
type unsaid struct {
	mu     sync.Mutex
	queues map[int64][]due // by interval
}

// A due is a key to be told of at an instant of the node's time.
type due struct {
	e  *lease
	at int64
}

func (u *unsaid) add(e *lease, now int64) {
	interval := e.plan.counting.interval
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.queues == nil {
		u.queues = map[int64][]due{}
	}
	u.queues[interval] = append(u.queues[interval], due{e, now + interval})
}

// take takes out what is due by now.
func (u *unsaid) take(now int64) []due {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []due
	for interval, q := range u.queues {
		n := 0
		for n < len(q) && q[n].at <= now {
			n++
		}
		out = append(out, q[:n]...)
		if q = q[n:]; len(q) == 0 {
			delete(u.queues, interval)
			continue
		}
		u.queues[interval] = q
	}
	return out
}

// soon sees to it that a tally is told in its interval. Requires: the shard's
// lock.
func (s *Store) soon(e *lease) {
	if !e.tally.dirty {
		e.tally.dirty = true
		s.unsaid.add(e, s.link.now())
	}
}

// tellAll begins to tell what is due by the given time.
func (s *Store) tellAll(by int64) {
	for _, d := range s.unsaid.take(by) {
		e := d.e
		g := s.leases.shard(e.tag)
		g.mu.Lock()
		t := e.tally
		t.dirty = false
		switch {
		case t.told():
		case e.fetch != nil:
			s.soon(e)
		default:
			if _, err := s.startSync(g, e); err != nil {
				s.soon(e)
			}
		}
		g.mu.Unlock()
	}
}

// startSync begins to tell the shared store what it does not know of a key, and
// to ask what is left. Requires: g.mu.
func (s *Store) startSync(g *leaseShard, e *lease) (*fetch, error) {
	if s.link.IsOpen() {
		return nil, transport.ErrOpen
	}
	t, c, now := e.tally, e.plan.counting, s.link.now()
	if t.telling == 0 {
		if mark := c.marks[now/epoch%2]; mark != t.mark {
			t.mark, t.counted = mark, false
		}
		if t.counted && t.untold > 0 {
			t.telling, t.untold, t.since = t.untold, 0, now
			t.push++
		}
	}
	f, err := s.launch(func(f *fetch) { s.runSync(g, e, f) })
	if err == nil {
		e.fetch = f
	}
	return f, err
}

// runSync makes the call.
func (s *Store) runSync(g *leaseShard, e *lease, f *fetch) {
	g.mu.Lock()
	p, t, now := e.plan, e.tally, s.link.now()
	ops := p.counting.ops(e, now, s.shareOf(p))
	g.mu.Unlock()
	sent, err := s.fetchCall(context.Background(), f, ops)
	if err == nil {
		s.heard(ops[0].Now, sent)
		s.remember(e.tag, p.limit, 0, sent, ops[len(ops)-1].Decision, false)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.plan != p {
		err = transport.ErrLate // the limit was changed meanwhile: what is untold is told by the new one
	}
	e.fetch = nil
	defer f.Land(err)
	if err != nil {
		if t.telling > 0 && now-t.since > giveUpAfter {
			// Nobody will ever know whether it was counted: the units stay taken
			// from the share, until there is a new one.
			t.share = max(t.share-t.telling, 0)
			t.telling = 0
		}
		if !t.told() {
			s.soon(e)
		}
		return
	}
	s.fetched.Add(1)
	if over := e.synced(ops, sent, s.link.now()); over > s.overshot.Load() {
		s.overshot.Store(over) // under a lock of many: at worst a smaller one is kept
	}
	if t.untold > 0 {
		s.soon(e)
	}
}

// ops is what the shared store is told and asked: to count a push if it was not
// counted yet, for a share if there is none, and what is left; the last op is of
// the limit itself. Requires: mu.
func (c *counting) ops(e *lease, now, share int64) []weir.Op {
	t, l := e.tally, e.plan.limit
	ops := make([]weir.Op, 0, 5)
	if !t.counted {
		ops = append(ops, weir.Op{Key: e.key, Limit: t.mark, Cost: 1, Role: weir.Always, Verb: weir.Peek})
	}
	if t.telling > 0 {
		// Push n passes if n-1 were counted: of the count all but n must stay.
		ops = append(ops, weir.Op{Key: e.key, Limit: t.mark, Cost: 1, Headroom: markCount - t.push})
	}
	if now >= t.shareEnd && share > 0 {
		ops = append(ops, weir.Op{Key: e.key, Limit: c.slack, Cost: share, Role: weir.Always})
	}
	if c.most != nil && t.known && t.telling > 0 && (t.remaining-t.telling)*5 < l.Burst {
		// A look, which sees what was there before the push.
		ops = append(ops, weir.Op{Key: e.key, Limit: c.most, Cost: 1, Role: weir.Always, Verb: weir.Peek})
	}
	last := weir.Op{Key: e.key, Limit: l, Cost: t.telling, Role: weir.Always, Verb: weir.Force}
	if t.telling == 0 {
		last.Verb = weir.Peek
	}
	return append(ops, last)
}

// synced takes over what the shared store said, and returns by how much it has
// counted more than the limit, if that was looked at. Requires: mu.
func (e *lease) synced(ops []weir.Op, sent, now int64) (over int64) {
	t := e.tally
	last := &ops[len(ops)-1]
	told, pushed := t.telling > 0, t.telling
	if told {
		// Counted now, or found to have been counted before.
		t.telling = 0
	}
	for i := range ops[:len(ops)-1] {
		o := &ops[i]
		switch {
		case o.Limit == e.plan.counting.most && last.Charged:
			over = e.plan.limit.Overshoot() - (o.Decision.Remaining - pushed)
		case o.Limit == t.mark && !t.counted:
			t.push, t.counted = markCount-o.Decision.Remaining, true
		case o.Limit == e.plan.counting.slack && (!told || last.Charged):
			t.share = 0
			if o.Decision.Allowed() {
				t.share = o.Cost
			}
			// The share ends with its window, whether there was one or not.
			t.shareBy = o.Receipt()
			t.shareEnd = sent + max(t.shareBy-o.Now, time.Millisecond.Microseconds())
		}
	}
	e.heardOf(last.Decision, sent, now)
	return over
}
