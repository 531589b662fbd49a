package tier

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/background"
	"github.com/weirlimit/weir/internal/lateness"
)

// Reasons why the shared store did not decide.
var (
	errAway = errors.New("tier: the shared store is away")
	errLate = errors.New("tier: no answer from the shared store in time")
	errBusy = errors.New("tier: too many calls of the shared store are under way")
)

// A link makes the calls of the shared store: so many at once, each within its
// budget, none while the breaker is open. A call is made once: whether one that
// did not answer was carried out cannot be told, so only what carries a number is
// repeated.
//
// Safe for concurrent use.
type link struct {
	store weir.Store
	// budget is the longest that a decision waits, patience the longest that a call
	// takes which no decision waits for: returns, debts, pushes, and fetches.
	budget, patience time.Duration
	slots            chan struct{}
	// prompt: the store ends each call in time by itself.
	prompt  bool
	breaker breaker
	meter   *lateness.Meter // nil of other regions
	base    time.Time
	told    func() int64
	spare   sync.Pool // of *call
	// slept is for how long the monotonic clock stood still, ahead how far the wall
	// clock was ahead of it when they were compared, at watched. resumed is told when
	// slept grows; it must not wait.
	slept, watched atomic.Int64
	watching       sync.Mutex
	ahead          int64
	resumed        func()
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
	k := &link{store: store, budget: opt.Timeout, patience: max(opt.Timeout, leastPatience), prompt: opt.Prompt, slots: make(chan struct{}, opt.MaxInFlight), base: time.Now(), told: opt.Now, meter: opt.meter}
	k.spare.New = func() any { return &call{done: make(chan struct{}, 1), timer: stopped()} }
	k.ahead = k.base.UnixMicro() - k.ticked()
	return k
}

// leastPatience is the least patience: longer than a store stands still that is well,
// and short enough that what was not answered is given back within a second.
const leastPatience = 750 * time.Millisecond

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

// now returns the node's time in microseconds: a monotonic clock's, and what that
// stood still for while the machine was suspended.
func (k *link) now() int64 {
	t := k.ticked()
	if t-k.watched.Load() >= watchEvery {
		k.watchTime()
	}
	return t + k.slept.Load()
}

// ticked is the node's monotonic time.
func (k *link) ticked() int64 {
	if k.told != nil {
		return k.told()
	}
	return k.elapsed()
}

const (
	// watchEvery is how often the wall clock is looked at, in microseconds of the
	// monotonic one: so much is decided late at most after a machine was suspended.
	watchEvery = 100
	// leastSleep is by how much more the wall clock must have moved than the monotonic
	// one, which stands still while a machine is suspended. A clock that a test sets
	// stands still while the test works.
	leastSleep, leastSleepTold = 100_000, 1_000_000
)

// watchTime looks whether the monotonic clock stood still while time passed. If so the
// node's time goes on by that: what it holds ends when it would have ended. A wall
// clock that was set forward ends it too early, which costs units and admits none.
func (k *link) watchTime() {
	if !k.watching.TryLock() {
		return // another looks
	}
	defer k.watching.Unlock()
	wall := time.Now()
	t, least := int64(wall.Sub(k.base)/time.Microsecond), int64(leastSleep)
	if k.told != nil {
		t, least = k.told(), leastSleepTold
	}
	ahead := wall.UnixMicro() - t
	switch over := ahead - k.ahead; {
	case over >= least:
		k.ahead = ahead
		k.slept.Add(over)
		if k.resumed != nil {
			k.resumed()
		}
	case over < 0 && k.told == nil:
		k.ahead = ahead // the wall clock was set back
	}
	k.watched.Store(t)
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
	// own is how late this node was by itself, which the store is not to blame for.
	own lateness.Allowance
	// within is how long the call may take.
	within time.Duration
	// late is told each time that the store's budget has passed, nil if nobody is.
	late func(error)
	err  error
	done chan struct{}
	// timer is that of the caller who waits.
	timer *time.Timer
	// noted: how the call went has been told to the breaker.
	noted atomic.Bool
	// ending guards over, which says that the call has ended, and then, which is run
	// when it has if its caller has left.
	ending sync.Mutex
	over   bool
	then   func()
}

// A leftError is why a caller has left a call that may still be carried out.
type leftError struct {
	error
	call *call
}

func (e *leftError) Unwrap() error { return e.error }

