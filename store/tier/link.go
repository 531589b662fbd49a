package tier

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weirlimit/weir"
)

// Reasons why the shared store did not decide.
var (
	errAway = errors.New("tier: the shared store is away")
	errLate = errors.New("tier: no answer from the shared store in time")
	errBusy = errors.New("tier: too many calls of the shared store are under way")
)

// A link makes the calls of the shared store: so many at once, each within its
// budget, none while the breaker is open. A call is made once: whether one that
// did not answer was carried out cannot be told, so it is never repeated.
//
// Safe for concurrent use.
type link struct {
	store  weir.Store
	budget time.Duration
	slots  chan struct{}
	// prompt: the store ends each call in time by itself.
	prompt  bool
	breaker breaker
	base    time.Time
	told    func() int64
	spare   sync.Pool // of *call
	// opened is told when the breaker opens.
	opened func(error)
	// running are the calls under way, also those that nobody waits for. No more
	// begin once it is closing.
	life    sync.Mutex
	closing bool
	running sync.WaitGroup

	calls, failures, late, busy atomic.Uint64
}

func newLink(store weir.Store, opt *Options) *link {
	k := &link{store: store, budget: opt.Timeout, prompt: opt.Prompt, slots: make(chan struct{}, opt.MaxInFlight), base: time.Now(), told: opt.Now}
	k.spare.New = func() any { return &call{done: make(chan struct{}, 1), timer: stopped()} }
	return k
}

func stopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// reserve takes a slot for a call, if one is free: it does not wait. Whoever makes
// the call gives it back.
func (k *link) reserve() error {
	if k.breaker.open.Load() {
		return errAway
	}
	select {
	case k.slots <- struct{}{}:
		return nil
	default:
		return errBusy
	}
}

// start runs f, which makes calls, unless the link is closing.
func (k *link) start(f func()) bool {
	k.life.Lock()
	defer k.life.Unlock()
	if k.closing {
		return false
	}
	k.running.Go(f)
	return true
}

// close waits for the calls under way. No goroutine makes more.
func (k *link) close() {
	k.life.Lock()
	k.closing = true
	k.life.Unlock()
	k.running.Wait()
}

// now returns the node's monotonic time in microseconds.
func (k *link) now() int64 {
	if k.told != nil {
		return k.told()
	}
	return k.elapsed()
}

// elapsed is now by the clock that timers go by.
func (k *link) elapsed() int64 { return int64(time.Since(k.base) / time.Microsecond) }

// A call is one call of the shared store. Its ops and their keys are its own:
// whoever asked may have gone when the store answers.
type call struct {
	ops  []weir.Op
	keys []byte
	sent int64 // the node's time
	from int64 // elapsed
	err  error
	done chan struct{}
	// timer is that of the caller who waits.
	timer *time.Timer
	// noted: how the call went has been told to the breaker.
	noted atomic.Bool
}

// fill copies ops.
func (c *call) fill(ops []weir.Op) {
	n := 0
	for i := range ops {
		n += len(ops[i].Key)
	}
	if cap(c.keys) < n {
		c.keys = make([]byte, 0, n)
	}
	c.keys = c.keys[:0]
	c.ops = append(c.ops[:0], ops...)
	for i := range c.ops {
		o := &c.ops[i]
		from := len(c.keys)
		c.keys = append(c.keys, o.Key...)
		o.Key = text(c.keys[from:])
	}
}

// text returns b as a string, valid until b is changed.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// answer copies what the store said to ops.
func (c *call) answer(ops []weir.Op) {
	for i := range ops {
		o, a := &ops[i], &c.ops[i]
		o.Decision, o.Now, o.Charged, o.Borrowed = a.Decision, a.Now, a.Charged, a.Borrowed
	}
}

// A span is the context of a decision that makes several calls: they have one
// budget together.
type span struct {
	context.Context
	end time.Time
}

// Deadline implements context.Context.
func (s *span) Deadline() (time.Time, bool) { return s.end, true }

// begin starts the budget of a decision.
func (k *link) begin(ctx context.Context) context.Context {
	if _, ok := ctx.(*span); ok {
		return ctx
	}
	return &span{ctx, time.Now().Add(k.wait(ctx))}
}

// wait returns how long a caller may wait.
func (k *link) wait(ctx context.Context) time.Duration {
	budget := k.budget
	if s, ok := ctx.(*span); ok {
		return min(budget, time.Until(s.end))
	}
	if end, ok := ctx.Deadline(); ok {
		budget = min(budget, time.Until(end)/2)
	}
	return budget
}

