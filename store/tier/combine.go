package tier

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
)

const (
	combineShards = 64
	// maxCombined is how many spends are sent in one call.
	maxCombined = 64
	// maxQueued is how many spends of one key wait to be sent.
	maxQueued = 4096
)

// A combiner sends spends of one key that come while another is under way in
// one call, in the order in which they came. All of them were waiting when the
// call was made, so the shared store might have met them in just that order: the
// decisions are those that each would have got alone. No timer holds a spend back.
//
// Safe for concurrent use.
type combiner struct {
	link   *link
	shards [combineShards]struct {
		mu     sync.Mutex
		queues map[uint64]*queue
	}
	spares   sync.Pool // of *spend
	combined atomic.Uint64
}

func newCombiner(k *link) *combiner {
	c := &combiner{link: k}
	c.spares.New = func() any { return &spend{done: make(chan struct{}, 1), timer: stopped()} }
	for i := range c.shards {
		c.shards[i].queues = map[uint64]*queue{}
	}
	return c
}

// A queue is the spends of one key under one limit while a call is under way.
type queue struct {
	tag     uint64
	key     string
	limit   *weir.Limit
	call    *call
	waiting []*spend
	// left: a call did not answer, and the queue with it is left to itself.
	left bool
}

// A spend waits for its decision.
type spend struct {
	cost     int64
	decision weir.Decision
	now      int64
	sent     int64
	err      error
	gone     bool   // nobody waits any more; guarded by the shard
	watched  bool   // the call under way when it left is looked at again
	queue    *queue // where it waits or was sent from
	done     chan struct{}
	timer    *time.Timer
}

// take spends cost of key under l on the shared store. It returns the store's
// time, and the node's at which the spend was sent.
func (c *combiner) take(ctx context.Context, tag uint64, key string, l *weir.Limit, cost int64) (weir.Decision, int64, int64, error) {
	w := c.spares.Get().(*spend)
	w.cost, w.gone, w.err = cost, false, nil
	first, err := c.enqueue(ctx, tag, key, l, w)
	switch {
	case err != nil:
		c.spares.Put(w)
		return weir.Decision{}, 0, 0, err
	case first != nil:
		d, now, sent, err := c.send(ctx, first, cost)
		c.spares.Put(w)
		return d, now, sent, err
	}
	w.timer.Reset(c.link.wait(ctx))
	own := c.link.meter.Allow()
again:
	select {
	case <-w.done:
		w.timer.Stop()
		d, now, sent, err := w.decision, w.now, w.sent, w.err
		c.spares.Put(w)
		return d, now, sent, err
	case <-ctx.Done():
		w.timer.Stop()
		err = ctx.Err()
	case <-w.timer.C:
		if more := own.More(); more > 0 {
			w.timer.Reset(more)
			goto again
		}
		err = errLate
	}
	c.leave(tag, w)
	return weir.Decision{}, 0, 0, err
}

// enqueue sees to it that w is sent: at once, or when the call under way is
// answered. If it returns a queue, w is its first, and for the caller to send.
func (c *combiner) enqueue(ctx context.Context, tag uint64, key string, l *weir.Limit, w *spend) (*queue, error) {
	if c.link.breaker.open.Load() {
		return nil, errAway
	}
	g := &c.shards[tag%combineShards]
	g.mu.Lock()
	q := g.queues[tag]
	if q != nil && q.limit == l && q.key == key {
		defer g.mu.Unlock()
		if len(q.waiting) >= maxQueued {
			return nil, errBusy
		}
		q.waiting, w.queue = append(q.waiting, w), q
		return nil, nil
	}
	g.mu.Unlock()
	if err := c.link.slot(ctx, w.timer); err != nil {
		return nil, err
	}
	g.mu.Lock()
	q = g.queues[tag]
	if q != nil && q.limit == l && q.key == key {
		// Another was sent while this one had no slot.
		q.waiting, w.queue = append(q.waiting, w), q
		g.mu.Unlock()
		<-c.link.slots
		return nil, nil
	}
	first := &queue{tag: tag, key: strings.Clone(key), limit: l}
	here := c.link.prompt && !c.link.mayLeave(ctx)
	if here {
		first.call = c.link.spare.Get().(*call)
		first.call.begin(c.link, c.link.budget)
	} else {
		first.waiting, w.queue = []*spend{w}, first
	}
	if q == nil {
		// Beside a queue of another key or limit it is sent on its own.
		g.queues[tag] = first
	}
	g.mu.Unlock()
	if here {
		return first, nil
	}
	if !c.link.start(func() { c.drain(first) }) {
		c.drain(first)
	}
	return nil, nil
}

