package lot

import (
	"context"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/transport"
)

// Verdict is what a decider says of one op.
type Verdict uint8

const (
	// Ask: the store decides.
	Ask Verdict = iota
	// Charged: the units were taken, and the op has its decision.
	Charged
	// Refused: nothing was taken, and the op has its decision.
	Refused
	// Wait: a flight may bring what is needed. The caller draws again when it has ended.
	Wait
)

// A Decider decides the ops of limits of one consistency by what the node holds. It
// never calls the store on the goroutine of a caller, nor another decider. Safe for
// concurrent use.
type Decider interface {
	// Draw decides a spend, or a look, which takes nothing and never has to wait. Hold notes
	// what it took; nil means that it is never undone. A flight that it has to wait for has the
	// values of ctx.
	Draw(ctx context.Context, now clock.Node, o *weir.Op, h *Hold) (Verdict, *Flight)
	// Undo gives back what a Draw has noted. It cannot fail.
	Undo(now clock.Node, h *Hold)
	// Refund gives units back to what they were drawn from, if that is still held. It
	// reports whether it is; if not, the store gets them back.
	Refund(now clock.Node, o *weir.Op) bool
	// Holds reports whether Refund would take the units back.
	Holds(now clock.Node, o *weir.Op) bool
	// Learn takes over what the store has answered to an op that was sent at sent.
	Learn(o *weir.Op, sent clock.Node)
}

// LeastShare is the smallest part of a limit that is worth a fetch: what is less for each node
// is decided by the store.
const LeastShare = 8

// Env is what the deciders of a node share. It must not be changed while it is in use.
type Env struct {
	Clock    *clock.Clock
	Table    *Table
	Returns  *Returns
	Refusals *Refusals // which also know what remained
	// Mark is that of transport.NewMark, and Rand names what has a name that nothing else has.
	Mark *weir.Limit
	Rand func() uint64
	// Nodes is how many share the store.
	Nodes func() int64
	// Go runs f, unless the node is closing.
	Go func(f func()) bool
	// Fetch makes a call for a flight, has the clock observe its answer, and returns when it
	// was sent. An error means that the ops may have been carried out; an answer that comes
	// after that is dropped, as what was asked may be repeated under its number.
	Fetch func(f *Flight, ops []weir.Op) (clock.Node, error)
}

// AnswerOp fills in the decision on an op that the node has made at now.
func (v *Env) AnswerOp(o *weir.Op, a weir.Decision, now clock.Node, charged bool) {
	o.Answer.Set(a, int64(v.Clock.Latest(now)), 0, charged, false)
}

// A Flight is a fetch, renewal or push under way for an entry. What the store has refused
// is read after it has landed only.
type Flight struct {
	transport.Flight
	// Context has the values for its calls, such as the trace of the decision that it was
	// begun for. That it ends does not matter.
	Context context.Context
	// A cost of Refused or more was refused by the store, as Decision says, and so is one
	// that has waited: else a draw without luck would ask until its time is over. Zero
	// means that none was.
	Refused  int64
	Decision weir.Decision
}

// LaunchFlight has begin run the calls of a flight of e, which has the values of ctx. It reports
// false if begin does: the node is closing. Requires: the shard of e, which run locks.
func (e *Entry) LaunchFlight(ctx context.Context, begin func(f func()) bool, run func(f *Flight)) bool {
	f := &Flight{Context: ctx}
	f.Flight.Begin()
	if !begin(func() { run(f) }) {
		return false
	}
	e.Flight = f
	return true
}
