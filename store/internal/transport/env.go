package transport

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/lateness"
	"github.com/weirlimit/weir/store/internal/clock"
)

// Env is how a node takes time, starts goroutines, waits and draws lots. A simulation
// replaces all four. It must not be changed while it is in use.
type Env struct {
	// Now is the node's time.
	Now func() clock.Node
	// Go runs f on a goroutine of its own.
	Go func(f func())
	// Park waits until g is opened, ctx ends, or d has passed. An end of d is put off by
	// as long as this process was late itself while it waited.
	Park func(ctx context.Context, g Gate, d time.Duration) Wake
	// Rand returns any number.
	Rand func() uint64
	// Late returns how late this process was itself since that was before, in all; nil: never.
	Late func(before time.Duration) time.Duration
}

// A Gate is opened once for each time that somebody parks at it. A nil gate never opens.
type Gate chan struct{}

// NewGate returns a gate that is shut.
func NewGate() Gate { return make(Gate, 1) }

// Open lets pass whoever parks at the gate, now or next. It never waits.
func (g Gate) Open() { g <- struct{}{} }

// Wake is why Park returned.
type Wake uint8

const (
	Opened   Wake = iota // the gate was opened
	Ended                // the context ended
	TimedOut             // the time passed
)

// NewEnv returns the environment of a process. The meter says how late it was; nil means
// that it never is.
func NewEnv(now func() clock.Node, meter *lateness.Meter) *Env {
	timers := &sync.Pool{New: func() any {
		t := time.NewTimer(time.Hour)
		t.Stop()
		return t
	}}
	return &Env{
		Now:  now,
		Go:   func(f func()) { go f() },
		Rand: rand.Uint64,
		Late: meter.Since,
		Park: func(ctx context.Context, g Gate, d time.Duration) Wake {
			t := timers.Get().(*time.Timer)
			defer timers.Put(t)
			defer t.Stop()
			t.Reset(d)
			own := meter.Allow(d)
			for {
				select {
				case <-g:
					return Opened
				case <-ctx.Done():
					return Ended
				case <-t.C:
					more := own.More()
					if more == 0 {
						return TimedOut
					}
					t.Reset(more)
				}
			}
		},
	}
}

// NewGroup returns a group without a goroutine.
func NewGroup(env *Env) *Group { return &Group{env: env} }

// A Group counts goroutines, and waits until there are none. Safe for concurrent use.
type Group struct {
	env    *Env
	mu     sync.Mutex
	n      int
	closed bool
	idle   []Gate // opened when n becomes zero
}

// Go runs f on a goroutine, unless the group is closed.
func (g *Group) Go(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.n++
	g.env.Go(func() {
		defer g.done()
		f()
	})
	return true
}

func (g *Group) done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 {
		for _, gate := range g.idle {
			gate.Open()
		}
		g.idle = nil
	}
}

// Wait waits until no goroutine of the group runs.
func (g *Group) Wait() {
	g.mu.Lock()
	if g.n == 0 {
		g.mu.Unlock()
		return
	}
	gate := NewGate()
	g.idle = append(g.idle, gate)
	g.mu.Unlock()
	for g.env.Park(context.Background(), gate, time.Hour) != Opened {
	}
}

// close lets no more goroutines begin, and waits for those that run.
func (g *Group) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.Wait()
}
