package redis

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/internal/transport"
)

// driver is a store as the driver of its queue: a shard is a server, or a range of the slots
// of a cluster.
type driver struct{ *Store }

var (
	_ transport.Divider = driver{}
	_ transport.Driven  = (*Store)(nil)
)

// Driver implements transport.Driven. The queue that is bound last says which servers are
// lost.
func (s *Store) Driver() (transport.Driver, transport.Tuning) {
	d := driver{s}
	t := tuning(s.opt, s.hasSlots(), d.Shards())
	t.Bind, t.Opened, t.Closed = d.bind, s.nodes.opened, s.nodes.closed
	return d, t
}

// Layout returns what is known of the servers that a URL names before they are reached, for
// package shared. The error says what is wrong with the URL.
func Layout(text string, opt Options) (shards int, t transport.Tuning, err error) {
	a, err := parse(text, opt)
	if err != nil {
		return 0, t, err
	}
	switch shards = 1; a.kind {
	case ringed:
		shards = len(a.hosts)
	case clustered:
		shards = ranges
	}
	return shards, tuning(a.Options, a.kind == clustered, shards), nil
}

// tuning is what a driver of so many shards wants of its queue.
func tuning(opt Options, hasSlots bool, shards int) transport.Tuning {
	t := transport.Tuning{Workers: serverWorkers, Batch: maxBatch, Waiting: opt.InFlight, RunsOnly: shards > 1}
	if shards > 1 {
		t.ProbeFor = opt.callTimeout()
	}
	if hasSlots {
		t.Workers = rangeWorkers
	}
	if hasSlots && t.Waiting > 0 {
		t.Waiting = max(t.Waiting/shards, 64)
	}
	return t
}

// bind has a queue say which servers are lost: at first those that were never reached.
func (d driver) bind(q *transport.Queue) {
	d.bound.Store(q)
	if r, ok := d.nodes.(*ring); ok {
		for i, err := range r.down {
			if err != nil && r.shards[i].client() == nil {
				q.Trip(i, err)
			}
		}
	}
}

// Shards implements transport.Driver.
func (d driver) Shards() int { return len(d.nodes.all()) }

// Shard implements transport.Driver.
func (d driver) Shard(key string) int {
	if len(d.nodes.all()) == 1 {
		return 0
	}
	return d.nodes.route(tag(key)).shard
}

// Probe implements transport.Driver.
func (d driver) Probe(shard int, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return d.nodes.probe(ctx, shard)
}

// Send implements transport.Driver.
func (d driver) Send(shard int, batch []*transport.Call) {
	n := d.nodes.all()[shard]
	live := make([]*call, 0, len(batch))
	for _, carrier := range batch {
		c, err := d.encode(n, carrier.Ops)
		if err != nil {
			carrier.Finish(&transport.Result{Outcome: transport.Rejected, Err: err})
			continue
		}
		if c == nil { // all of them refuse without being asked
			carrier.Finish(nil)
			continue
		}
		c.carrier, c.until = carrier, time.Now().Add(carrier.Within)
		live = append(live, c)
	}
	if len(live) > 0 {
		d.stats.calls.Add(uint64(len(live)))
		n.send(live)
	}
}

// Part implements transport.Divider.
func (d driver) Part(key string) int {
	if len(d.nodes.all()) == 1 {
		return 0
	}
	return d.nodes.route(tag(key)).slot
}

// Check implements transport.Divider.
func (d driver) Check(ops []weir.Op) error {
	w := works.Get().(*work)
	defer w.recycle()
	_, err := d.gather(w, ops)
	return err
}

// LeavesTrace implements transport.Divider: only what algorithms lend can be given back
// without a trace, and of those not what a sliding window was charged: when its last unit
// came is not kept twice.
func (d driver) LeavesTrace(l *weir.Limit) bool {
	return l.Traits()&weir.Lends == 0 || l.Algorithm == algorithm.SlidingWindow
}

// Undone implements transport.Divider.
func (d driver) Undone(ops int, err error) {
	d.stats.rollbacks.Add(uint64(ops))
	if err != nil {
		d.stats.lost.Add(uint64(max(ops, 1)))
	}
}

