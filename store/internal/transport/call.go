package transport

import (
	"context"
	"time"
	"unsafe"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
)

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
	report  func(failure string) // of Watcher.Begin
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
	ends, until   clock.Node    // until when its caller waits, and would by its budget alone
	starved       clock.Node    // of the shard, when it entered
	late          time.Duration // in all that this process was, when it was sent
	due           clock.Node    // when it is judged next
	failed        bool          // the breaker has counted it
	behind        []*Call       // later spends of its key, while it is in byKey
	with          []*Call       // spends of its key that were sent with it
	result        *Result
	then          func(ops []weir.Op, err error)
}

// fillWithOps makes c a call of a copy of ops.
func (c *Call) fillWithOps(ctx context.Context, class Class, ops []weir.Op) {
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

// AskDriver has the driver carry out ops within so long, in a call that passes by the breaker and
// before c is finished, and waits for the answer. If c has several ops, they may be asked one
// after the other.
func (c *Call) AskDriver(ops []weir.Op, within time.Duration) *Result {
	if within <= 0 {
		return errLate
	}
	s, sub := c.shard, &Call{Ops: ops, Context: c.Context, Within: within, class: c.class, gate: NewGate(), isSub: true}
	s.q.driver.Send(s.index, []*Call{sub})
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
		ops[i].Answer = from[i].Answer
	}
}

// WhenEnded calls f when the call of which r is the result has ended that its caller left,
// with its ops and why it has no answer. It reports whether there is such a call.
func (r *Result) WhenEnded(f func(ops []weir.Op, err error)) bool {
	c := r.left
	if c == nil {
		return false
	}
	c.shard.mu.Lock()
	over := c.state == finished
	c.then = f
	c.shard.mu.Unlock()
	if over {
		f(c.Ops, c.resultError())
	}
	return true
}

func (c *Call) resultError() error {
	if c.result == nil {
		return nil
	}
	r := *c.result
	r.Shard = c.shard.index
	return &r
}

// handBack hands a call back. If its caller has left and waits for the answer elsewhere, it
// is appended to left. Requires: mu.
func (c *Call) handBack(r *Result, left []*Call) []*Call {
	c.state, c.result = finished, r
	switch {
	case !c.left:
		c.gate.Open()
	case c.then != nil:
		left = append(left, c)
	}
	return left
}

// newCall returns a call of a copy of ops, which are of one shard.
func (q *Queue) newCall(ctx context.Context, class Class, ops []weir.Op) *Call {
	c := q.spare.Get().(*Call)
	c.fillWithOps(ctx, class, ops)
	c.shard = &q.shards[q.shardOf(ops)]
	return c
}

// shardOf returns the shard of the first op that asks the store.
func (q *Queue) shardOf(ops []weir.Op) int {
	for i := range ops {
		if ops[i].Role != weir.Deny {
			return q.ShardOfKey(ops[i].Key)
		}
	}
	return 0
}

// ShardOfKey returns where a key is, from 0; that may change.
func (q *Queue) ShardOfKey(key string) int { return q.driver.Shard(key) }
