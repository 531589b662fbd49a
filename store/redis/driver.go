package redis

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/storecalls"
	"github.com/weirlimit/weir/store/internal/transport"
)

// driver is a store as the driver of its queue: a shard is a server, or a range of the slots
// of a cluster.
type driver struct{ *Store }

var (
	_ transport.Divider = driver{}
	_ transport.Driven  = (*Store)(nil)
)

// inside has what the other packages of this module ask of a Store, with types that no program
// can name. It is embedded, so that a Store has it and its documentation does not.
type inside struct{ of *Store }

// Driver implements transport.Driven. The queue that is bound last says which servers are
// lost.
func (in inside) Driver() (transport.Driver, transport.Tuning) {
	s := in.of
	d := driver{s}
	t := queueTuning(s.opt, s.hasSlots(), d.Shards())
	t.Watcher, t.FailureOf, t.Bind, t.Opened, t.Closed = s.watcher, failureOf, d.bindQueue, s.nodes.breakerOpened, s.nodes.breakerClosed
	return d, t
}

// Watch has w be told of the calls of the stores that this one is given to from now on, and of
// its documents.
func (in inside) Watch(w storecalls.Watcher) { in.of.watcher = w }

// queueTuning is what a driver of so many shards wants of its queue.
func queueTuning(opt Options, hasSlots bool, shards int) transport.Tuning {
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

// bindQueue has a queue say which servers are lost: at first those that were never reached.
func (d driver) bindQueue(q *transport.Queue) {
	d.bound.Store(q)
	for i, p := range d.nodes.pipelines() {
		if !p.hasClient() {
			q.TripBreaker(i, p.missing)
		}
	}
}

// Shards implements transport.Driver.
func (d driver) Shards() int { return len(d.nodes.pipelines()) }

// Shard implements transport.Driver.
func (d driver) Shard(key string) int {
	if len(d.nodes.pipelines()) == 1 {
		return 0
	}
	return d.nodes.routeTag(tagForKey(key)).shard
}

// Probe implements transport.Driver.
func (d driver) Probe(shard int, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return d.nodes.probeShard(ctx, shard)
}

// Send implements transport.Driver.
func (d driver) Send(shard int, batch []*transport.Call) {
	n := d.nodes.pipelines()[shard]
	live := make([]*call, 0, len(batch))
	for _, carrier := range batch {
		c, err := d.encodeCall(n, carrier.Ops)
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
		n.sendCalls(live)
	}
}

// Part implements transport.Divider.
func (d driver) Part(key string) int {
	if len(d.nodes.pipelines()) == 1 {
		return 0
	}
	return d.nodes.routeTag(tagForKey(key)).slot
}

// Check implements transport.Divider.
func (d driver) Check(ops []weir.Op) error {
	w := works.Get().(*work)
	defer w.recycle()
	_, err := d.gatherOps(w, ops)
	return err
}

// LeavesTrace implements transport.Divider.
func (d driver) LeavesTrace(l *weir.Limit) bool { return algorithm.LeavesTrace(l) }

// Undone implements transport.Divider.
func (d driver) Undone(ops int, err error) {
	d.stats.rollbacks.Add(uint64(ops))
	if err != nil {
		d.stats.lost.Add(uint64(max(ops, 1)))
	}
}