// encode returns the call that decides ops of one part at n, nil if there is nothing to ask.
func (d driver) encode(n *pipeline, ops []weir.Op) (*call, error) {
	for i := range ops {
		if o := &ops[i]; o.Limit.Consistency.Pinned && d.nodes.isMoved(n, o.Key) {
			return nil, errLost
		}
	}
	var c *call
	var err error
	if isSingle(ops) {
		c, err = d.encodeSingle(&ops[0])
	} else {
		c, err = d.encodeGroup(ops)
	}
	if c == nil || err != nil {
		return nil, err
	}
	d.appendTime(c)
	c.to = n
	return c, nil
}

// isSingle reports whether ops are one that stands alone: its answer is the request's.
func isSingle(ops []weir.Op) bool {
	return len(ops) == 1 && ops[0].Role == weir.Enforce && ops[0].Headroom == 0 && !ops[0].Penalize
}

func (d driver) encodeSingle(o *weir.Op) (*call, error) {
	if uint64(o.Cost) > weir.MaxCost {
		return nil, weir.ErrCost
	}
	if err := d.refuses(o.Limit, o.AskID(), o.Verb); err != nil {
		return nil, err
	}
	pl, err := d.plans.of(o.Limit, d.clock)
	if err != nil {
		return nil, err
	}
	c := newCall(pl.row)
	if o.Verb != weir.Spend || pl.row == nil {
		c.script = pl.single
		c.args = append(c.args, verbs[o.Verb], idText(o.AskID()))
	}
	c.single = pl
	c.keys = append(c.keys, d.opt.Prefix+":{"+tag(o.Key)+pl.suffix)
	c.args = pl.appendSpan(c.args, o.Limit, o.Cost)
	c.args = append(c.args, pl.consts...)
	return c, nil
}

// appendTime appends the time that a test tells.
func (s *Store) appendTime(c *call) {
	if s.nowFunc != nil {
		real, now := time.Now().UnixMilli(), s.nowFunc()
		c.args = append(c.args, strconv.FormatInt(now, 10), strconv.FormatInt(max(real-now/1000, 0)+3600_000, 10))
	}
}

// decode answers the ops of a call from its reply.
func (c *call) decode(d driver) error {
	switch {
	case len(c.reply) == 0:
		return errReply
	case c.single != nil:
		return d.decodeSingle(c)
	}
	return d.decodeGroup(c)
}

func (d driver) decodeSingle(c *call) error {
	o, pl := &c.carrier.Ops[0], c.single
	if len(c.reply) != 1+pl.twin.States {
		return errReply
	}
	if isInsane(c.reply[1:]) {
		return errSpoilt
	}
	now, allowed := c.reply[0]>>1, c.reply[0]&1 == 1
	o.Decision = pl.algorithm.Describe(o.Limit, weir.Ask{Now: now, Cost: o.Cost, ID: o.AskID(), Verb: o.Verb}, allowed, c.reply[1:])
	d.label(c.to, o, &o.Decision)
	o.Now, o.Borrowed = now, false
	o.Charged = o.Verb == weir.Force || o.Verb == weir.Refund || o.Verb == weir.Spend && o.Decision.Allowed()
	return nil
}

// label says of a decision on o that another server made it than the one that keeps the key.
func (d driver) label(n *pipeline, o *weir.Op, decision *weir.Decision) {
	if d.nodes.isMoved(n, o.Key) {
		d.stats.moved.Add(1)
		decision.Limit = o.Limit.From(weir.FromSuccessor)
	}
}

// settle hands c back to whoever asks. An answer without an error was decoded.
func (n *pipeline) settle(c *call, err error) {
	s := n.store
	if err != nil {
		err = s.explained(err)
	}
	carrier := c.carrier
	c.recycle()
	switch {
	case err == nil:
		carrier.Finish(nil)
	case isSpoilt(err):
		s.stats.errors.Add(1)
		carrier.Finish(&transport.Result{Outcome: transport.Rejected, MayRun: len(carrier.Ops) > 1, Err: err})
	default: // a server of several that refuses is not lost: its keys stay
		excused := errors.Is(err, errMismatch) || !isLoss(err) && len(s.nodes.all()) > 1
		carrier.Finish(&transport.Result{Outcome: transport.Failed, MayRun: true, Excused: excused, Err: err})
	}
}

// explained returns err as callers get it.
func (s *Store) explained(err error) error {
	var rejected *RejectedError
	switch {
	case errors.As(err, &rejected):
		return err
	case isRejection(err):
		return &RejectedError{s.explain(err)}
	}
	return s.explain(err)
}
