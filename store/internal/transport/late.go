package transport

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
)

// LateStore is the driver of a store that may not be there yet: until then all of its shards are
// open. Safe for concurrent use.
type LateStore struct {
	shards int
	tuning Tuning
	store  atomic.Pointer[reached] // nil until it is there
	mu     sync.Mutex              // guards queue, and that one of bind and Reach binds it
	queue  *Queue
}

// reached is the driver of a store that is there.
type reached struct {
	Driver
	Divider // nil if it is none
	tuning  Tuning
}

// NewLateStore returns a driver of a store that will have so many shards, and wants that of its
// queue.
func NewLateStore(shards int, tuning Tuning) *LateStore {
	return &LateStore{shards: shards, tuning: tuning}
}

// Reach has a store drive from now on, which has as many shards as were named.
func (l *LateStore) Reach(store Driven) {
	r := new(reached)
	r.Driver, r.tuning = store.Driver()
	r.Divider, _ = r.Driver.(Divider)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store.Store(r)
	r.bind(l.queue)
}

func (r *reached) bind(q *Queue) {
	if q != nil && r.tuning.Bind != nil {
		r.tuning.Bind(q)
	}
}

// Driver implements Driven. Where the store is there its own driver is returned.
func (l *LateStore) Driver() (Driver, Tuning) {
	t := l.tuning
	if r := l.store.Load(); r != nil {
		own := r.tuning
		own.Begun, own.Ended = t.Begun, t.Ended
		return r.Driver, own
	}
	t.Bind = l.bind
	t.Opened = func(shard int, err error) {
		if r := l.store.Load(); r != nil && r.tuning.Opened != nil {
			r.tuning.Opened(shard, err)
		}
	}
	t.Closed = func(shard int) {
		if r := l.store.Load(); r != nil && r.tuning.Closed != nil {
			r.tuning.Closed(shard)
		}
	}
	return lateDriver{l}, t
}

func (l *LateStore) bind(q *Queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = q
	if r := l.store.Load(); r != nil {
		r.bind(q)
		return
	}
	for i := range q.shards {
		q.Trip(i, errNotReached)
	}
}

// errNotReached is why calls fail until the store is there.
var errNotReached = errors.New("the store was not reached since this node started")

// lateDriver is a LateStore as a driver. Its Divider is asked only when the store is there.
type lateDriver struct{ *LateStore }

func (d lateDriver) Shards() int { return d.shards }

func (d lateDriver) Shard(key string) int {
	if r := d.store.Load(); r != nil {
		return r.Shard(key)
	}
	return 0
}

func (d lateDriver) Send(shard int, calls []*Call) {
	if r := d.store.Load(); r != nil {
		r.Send(shard, calls)
		return
	}
	for _, c := range calls {
		c.Finish(&Result{Outcome: Failed, Err: errNotReached})
	}
}

func (d lateDriver) Probe(shard int, within time.Duration) error {
	if r := d.store.Load(); r != nil {
		return r.Probe(shard, within)
	}
	return errNotReached
}

// Part implements Divider.
func (d lateDriver) Part(key string) int {
	if r := d.store.Load(); r != nil && r.Divider != nil {
		return r.Part(key)
	}
	return 0
}

// Check implements Divider.
func (d lateDriver) Check(ops []weir.Op) error { return d.store.Load().Divider.Check(ops) }

// LeavesTrace implements Divider.
func (d lateDriver) LeavesTrace(l *weir.Limit) bool { return d.store.Load().LeavesTrace(l) }

// Undone implements Divider.
func (d lateDriver) Undone(ops int, err error) { d.store.Load().Undone(ops, err) }
