package transport

import (
	"context"
	"time"

	"github.com/weirlimit/weir/store/internal/clock"
)

// Simulated is a store that is a node's in a simulation: what is opened over it takes its time,
// goroutines, waiting and chance from there. That a store says so itself keeps simulations out
// of the public face: an option or a constructor would have to name an [Env].
type Simulated interface {
	// Ticks returns the node's own time, Wall that of its wall clock, in microseconds.
	Ticks() int64
	Wall() int64
	// Go runs f as [Env] does.
	Go(f func())
	// Park waits as [Env] does, and reports whether the gate let pass.
	Park(ctx context.Context, gate chan struct{}, d time.Duration) bool
	// Uint64 returns any number.
	Uint64() uint64
}

// NewSimulated returns the clock and the environment of a node of a simulation.
func NewSimulated(n Simulated) (*clock.Clock, *Env) {
	c := clock.New(func() clock.Node { return clock.Node(n.Ticks()) }, func() clock.Store { return clock.Store(n.Wall()) })
	return c, &Env{Now: c.Now, Go: n.Go, Rand: n.Uint64, Park: func(ctx context.Context, g Gate, d time.Duration) Wake {
		switch {
		case n.Park(ctx, g, d):
			return Opened
		case ctx.Err() != nil:
			return Ended
		}
		return TimedOut
	}}
}
