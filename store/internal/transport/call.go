package transport

import (
	"context"
	"errors"
	"slices"
	"time"
	"unsafe"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
)

// Class is by what time a call is judged.
type Class uint8

const (
	// Foreground: a decision waits for it, for its budget.
	Foreground Class = iota
	// Background: no decision waits for it. It is judged by the timeout, and all of
	// them take at most a quarter of a shard's calls.
	Background
	// Fetch: it has the timeout, as what it brings is of use however late it comes. It
	// is late once more each time that a budget has passed, if a decision waits for it.
	Fetch
)

// Outcome is how a call without an answer ended.
type Outcome uint8

const (
	_          Outcome = iota // answered: no Result
	Rejected                  // the server answered with an error about these ops
	Failed                    // the driver could not deliver it, or lost the connection
	Late                      // its budget was over after it was sent
	Unsent                    // its budget was over in the queue, or the queue was full
	Open                      // the shard's breaker was open
	CallerGone                // the caller's context ended first
)

// Reasons why a call has no answer.
var (
	ErrOpen = errors.New("the shared store is away")
	ErrLate = errors.New("no answer from the shared store in time")
	ErrBusy = errors.New("too many calls of the shared store are under way")
)

// A Result says how a call without an answer ended. It is the error that the methods of
// [Queue] return, and what a driver hands to [Call.Finish].
type Result struct {
	Outcome Outcome
	// MayRun: the ops, or some of them, may have been carried out, or be so later. If
	// not, none ever is.
	MayRun bool
	// Excused: the shard's breaker does not count it, though it failed or was late: one
	// that got its turn late had but a part of its time, or the driver says so.
	Excused bool
	// Shard is where the call was to go.
	Shard int
	Err   error

	left *Call // what the caller has left, if it was sent
}

func (r *Result) Error() string { return r.Err.Error() }

// Unwrap returns r.Err.
func (r *Result) Unwrap() error { return r.Err }

var (
	errOpen   = &Result{Outcome: Open, Err: ErrOpen}
	errBusy   = &Result{Outcome: Unsent, Err: ErrBusy}
	errLate   = &Result{Outcome: Late, MayRun: true, Err: ErrLate}
	errUnsent = &Result{Outcome: Unsent, Err: ErrLate}
	errClosed = &Result{Outcome: Unsent, Err: weir.ErrClosed}
)

// MayRun reports whether the ops of a call that ended with err may be carried out. It is
// true of an error that is not of this package.
func MayRun(err error) bool {
	var r *Result
	if errors.As(err, &r) {
		return r.MayRun
	}
	return err != nil && !errors.Is(err, ErrOpen) && !errors.Is(err, ErrBusy)
}

type state uint8

const (
	queued state = iota
	sent
	finished
)

// A Call is one message to a shard, and its answer. It is sent at most once.
type Call struct {
	// Ops are the call's own. The driver fills in the answers.
	Ops []weir.Op
	// Context carries the values of the caller's, and never ends.
	Context context.Context
	// Within is how long the driver has for the call.
	Within time.Duration
	// Renewed are which of the ops renewed a permit that was held before, as the driver
	// says; empty: none.
	Renewed []bool

	// Undoes: the ops give back what was charged a moment ago, by a call of a request that
	// another part refused.
	Undoes bool

	renewed *[]bool // where its caller wants that
	keys    []byte  // of Ops
	class   Class
	flight  *Flight              // of a Fetch
	isSub   bool                 // it is in no list
	report  func(failure string) // of Tuning.Begun
	shard   *shard
	gate    Gate

	// A spend that others can join: its key, and the tag of that and its limit.
	key   string
	limit *weir.Limit
	tag   uint64 // 0: it is sent by itself

	// What follows is guarded by the shard.
	state         state
	left          bool // nobody parks at the gate
	entered, sent clock.Node
	ends          clock.Node // until when its caller waits
	due           clock.Node // when it is judged next
	failed        bool       // the breaker has counted it
	behind        []*Call    // later spends of its key, while it is in byKey
	with          []*Call    // spends of its key that were sent with it
	result        *Result
	then          func(ops []weir.Op, err error)
}

