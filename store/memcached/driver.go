package memcached

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/storecalls"
	"github.com/weirlimit/weir/store/internal/transport"
)

// driver is a store as the driver of its queue: a shard is a server, and a call takes keys
// of one.
type driver struct{ *Store }

var (
	_ transport.Divider = driver{}
	_ transport.Driven  = (*Store)(nil)
)

// inside has what the other packages of this module ask of a Store, with types that no program
// can name. It is embedded, so that a Store has it and its documentation does not.
type inside struct{ of *Store }

// Driver implements transport.Driven.
func (in inside) Driver() (transport.Driver, transport.Tuning) {
	d, t := driver{in.of}, in.of.tuning
	t.Bind, t.Watcher, t.FailureOf = d.bindQueue, in.of.watcher, transport.FailureOf
	return d, t
}

// Watch has w be told of the calls of the stores that this one is given to from now on.
func (in inside) Watch(w storecalls.Watcher) { in.of.watcher = w }

// bindQueue has a queue not ask the servers that Probe has not found.
func (d driver) bindQueue(q *transport.Queue) {
	for i, v := range d.servers {
		if why := v.missing.Load(); why != nil {
			q.TripBreaker(i, *why)
		}
	}
}

// Shards implements transport.Driver.
func (d driver) Shards() int { return len(d.servers) }

// Shard implements transport.Driver.
func (d driver) Shard(key string) int { return d.serverOf(hash(key)) }

// Probe implements transport.Driver.
func (d driver) Probe(shard int, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return d.probeAgain(ctx, d.servers[shard])
}

// Send implements transport.Driver.
func (d driver) Send(shard int, batch []*transport.Call) {
	conn := <-d.servers[shard].slots
	for _, carrier := range batch {
		carrier.Finish(d.decideCall(conn, carrier))
	}
	d.servers[shard].slots <- conn
}

// hearFor is how much longer than its time a server is listened to. Its queue judges
// whether it is late.
const hearFor = time.Second

// decideCall decides the ops of a call. Whatever becomes of what is to be taken back, the
// answer is known before the call's time is over.
func (d driver) decideCall(conn *slot, carrier *transport.Call) *transport.Result {
	if d.closed.Load() {
		return &transport.Result{Outcome: transport.Rejected, Err: weir.ErrClosed}
	}
	begin := time.Now()
	c := call{
		Store: d.Store, conn: conn, ops: carrier.Ops, now: d.now(),
		deadline: begin.Add(carrier.Within + hearFor), end: begin.Add(carrier.Within / 8 * 7),
	}
	if err := c.findCounters(); err != nil {
		return &transport.Result{Outcome: transport.Rejected, Err: err}
	}
	err := c.decideOps()
	switch {
	case err == nil:
		c.remember()
		return nil
	case tooLate(err):
		// What is to be taken back has less than the time of a call: that says nothing.
		return &transport.Result{Outcome: transport.Late, MayRun: true, Excused: time.Since(begin) < carrier.Within, Err: err}
	}
	return &transport.Result{Outcome: transport.Failed, MayRun: true, Err: err}
}

// Part implements transport.Divider.
func (d driver) Part(key string) int { return d.Shard(key) }

// Check implements transport.Divider.
func (d driver) Check(ops []weir.Op) error {
	c := call{Store: d.Store, ops: ops, now: d.now()}
	return c.findCounters()
}

// LeavesTrace implements transport.Divider: all that is charged can be taken off again.
func (d driver) LeavesTrace(*weir.Limit) bool { return false }

// Undone implements transport.Divider.
func (d driver) Undone(ops int, err error) {
	if err != nil {
		d.kept.Add(uint64(ops))
	} else {
		d.undone.Add(uint64(ops))
	}
}
