package transport

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/lateness"
	"github.com/weirlimit/weir/store/internal/clock"
)

// Options configures a [Queue]. All but the callbacks are required.
type Options struct {
	// Budget is the longest that a decision waits, Timeout the longest that a
	// background call may take.
	Budget, Timeout time.Duration
	// Workers is how many batches of a shard are sent at a time, Batch how many calls
	// one has at most.
	Workers, Batch int
	// Waiting is how many calls of a shard wait at most, PerKey how many of one key.
	Waiting, PerKey int
	// ProbeEvery is how often a shard is probed whose breaker is open, but for a fifth
	// that Seed chooses.
	ProbeEvery time.Duration
	Seed       uint64
	// Probe finds out by ask whether a store of one shard decides, once the driver's own
	// probe has found it. Nil means that no more is asked.
	Probe func(ask func(ops []weir.Op) error) error
	// NeverOpens: there is no breaker. Opened and Closed are then not called.
	NeverOpens bool
	// Opened is called when the last breaker opens of those of the shards, of which the driver
	// notes each. Closed is called when one closes.
	Opened func(err error)
	Closed func()
	// Mark is what NewMark returns. Without it nothing is carried out once.
	Mark *weir.Limit
	// Owes reports whether costs of the key of an op wait to be charged: a refund that came
	// before them would be lost, so none is made again until then. Nil means that none do.
	Owes func(o *weir.Op) bool
	// Tuning is what the driver wants of its queue.
	Tuning Tuning
}

// A Queue carries calls to a store. Safe for concurrent use.
type Queue struct {
	Repeater Repeater

	driver  Driver
	divider Divider // the driver, nil if a call takes all keys of a shard
	env     *Env
	opt     Options
	shards  []shard
	seed    maphash.Seed
	spare   sync.Pool // of *Call
	// work is what is waited for at the end, helpers what is ended then: ctx is canceled.
	work, helpers Group
	ctx           context.Context
	cancel        context.CancelFunc
	meter         *lateness.Meter // of a store that is used alone
	stats         struct{ calls, failed, late, busy, combined atomic.Uint64 }
}

// New returns a queue before a driver. Close it before what the driver calls.
func New(driver Driver, env *Env, opt Options) *Queue {
	t := &opt.Tuning
	opt.Workers, opt.Batch, opt.Waiting = cmp.Or(t.Workers, opt.Workers), cmp.Or(t.Batch, opt.Batch), cmp.Or(t.Waiting, opt.Waiting)
	if t.Send == nil {
		t.Send = Driver.Send
	}
	divider, _ := driver.(Divider)
	q := &Queue{driver: driver, divider: divider, env: env, opt: opt, seed: maphash.MakeSeed(), shards: make([]shard, driver.Shards())}
	q.work.env, q.helpers.env, q.Repeater.q = env, env, q
	q.ctx, q.cancel = context.WithCancel(context.Background())
	q.spare.New = func() any { return &Call{gate: NewGate()} }
	for i := range q.shards {
		s := &q.shards[i]
		s.q, s.index, s.byKey, s.worker, s.watcher = q, i, map[uint64]*Call{}, s.runWorker, s.recordLeftCalls
	}
	if t.Bind != nil {
		t.Bind(q)
	}
	return q
}

// Go runs f, which makes calls, on a goroutine that Close waits for. It reports false if
// the queue is closed.
func (q *Queue) Go(f func()) bool { return q.work.Go(f) }

// Wait waits until no call is under way and all that Go began has ended.
func (q *Queue) Wait() { q.work.Wait() }

// Close waits for the calls under way. All later ones end with weir.ErrClosed.
func (q *Queue) Close() {
	q.work.close()
	q.cancel()
	q.helpers.close()
	q.meter.Close()
}

// Stats are how many calls were sent, failed, and failed by being late, how many found
// no room, and how many spends went along in the call of another.
type Stats struct{ Calls, Failed, Late, Busy, Combined uint64 }

// Stats returns what has been counted so far.
func (q *Queue) Stats() Stats {
	s := &q.stats
	return Stats{Calls: s.calls.Load(), Failed: s.failed.Load(), Late: s.late.Load(), Busy: s.busy.Load(), Combined: s.combined.Load()}
}

// takePart decides ops of one part, which undo what was charged a moment ago or do not. It
// fills in which of them renewed a permit that was held before, if renewed is not nil.
func (q *Queue) takePart(ctx context.Context, class Class, f *Flight, ops []weir.Op, renewed *[]bool, undo bool) (clock.Node, error) {
	left := q.opt.Timeout
	if class == Foreground {
		left = q.BudgetLeft(ctx)
	}
	if err := ctx.Err(); err != nil {
		return 0, &Result{Outcome: CallerGone, Err: err}
	}
	if left == 0 {
		return 0, errUnsent // the calls before this one have used up the budget
	}
	c := q.newCall(ctx, class, ops)
	c.flight, c.renewed, c.Undoes = f, renewed, undo
	if class == Foreground && q.opt.PerKey > 0 {
		q.setKey(c)
	}
	sent, err := q.waitForCall(ctx, c, left, ops)
	if err != nil && class != Foreground {
		q.opt.Tuning.ReportFailure(err)
	}
	return sent, err
}

// Waiting returns how many calls wait to be sent.
func (q *Queue) Waiting() (n int) {
	for i := range q.shards {
		s := &q.shards[i]
		s.mu.Lock()
		n += s.live
		s.mu.Unlock()
	}
	return n
}

// waitForCall queues a call, waits for its answer and copies that to ops.
func (q *Queue) waitForCall(ctx context.Context, c *Call, left time.Duration, ops []weir.Op) (clock.Node, error) {
	if r := c.shard.enqueueCall(c, left); r != nil {
		c.result = r
		defer q.spare.Put(c)
		return 0, c.resultError()
	}
	if wake := c.shard.awaitCall(ctx, c, left); wake != Opened {
		r := &Result{Outcome: Late, Shard: c.shard.index, Err: ErrLate}
		if wake == Ended {
			r.Outcome, r.Err = CallerGone, ctx.Err()
		}
		if c.shard.leaveCall(c, r) {
			return 0, r
		}
		<-c.gate // it was answered meanwhile
	}
	sent, err := c.sent, c.resultError()
	if err == nil {
		copyAnswers(ops, c.Ops)
		if c.renewed != nil && len(c.Renewed) > 0 {
			*c.renewed = slices.Clone(c.Renewed)
		}
	}
	q.spare.Put(c)
	return sent, err
}