// fill makes c a call of a copy of ops.
func (c *Call) fill(ctx context.Context, class Class, ops []weir.Op) {
	if ctx.Done() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	n := 0
	for i := range ops {
		n += len(ops[i].Key)
	}
	keys := c.keys[:0]
	if cap(keys) < n {
		keys = make([]byte, 0, n)
	}
	*c = Call{Ops: append(c.Ops[:0], ops...), Context: ctx, Renewed: c.Renewed[:0], class: class, gate: c.gate, behind: c.behind[:0], with: c.with[:0]}
	for i := range c.Ops {
		from := len(keys)
		keys = append(keys, c.Ops[i].Key...)
		c.Ops[i].Key = unsafe.String(unsafe.SliceData(keys[from:]), len(keys)-from)
	}
	c.keys = keys
}

// Ask has the driver carry out ops within so long, in a call that passes by the breaker and
// before c is finished, and waits for the answer. If c has several ops, they may be asked one
// after the other.
func (c *Call) Ask(ops []weir.Op, within time.Duration) *Result {
	if within <= 0 {
		return errLate
	}
	s, sub := c.shard, &Call{Ops: ops, Context: c.Context, Within: within, class: c.class, gate: NewGate(), isSub: true}
	s.q.driven.Load().Send(s.index, []*Call{sub})
	for s.q.env.Park(context.Background(), sub.gate, time.Hour) != Opened {
	}
	c.Renewed = append(c.Renewed[:0], sub.Renewed[:min(len(sub.Renewed), len(c.Ops))]...)
	if r := sub.result; r == nil || r.MayRun || len(c.Ops) == 1 {
		return r
	}
	r := *sub.result
	r.MayRun = true // those before
	return &r
}

// copyAnswers copies the answers to ops.
func copyAnswers(ops, from []weir.Op) {
	for i := range ops {
		o, a := &ops[i], &from[i]
		o.Decision, o.Now, o.Charged, o.Borrowed = a.Decision, a.Now, a.Charged, a.Borrowed
	}
}

// Then calls f when the call of which r is the result has ended that its caller left,
// with its ops and why it has no answer. It reports whether there is such a call.
func (r *Result) Then(f func(ops []weir.Op, err error)) bool {
	c := r.left
	if c == nil {
		return false
	}
	c.shard.mu.Lock()
	over := c.state == finished
	c.then = f
	c.shard.mu.Unlock()
	if over {
		f(c.Ops, c.err())
	}
	return true
}

func (c *Call) err() error {
	if c.result == nil {
		return nil
	}
	r := *c.result
	r.Shard = c.shard.index
	return &r
}

// IsLeft reports whether the call was sent, and its caller left it before it ended.
func (r *Result) IsLeft() bool { return r.left != nil }

// Finish ends a call: a nil result says that its Ops are answered. Its driver calls it
// once, and must not touch the call afterwards.
func (c *Call) Finish(r *Result) {
	if c.isSub {
		c.result = r
		c.gate.Open()
		return
	}
	s := c.shard
	if ended := s.q.opt.Tuning.Ended; ended != nil {
		var err error
		if r != nil {
			err = r.Err
		}
		ended(time.Duration(s.q.env.Now()-c.sent)*time.Microsecond, err, c.report)
	}
	s.mu.Lock()
	i := slices.Index(s.flight, c)
	s.flight = slices.Delete(s.flight, i, i+1)
	if c.class == Background {
		s.background--
	}
	opened := s.record(c, r)
	s.release(c)
	if len(c.with) > 0 && r == nil {
		for i := range c.Ops { // each stands alone, though a store says Charged of a refused Always
			c.Ops[i].Charged = c.Ops[i].Decision.Allowed()
		}
	}
	var left []*Call
	for i := len(c.with) - 1; i >= 0; i-- { // c itself is the last: its caller may use it again
		f := c.with[i]
		if r == nil {
			copyAnswers(f.Ops, c.Ops[i+1:i+2])
		}
		left = f.end(r, left)
	}
	left = c.end(r, left)
	s.mu.Unlock()
	for _, f := range left {
		f.then(f.Ops, f.err())
	}
	if opened {
		s.opened(r)
	}
}

// end hands a call back. If its caller has left and waits for the answer elsewhere, it
// is appended to left. Requires: mu.
func (c *Call) end(r *Result, left []*Call) []*Call {
	c.state, c.result = finished, r
	switch {
	case !c.left:
		c.gate.Open()
	case c.then != nil:
		left = append(left, c)
	}
	return left
}