// send makes the call for the spend that a queue began with, on the goroutine that
// asks. Those who have come meanwhile are sent on another. It holds a slot, which
// it gives back or hands on.
func (c *combiner) send(ctx context.Context, q *queue, cost int64) (weir.Decision, int64, int64, error) {
	k := q.call
	k.ops = append(k.ops[:0], weir.Op{Key: q.key, Limit: q.limit, Cost: cost})
	err := c.link.runHere(ctx, k, k.ops)
	d, now, sent := k.ops[0].Decision, k.ops[0].Now, k.sent
	g := &c.shards[q.tag%combineShards]
	g.mu.Lock()
	q.call = nil
	others := len(q.waiting) > 0
	if !others && g.queues[q.tag] == q {
		delete(g.queues, q.tag)
	}
	g.mu.Unlock()
	c.link.spare.Put(k)
	switch {
	case !others:
		<-c.link.slots
	case !c.link.start(func() { c.drain(q) }):
		c.drain(q)
	}
	return d, now, sent, err
}

// drain sends what waits until nothing does. It holds a slot.
func (c *combiner) drain(q *queue) {
	defer func() { <-c.link.slots }()
	g := &c.shards[q.tag%combineShards]
	var batch []*spend
	for {
		g.mu.Lock()
		batch = q.next(batch[:0])
		if len(batch) == 0 || q.left {
			if g.queues[q.tag] == q {
				delete(g.queues, q.tag)
			}
			g.mu.Unlock()
			return
		}
		k := q.load(batch)
		k.begin(c.link, c.link.budget)
		g.mu.Unlock()
		if len(batch) > 1 {
			c.combined.Add(uint64(len(batch) - 1))
		}
		err := c.link.run(context.Background(), k)
		g.mu.Lock()
		for i, w := range batch {
			if w.gone {
				continue
			}
			o := &k.ops[i]
			w.decision, w.now, w.sent, w.err = o.Decision, o.Now, k.sent, err
			w.done <- struct{}{}
		}
		g.mu.Unlock()
	}
}

// next takes from the queue what goes into one call: spends of the same cost. As
// each is refused if one before it was, what they add up to cannot be told from
// what they would have been told one by one.
func (q *queue) next(batch []*spend) []*spend {
	n := 0
	for _, w := range q.waiting {
		if w.gone {
			n++
			continue
		}
		if len(batch) > 0 && (w.cost != batch[0].cost || len(batch) == maxCombined || int64(len(batch)+1) > weir.MaxCost/max(w.cost, 1)) {
			break
		}
		batch = append(batch, w)
		n++
	}
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	return batch
}

// load makes the call for a batch.
func (q *queue) load(batch []*spend) *call {
	k := &call{ops: make([]weir.Op, len(batch))}
	for i, w := range batch {
		o := &k.ops[i]
		o.Key, o.Limit, o.Cost = q.key, q.limit, w.cost
		if len(batch) > 1 {
			// Each decides for itself, one after the other.
			o.Role = weir.Always
		}
	}
	q.call = k
	return k
}

// leave takes out a spend whose caller has gone. If the call under way has had
// its time, its queue is left: the next spend makes a call of its own, and all
// who wait behind it are told. If it has not, it is looked at again when it has: a
// store that stands still is found though all callers leave early.
func (c *combiner) leave(tag uint64, w *spend) {
	g := &c.shards[tag%combineShards]
	g.mu.Lock()
	defer g.mu.Unlock()
	w.gone = true
	q := w.queue
	if q.left || q.call == nil {
		return
	}
	own := q.call.own
	if rest := c.link.budget + own.More() - c.link.since(q.call); rest > 0 {
		if !w.watched {
			w.watched = true
			time.AfterFunc(rest, func() { c.leave(tag, w) })
		}
		return
	}
	if g.queues[tag] == q {
		delete(g.queues, tag)
	}
	q.left = true
	c.link.abandon(q.call)
	for _, w := range q.waiting {
		if !w.gone {
			w.err = errLate
			w.done <- struct{}{}
		}
	}
	q.waiting = nil
}
