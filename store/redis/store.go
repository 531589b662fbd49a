package redis

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/background"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/store/internal/transport"
)

// Store keeps the state of keys in Redis or Valkey. Safe for concurrent use.
type Store struct {
	opt Options
	// queue is that of Take. bound is that which drives the servers, package shared's if
	// there is one: its breakers say which are lost.
	queue  *transport.Queue
	bound  atomic.Pointer[transport.Queue]
	nodes  nodes
	plans  plans
	stats  counters
	faults *faults.Log
	closed atomic.Bool
	// ending are the calls that end places whose callers have left. None begins once the
	// store is closed, which life guards.
	life   sync.Mutex
	ending sync.WaitGroup
	// version is what the server that was examined last calls itself.
	version *atomic.Pointer[string]

	// nowFunc tells the time in tests. Nil means that the server does.
	nowFunc func() int64
}

var _ weir.Store = (*Store)(nil)

// nodes are the servers behind a store.
type nodes interface {
	// all are the pipelines, one for each shard.
	all() []*pipeline
	// route tells where the keys of a tag are. Keys of one place are decided in
	// one script.
	route(tag string) route
	// isMoved reports whether a key that n decides is kept by a server that is lost.
	isMoved(n *pipeline, key string) bool
	// probe finds out whether a shard answers. The others are told when its breaker
	// opens and closes.
	probe(ctx context.Context, shard int) error
	opened(shard int, err error)
	closed(shard int)
	close()
}

// A route is a pipeline to a server. Keys of one slot are decided in one script: that of a
// cluster, or the number of a server.
type route struct {
	*pipeline
	slot   int
	server *server // of a ring
}

// reach returns the client of the place, unless it is lost: then there may be
// none.
func (p *route) reach() (rueidis.Client, error) {
	if p.isLost() {
		return nil, p.store.about(errLost)
	}
	return p.client(), nil
}

// one is a single server, or a primary that Sentinels watch over; and what a store of
// several has in common with it.
type one struct{ shards []*pipeline }

func (o one) all() []*pipeline { return o.shards }

func (o one) route(string) route { return route{pipeline: o.shards[0]} }

func (o one) isMoved(*pipeline, string) bool { return false }

func (o one) probe(context.Context, int) error { return nil } // it is never lost

func (o one) opened(int, error) {}

func (o one) closed(int) {}

func (o one) close() {
	for _, p := range o.shards {
		p.close()
	}
}

// Version returns the name and version of the server, of several that which was reached
// last, such as "Redis 7.0.15".
func (s *Store) Version() string {
	if v := s.version.Load(); v != nil {
		return *v
	}
	return ""
}

// Close implements weir.Store. Calls that are under way fail.
func (s *Store) Close() error {
	s.life.Lock()
	closed := s.closed.Swap(true)
	s.life.Unlock()
	if !closed {
		s.ending.Wait()
		s.nodes.close()
		s.queue.Close()
		s.opt.meter.Close()
	}
	return nil
}

// clock returns this process's time, or the test's.
func (s *Store) clock() int64 {
	if s.nowFunc != nil {
		return s.nowFunc()
	}
	return time.Now().UnixMicro()
}

// do runs c on the server of p, outside of the queue, and reports whether all passed.
func (s *Store) do(ctx context.Context, p route, c *call) (pass bool, err error) {
	s.appendTime(c)
	s.stats.calls.Add(1)
	if p.run(ctx, []*call{c}, true, func(_ *call, failed error) { err = failed }); err == nil && len(c.reply) == 0 {
		err = errReply
	}
	if err != nil {
		s.stats.errors.Add(1)
		return false, s.about(s.explained(err))
	}
	return c.reply[0]&1 == 1, nil
}

func (s *Store) explain(err error) error {
	if s.closed.Load() {
		return weir.ErrClosed
	}
	return explain(err)
}

// refuses returns why nothing can be asked of l.
func (s *Store) refuses(l *weir.Limit, id int64, v weir.Verb) error {
	switch {
	case s.closed.Load():
		return weir.ErrClosed
	case l.Traits()&weir.Leases != 0 && id == 0 && v != weir.Peek:
		return weir.ErrNoLease
	}
	return nil
}

// verbs are the verbs as scripts know them.
var verbs = [...]string{weir.Spend: "0", weir.Peek: "1", weir.Force: "2", weir.Refund: "3"}

// singles are used again for an op that stands alone.
var singles = sync.Pool{New: func() any { return new([1]weir.Op) }}

// TakeOne implements weir.Store.
func (s *Store) TakeOne(ctx context.Context, key string, l *weir.Limit, cost int64) (weir.Decision, error) {
	ops := singles.Get().(*[1]weir.Op)
	defer singles.Put(ops)
	ops[0] = weir.Op{Key: key, Limit: l, Cost: cost}
	err := s.Take(ctx, ops[:])
	return ops[0].Decision, err
}

func idText(id int64) string {
	if id == 0 {
		return "0"
	}
	return strconv.FormatInt(id, 10)
}

// Take implements weir.Store. Ops on the same key and limit are decided as a
// sequence. See the package comment for ops whose keys are on several servers.
func (s *Store) Take(ctx context.Context, ops []weir.Op) error {
	if s.closed.Load() {
		return weir.ErrClosed
	}
	class := transport.Foreground
	if background.Of(ctx) != nil {
		class = transport.Background
	}
	_, err := s.queue.Take(ctx, class, nil, ops)
	if err == nil {
		return nil
	}
	err = s.errorOf(err)
	if ctx.Err() != nil {
		s.endPermits(ops, err)
	}
	return err
}

// errorOf counts a call without an answer, and returns why it has none.
func (s *Store) errorOf(err error) error {
	var r *transport.Result
	if !errors.As(err, &r) {
		return err
	}
	if r.Outcome != transport.Rejected { // what the server rejects is counted where it is heard
		s.stats.errors.Add(1)
	}
	switch {
	case s.closed.Load() || errors.Is(r.Err, weir.ErrClosed):
		return weir.ErrClosed
	case errors.Is(r.Err, transport.ErrBusy):
		s.stats.busy.Add(1)
		return ErrBusy
	case r.Outcome == transport.Open:
		return s.about(errLost)
	case r.Outcome == transport.CallerGone:
		s.stats.timeouts.Add(1)
		return &TimeoutError{Sent: r.MayRun, Err: r.Err, result: r}
	case errors.Is(r.Err, transport.ErrLate):
		s.stats.timeouts.Add(1)
		return s.about(&TimeoutError{Sent: r.MayRun, Err: context.DeadlineExceeded})
	}
	return s.about(r.Err)
}
