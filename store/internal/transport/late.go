package transport

import (
	"errors"
	"sync"
	"time"
)

// LateStore is the driver of a store that may not be there yet: until then all of its
// shards are open. Safe for concurrent use.
type LateStore struct {
	shards int
	tuning Tuning
	mu     sync.Mutex // guards what follows
	queues []*Queue   // in the order in which they were bound
	store  Driven     // nil until it is there
}

// NewLateStore returns the driver of a store that will have so many shards, and wants that
// of its queue.
func NewLateStore(shards int, tuning Tuning) *LateStore {
	return &LateStore{shards: shards, tuning: tuning}
}

// Reach has a store drive from now on, which has as many shards as were named.
func (l *LateStore) Reach(store Driven) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store = store
	for _, q := range l.queues {
		q.drive(store.Driver())
	}
}

// Driver implements Driven: it is the store's own where that is there.
func (l *LateStore) Driver() (Driver, Tuning) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tuning
	if l.store == nil {
		t.Bind = l.bind
		return absent(l.shards), t
	}
	d, own := l.store.Driver()
	own.Begun, own.Ended, own.Failed = t.Begun, t.Ended, t.Failed
	return d, own
}

func (l *LateStore) bind(q *Queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queues = append(l.queues, q); l.store != nil {
		q.drive(l.store.Driver())
		return
	}
	for i := range q.shards {
		q.Trip(i, errNotReached)
	}
}

// errNotReached is why calls fail until the store is there.
var errNotReached = errors.New("the store was not reached since this node started")

// absent is the driver of a store of so many shards that is not there.
type absent int

func (a absent) Shards() int { return int(a) }

func (a absent) Shard(string) int { return 0 }

func (a absent) Probe(int, time.Duration) error { return errNotReached }

func (a absent) Send(_ int, calls []*Call) {
	for _, c := range calls {
		c.Finish(&Result{Outcome: Failed, Err: errNotReached})
	}
}