// slot takes a place among the calls under way, and reports why there is none.
func (k *link) slot(ctx context.Context, t *time.Timer) error {
	if k.breaker.open.Load() {
		return errAway
	}
	select {
	case k.slots <- struct{}{}:
		return nil
	default:
	}
	t.Reset(k.wait(ctx))
	defer t.Stop()
	select {
	case k.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		k.busy.Add(1)
		return errBusy
	}
}

// take decides ops on the shared store. It returns the node's time at which they
// were sent.
func (k *link) take(ctx context.Context, ops []weir.Op) (int64, error) {
	c := k.spare.Get().(*call)
	if err := k.slot(ctx, c.timer); err != nil {
		k.spare.Put(c)
		return 0, err
	}
	if k.prompt {
		defer func() {
			<-k.slots
			k.spare.Put(c)
		}()
		c.begin(k)
		return c.sent, k.runHere(ctx, c, ops)
	}
	return k.takeIn(ctx, c, ops, k.wait(ctx))
}

// begin notes when the call is made.
func (c *call) begin(k *link) {
	c.noted.Store(false)
	c.sent, c.from = k.now(), k.elapsed()
}

// runHere makes a call on the goroutine that asks.
func (k *link) runHere(ctx context.Context, c *call, ops []weir.Op) error {
	if _, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, k.wait(ctx))
		defer cancel()
	}
	return k.judge(c, k.store.Take(ctx, ops))
}

// takeIn is take in a slot that is held already. It gives the slot back.
func (k *link) takeIn(ctx context.Context, c *call, ops []weir.Op, wait time.Duration) (int64, error) {
	c.fill(ops)
	c.begin(k)
	if !k.start(func() {
		c.err = k.run(ctx, c)
		c.done <- struct{}{}
		<-k.slots
	}) {
		<-k.slots
		return 0, weir.ErrClosed
	}
	c.timer.Reset(wait)
	select {
	case <-c.done:
		c.timer.Stop()
		sent, err := c.sent, c.err
		if err == nil {
			c.answer(ops)
		}
		k.spare.Put(c)
		return sent, err
	case <-ctx.Done():
		c.timer.Stop()
		return 0, ctx.Err()
	case <-c.timer.C:
		k.abandon(c)
		return 0, errLate
	}
}

// run makes a call on a goroutine of its own. It has all its time even if ctx, which
// says whom it is for, ends.
func (k *link) run(ctx context.Context, c *call) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.budget)
	defer cancel()
	err := k.store.Take(ctx, c.ops)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return k.judge(c, err)
}

// judge tells the breaker how a call went, and returns what is to be told of it.
func (k *link) judge(c *call, err error) error {
	k.calls.Add(1)
	late := k.elapsed()-c.from > k.budget.Microseconds()
	if partial(err) && !c.noted.Swap(true) {
		// The breaker is for all of the store.
		k.failures.Add(1)
	}
	switch {
	case err != nil && wrong(err):
		k.note(c, nil)
	case errors.Is(err, context.Canceled):
		// The caller has gone: that says nothing about the store.
		c.noted.Store(true)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		k.late.Add(1)
		err = fmt.Errorf("%w: %w", errLate, err)
		k.note(c, err)
	case err != nil:
		k.note(c, err)
	case late:
		k.note(c, errLate)
	default:
		k.note(c, nil)
	}
	return err
}

// abandon leaves a call to itself. If it has had its time it has failed.
func (k *link) abandon(c *call) {
	if k.elapsed()-c.from >= k.budget.Microseconds() {
		k.late.Add(1)
		k.note(c, errLate)
	}
}

// note tells the breaker how a call went, once.
func (k *link) note(c *call, err error) {
	if c.noted.Swap(true) {
		return
	}
	if err != nil {
		k.failures.Add(1)
	}
	if k.breaker.note(err != nil) && k.opened != nil {
		k.opened(err)
	}
}

// partial reports whether err is about a part of the store, of which it has others.
func partial(err error) bool {
	var p interface{ Partial() bool }
	return errors.As(err, &p) && p.Partial()
}

// wrong reports whether err is about what was asked, and not about the store.
func wrong(err error) bool {
	return errors.Is(err, weir.ErrCost) || errors.Is(err, weir.ErrNoLease) || errors.Is(err, weir.ErrRefund) ||
		errors.Is(err, weir.ErrClosed)
}

// probe makes a call though the breaker is open, and closes it if it succeeds. It
// reports whether the store is there.
func (k *link) probe(ops []weir.Op) (int64, error) {
	c := k.spare.Get().(*call)
	select {
	case k.slots <- struct{}{}:
	default:
		k.spare.Put(c)
		return 0, errBusy
	}
	sent, err := k.takeIn(context.Background(), c, ops, k.budget)
	return sent, err
}
