package redis

import (
	"context"
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
	opt    Options
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

	// told tells the time in tests. Nil means that the server does.
	told func() int64
}

var _ weir.Store = (*Store)(nil)

// nodes are the servers behind a store.
type nodes interface {
	// place tells where the keys of a tag are. Keys of one place are decided in
	// one script.
	place(tag string) place
	close()
}

// A place is a pipeline to a server. Keys of one slot are decided in one script: that of a
// cluster, or the number of a server.
type place struct {
	*pipeline
	slot   int
	server *server // of a ring
	// moved: another server keeps the tag's state, which is lost or out of reach.
	moved bool
}

// reach returns the client of the place, unless it is lost: then there may be
// none.
func (p *place) reach() (rueidis.Client, error) {
	if p.isLost() {
		return nil, p.about(errLost)
	}
	return p.client(), nil
}

// one is a single server, or a primary that Sentinels watch over.
type one struct{ pipeline *pipeline }

func (o one) place(string) place { return place{pipeline: o.pipeline} }

func (o one) close() { o.pipeline.close() }

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
		s.opt.meter.Close()
	}
	return nil
}

// clock returns this process's time, or the test's.
func (s *Store) clock() int64 {
	if s.told != nil {
		return s.told()
	}
	return time.Now().UnixMicro()
}

// do runs c on the server of p and returns its time and whether all passed.
func (s *Store) do(ctx context.Context, p place, c *call) (now int64, pass bool, err error) {
	if s.told != nil {
		real, told := time.Now().UnixMilli(), s.told()
		c.args = append(c.args, strconv.FormatInt(told, 10), strconv.FormatInt(max(real-told/1000, 0)+3600_000, 10))
	}
	err = s.await(ctx, p, c)
	if err != nil {
		s.stats.errors.Add(1)
		if isRejection(err) {
			return 0, false, &RejectedError{s.explain(err)}
		}
		return 0, false, p.about(s.explain(err))
	}
	if len(c.reply) == 0 {
		c.recycle()
		return 0, false, explain(errReply)
	}
	return c.reply[0] >> 1, c.reply[0]&1 == 1, nil
}

// await runs c on the server of p, for as long as the store's timeout or as long as
// ctx says that the call is of use.
func (s *Store) await(ctx context.Context, p place, c *call) error {
	b := background.Of(ctx)
	switch {
	case b == nil:
		return p.do(ctx, c, s.opt.Timeout, transport.Foreground, nil)
	case b.Late == nil:
		return p.do(ctx, c, max(b.Timeout, s.opt.Timeout), transport.Background, nil)
	}
	return p.do(ctx, c, max(b.Timeout, s.opt.Timeout), transport.Fetch, func() {
		b.Late(p.about(&TimeoutError{Err: context.DeadlineExceeded}))
	})
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

// TakeOne implements weir.Store.
func (s *Store) TakeOne(ctx context.Context, key string, l *weir.Limit, cost int64) (weir.Decision, error) {
	d, _, _, err := s.one(ctx, key, l, weir.Ask{Cost: cost})
	return d, err
}

// one decides an op that stands alone, and returns the time and whether it was
// allowed. A key that no script of ours wrote is overwritten.
func (s *Store) one(ctx context.Context, key string, l *weir.Limit, a weir.Ask) (weir.Decision, int64, bool, error) {
	d, now, allowed, err := s.oneOf(ctx, key, l, a)
	if err != nil && isSpoilt(err) && s.repair(ctx, []weir.Op{{Key: key, Limit: l, Cost: a.Cost, ID: a.ID}}) {
		return s.oneOf(ctx, key, l, a)
	}
	return d, now, allowed, err
}

func (s *Store) oneOf(ctx context.Context, key string, l *weir.Limit, a weir.Ask) (weir.Decision, int64, bool, error) {
	if uint64(a.Cost) > weir.MaxCost {
		return weir.Decision{}, 0, false, weir.ErrCost
	}
	if err := s.refuses(l, a.ID, a.Verb); err != nil {
		return weir.Decision{}, 0, false, err
	}
	pl, err := s.plans.of(l, s.clock)
	if err != nil {
		return weir.Decision{}, 0, false, err
	}
	t := tag(key)
	p := s.nodes.place(t)
	var c *call
	if a.Verb == weir.Spend && pl.row != nil {
		c = newCall(pl.row)
	} else {
		c = newCall(pl.single)
		c.args = append(c.args, verbs[a.Verb], idText(a.ID))
	}
	c.keys = append(c.keys, s.opt.Prefix+":{"+t+pl.suffix)
	c.args = pl.appendSpan(c.args, l, a.Cost)
	c.args = append(c.args, pl.consts...)
	now, allowed, err := s.do(ctx, p, c)
	if err != nil {
		return weir.Decision{}, 0, false, err
	}
	if len(c.reply) != 1+pl.twin.States {
		c.recycle()
		return weir.Decision{}, 0, false, explain(errReply)
	}
	if isInsane(c.reply[1:]) {
		c.recycle()
		return weir.Decision{}, 0, false, errSpoilt
	}
	a.Now = now
	d := pl.algorithm.Describe(l, a, allowed, c.reply[1:])
	c.recycle()
	if p.moved {
		s.stats.moved.Add(1)
		d.Limit = l.From(weir.FromSuccessor)
	}
	return d, now, allowed, nil
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
	err := s.take(ctx, ops)
	if err != nil && ctx.Err() != nil {
		s.endPlaces(ops, err)
	}
	return err
}

func (s *Store) take(ctx context.Context, ops []weir.Op) error {
	if len(ops) == 1 && ops[0].Role == weir.Enforce && ops[0].Headroom == 0 && !ops[0].Penalize {
		return s.takeSingle(ctx, &ops[0])
	}
	return s.takeSeveral(ctx, ops)
}

// takeSingle takes an op that stands alone: its answer is the request's.
func (s *Store) takeSingle(ctx context.Context, o *weir.Op) error {
	d, now, _, err := s.one(ctx, o.Key, o.Limit, weir.Ask{Cost: o.Cost, ID: o.AskID(), Verb: o.Verb})
	if err != nil {
		return err
	}
	o.Decision, o.Now, o.Borrowed = d, now, false
	switch o.Verb {
	case weir.Spend:
		o.Charged = d.Allowed()
	case weir.Peek:
		o.Charged = false
	case weir.Force, weir.Refund:
		o.Charged = true
	}
	return nil
}
