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
	// Draw decides a spend. Hold notes what it took; nil means that it is never undone. A
	// flight that it has to wait for has the values of ctx.
	Draw(ctx context.Context, now clock.Node, o *weir.Op, h *Hold) (Verdict, *Flight)
	// Undo gives back what a Draw has noted. It cannot fail.
	Undo(now clock.Node, h *Hold)
	// Refund gives units back to what they were drawn from, if that is still held. It
	// reports whether it is; if not, the store gets them back.
	Refund(now clock.Node, o *weir.Op) bool
	// Holds reports whether Refund would take the units back.
	Holds(now clock.Node, o *weir.Op) bool
	// Peek is Draw that takes nothing, and never says Wait.
	Peek(now clock.Node, o *weir.Op) Verdict
	// Learn takes over what the store has answered to an op that was sent at sent.
	Learn(o *weir.Op, sent clock.Node)
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

// Launch has begin run the calls of a flight of e, which has the values of ctx. It reports
// false if begin does: the node is closing. Requires: the shard of e, which run locks.
func (e *Entry) Launch(ctx context.Context, begin func(f func()) bool, run func(f *Flight)) bool {
	f := &Flight{Context: ctx}
	f.Flight.Begin()
	if !begin(func() { run(f) }) {
		return false
	}
	e.Flight = f
	return true
}