// leave returns err, for a caller who leaves the call of ops, of which the store has
// a copy. It is a *leftError if what is granted late is given back.
func (c *call) leave(ops []weir.Op, err error) error {
	if slices.ContainsFunc(ops, func(o weir.Op) bool { return o.NewLease }) {
		return &leftError{err, c}
	}
	return err
}

// afterwards runs then when a call has ended that its caller has left.
func (c *call) afterwards(then func()) {
	c.ending.Lock()
	over := c.over
	c.then = then
	c.ending.Unlock()
	if over {
		then()
	}
}

// end notes that the call has ended.
func (c *call) end(err error) {
	c.err = err
	c.ending.Lock()
	c.over = true
	then := c.then
	c.ending.Unlock()
	if then != nil {
		then()
	}
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
	return &span{ctx, time.Now().Add(k.budget)}
}

// detach returns a context with a budget of its own: what is done goes on when the
// caller goes.
func (k *link) detach(ctx context.Context) context.Context {
	return &span{context.WithoutCancel(ctx), time.Now().Add(k.budget)}
}

// wait returns how long a decision may still wait for the store. The caller's own
// deadline does not shorten it: a caller that leaves earlier gets its context's error
// and no decision, so that nobody chooses the policy of a limit by a short deadline.
func (k *link) wait(ctx context.Context) time.Duration {
	if s, ok := ctx.(*span); ok {
		return min(k.budget, time.Until(s.end))
	}
	return k.budget
}

// mayLeave reports whether a caller may stop to wait before the store has had its
// budget. Its call is made on another goroutine, which waits and judges the store.
func (k *link) mayLeave(ctx context.Context) bool {
	if s, ok := ctx.(*span); ok {
		if time.Until(s.end) < k.budget {
			return true
		}
		ctx = s.Context
	}
	end, ok := ctx.Deadline()
	return ok && time.Until(end) < k.budget
}

// slot takes a place among the calls under way, and reports why there is none.
func (k *link) slot(ctx context.Context, t *time.Timer) error {
	if k.breaker.open.Load() {
		return errAway
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	wait := k.wait(ctx)
	if wait <= 0 {
		return errLate // the calls before this one have used up the budget
	}
	select {
	case k.slots <- struct{}{}:
		return nil
	default:
	}
	t.Reset(wait)
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
	if k.prompt && !k.mayLeave(ctx) {
		defer func() {
			<-k.slots
			k.spare.Put(c)
		}()
		c.begin(k, k.budget)
		return c.sent, k.runHere(ctx, c, ops)
	}
	return k.takeIn(ctx, c, ops, k.budget, k.wait(ctx))
}

// takeLater is take for a call that no decision waits for.
func (k *link) takeLater(ops []weir.Op) (int64, error) {
	c := k.spare.Get().(*call)
	if err := k.slot(context.Background(), c.timer); err != nil {
		k.spare.Put(c)
		return 0, err
	}
	return k.takeIn(context.Background(), c, ops, k.patience, k.patience)
}

// begin notes when the call is made, and how long it may take.
func (c *call) begin(k *link, within time.Duration) {
	c.noted.Store(false)
	c.over = false
	c.sent, c.from, c.within, c.own = k.now(), k.elapsed(), within, k.meter.Allow()
}

// runHere makes a call on the goroutine that asks. The store ends it in time; that
// the caller goes does not.
func (k *link) runHere(ctx context.Context, c *call, ops []weir.Op) error {
	if ctx.Done() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	return k.judge(c, k.store.Take(ctx, ops))
}

// takeIn is take in a slot that is held already, of a call that may take as long as
// within and is waited for as long as wait. It gives the slot back.
func (k *link) takeIn(ctx context.Context, c *call, ops []weir.Op, within, wait time.Duration) (int64, error) {
	c.fill(ops)
	c.begin(k, within)
	if !k.start(func() {
		c.end(k.run(ctx, c))
		c.done <- struct{}{}
		<-k.slots
	}) {
		<-k.slots
		return 0, weir.ErrClosed
	}
	if k.prompt && wait >= within {
		// The store ends the call itself, at about the same moment, and says then whether
		// all of it is late or one of its parts.
		wait = k.due(c) + k.patience
	}
	c.timer.Reset(wait)
	own := c.own
again:
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
		// Nobody waits for the call any more, and yet it tells how the store is.
		time.AfterFunc(k.due(c)-k.since(c), func() { k.abandon(c) })
		return 0, c.leave(ops, ctx.Err())
	case <-c.timer.C:
		if more := own.More(); more > 0 {
			c.timer.Reset(more)
			goto again
		}
		k.abandon(c)
		return 0, c.leave(ops, errLate)
	}
}

