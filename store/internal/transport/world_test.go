package transport

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir/store/internal/clock"
)

// A world is an Env of virtual time in which one goroutine runs at a time. A seed
// chooses which goes next, so that a run is repeatable.
type world struct {
	t     testing.TB
	rnd   *rand.Rand
	now   clock.Node
	tasks []*task
	runs  *task
	yield chan struct{}
	steps int
	// events is a hash of what happened, in order.
	events uint64
}

// A task is a goroutine that waits for its turn.
type task struct {
	turn chan struct{}
	ctx  context.Context
	gate Gate
	// passed: the gate was open.
	passed bool
	until  clock.Node
	ended  bool
}

// simulate runs f, and all that it starts, in a world of its own until all have ended.
func simulate(t testing.TB, seed uint64, f func(w *world)) *world {
	w := &world{t: t, rnd: rand.New(rand.NewPCG(seed, 7)), now: 1, yield: make(chan struct{})}
	w.Go(func() { f(w) })
	for len(w.tasks) > 0 {
		if w.steps++; w.steps > 5_000_000 {
			t.Fatal("the simulation does not end")
		}
		w.step()
	}
	return w
}

func (w *world) env() *Env {
	return &Env{Now: func() clock.Node { return w.now }, Go: w.Go, Park: w.Park, Rand: w.rnd.Uint64}
}

// step lets one task run that can, at the next instant at which one can.
func (w *world) step() {
	var ready []*task
	next := clock.Never
	for _, k := range w.tasks {
		select {
		case <-k.gate:
			k.passed = true
		default:
		}
		if k.until <= w.now || k.passed || k.ctx.Err() != nil {
			ready = append(ready, k)
		}
		next = min(next, k.until)
	}
	if len(ready) == 0 {
		if next == clock.Never {
			w.t.Fatal("all goroutines wait for ever")
		}
		w.now = next
		return
	}
	w.runs = ready[w.rnd.IntN(len(ready))]
	w.runs.turn <- struct{}{}
	<-w.yield
	if w.runs.ended {
		for i, k := range w.tasks {
			if k == w.runs {
				w.tasks = append(w.tasks[:i], w.tasks[i+1:]...)
				break
			}
		}
	}
}

func (w *world) Go(f func()) {
	k := &task{turn: make(chan struct{}), ctx: context.Background()}
	w.tasks = append(w.tasks, k)
	go func() {
		<-k.turn
		f()
		k.ended = true
		w.yield <- struct{}{}
	}()
}

func (w *world) Park(ctx context.Context, g Gate, d time.Duration) Wake {
	k := w.runs
	k.ctx, k.gate, k.until, k.passed = ctx, g, w.now.Add(d.Microseconds()), false
	w.yield <- struct{}{}
	<-k.turn
	k.gate = nil
	switch {
	case k.passed:
		return Opened
	case ctx.Err() != nil:
		return Ended
	}
	return TimedOut
}

// sleep lets d pass.
func (w *world) sleep(d time.Duration) { w.Park(context.Background(), nil, d) }

// within returns a context that ends after d of the world's time.
func (w *world) within(d time.Duration) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	w.Go(func() {
		w.sleep(d)
		cancel()
	})
	return ctx
}

// note adds an event to the hash.
func (w *world) note(format string, args ...any) {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %d ", w.events, w.now)
	fmt.Fprintf(h, format, args...)
	w.events = h.Sum64()
}