// since returns how long ago a call was made.
func (k *link) since(c *call) time.Duration {
	return time.Duration(k.elapsed()-c.from) * time.Microsecond
}

// run makes a call on a goroutine of its own. It has all its time even if ctx, which
// says whom it is for, ends.
func (k *link) run(ctx context.Context, c *call) error {
	ctx, end := context.WithoutCancel(ctx), c.within
	if end > k.budget {
		ctx = background.With(ctx, &background.Call{Patience: end, Late: c.late})
	}
	if k.prompt {
		end = k.due(c) + k.patience // the store ends it before
	}
	ctx, cancel := context.WithTimeout(ctx, end)
	defer cancel()
	err := k.store.Take(ctx, c.ops)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return k.judge(c, err)
}

// judge tells the breaker how a call went, and returns what is to be told of it. An
// answer is one, however late it is: whoever has waited for too long has noted that.
func (k *link) judge(c *call, err error) error {
	k.calls.Add(1)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w: %w", errLate, err)
	}
	switch {
	case err == nil, wrong(err):
		k.note(c, nil)
	case partial(err), unjudged(err):
		// The breaker is for all of the store.
		if !c.noted.Swap(true) {
			k.count(err)
		}
	case errors.Is(err, context.Canceled):
		c.noted.Store(true) // by the store's end
	default:
		k.note(c, err)
	}
	return err
}

// abandon leaves a call to itself. If it has had its time, beside that in which the
// node itself was late, it has failed. A store that is prompt says so itself.
func (k *link) abandon(c *call) {
	if k.prompt {
		return
	}
	if own := c.own; k.since(c) >= k.due(c)+own.More() {
		k.note(c, errLate)
	}
}

// due returns when a call that nobody waits for has had its time. A store that is prompt
// may ask several servers one after the other, each within the budget, at most twice for
// each op: to look and to charge. What no decision waits for goes to all at once.
func (k *link) due(c *call) time.Duration {
	if k.prompt && c.within <= k.budget && len(c.ops) > 1 {
		return c.within * time.Duration(2*len(c.ops))
	}
	return c.within
}

// note tells the breaker how a call went, once.
func (k *link) note(c *call, err error) {
	if c.noted.Swap(true) {
		return
	}
	if err != nil {
		k.count(err)
	}
	k.tell(err)
}

// tell tells the breaker how a call went.
func (k *link) tell(err error) {
	if k.breaker.note(err != nil) && k.opened != nil {
		k.opened(err)
	}
}

// count counts a call that has failed.
func (k *link) count(err error) {
	k.failures.Add(1)
	if errors.Is(err, errLate) {
		k.late.Add(1)
	}
}

// partial reports whether err is about a part of the store, of which it has others.
func partial(err error) bool {
	var p interface{ Partial() bool }
	return errors.As(err, &p) && p.Partial()
}

// unjudged reports whether err says nothing of whether the store answers others: it
// answered, with an error about the keys or limits of this one call, or there was no
// room for the call.
func unjudged(err error) bool {
	var rejected interface{ Rejected() bool }
	var busy interface{ Busy() bool }
	return errors.As(err, &rejected) && rejected.Rejected() || errors.As(err, &busy) && busy.Busy()
}

// wrong reports whether err is about what was asked, and not about the store.
func wrong(err error) bool {
	return errors.Is(err, weir.ErrCost) || errors.Is(err, weir.ErrNoLease) || errors.Is(err, weir.ErrRefund) ||
		errors.Is(err, weir.ErrClosed)
}

// probe makes a call though the breaker is open, and closes it if it succeeds. It
// reports whether the store is there, within so long.
func (k *link) probe(ops []weir.Op, within time.Duration) (int64, error) {
	c := k.spare.Get().(*call)
	select {
	case k.slots <- struct{}{}:
	default:
		k.spare.Put(c)
		return 0, errBusy
	}
	sent, err := k.takeIn(context.Background(), c, ops, within, within)
	return sent, err
}
