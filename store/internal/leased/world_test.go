package leased

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
	"github.com/weirlimit/weir/store/internal/transport"
	"github.com/weirlimit/weir/store/memory"
)

var lenders = []weir.Algorithm{
	algorithm.FixedWindow, algorithm.TokenBucket, algorithm.LeakyBucket, algorithm.SlidingWindow, algorithm.SlidingCounter, algorithm.SlidingSubwindows,
}

// epoch is the beginning of an hour.
const epoch = 1_699_999_200_000_000

var errLost = errors.New("no answer")

// A world is some nodes and their store, by a true time. Flights are coroutines: they
// stop before the store is reached, and before its answer is, until they are resumed.
type world struct {
	*testing.T
	true   int64        // microseconds
	set    int64        // by which the store's clock was set
	served atomic.Int64 // the store's time, which its sweeper reads too
	store  *memory.Store
	nodes  []*node
	flying []*flight
	turn   *flight // that is resumed
	calls  int
	failed bool // the last call has no answer
}

type flight struct {
	next  func() (struct{}, bool)
	yield func(struct{}) bool
	// loseCall and loseAnswer are faults.
	loseCall, loseAnswer bool
}

type node struct {
	*Env
	*world
	returns *lot.Returns
	drift   int64 // ppm
	slept   int64
	closing bool
}

func newWorld(t *testing.T, nodes int) *world {
	w := &world{T: t, true: 1000}
	w.store = memory.New(memory.Options{MaxBytes: 1 << 20, Now: w.served.Load})
	t.Cleanup(func() { w.store.Close() })
	mark := transport.NewMark(algorithm.FixedWindow)
	for range nodes {
		n := &node{world: w, returns: lot.NewReturns(1<<20, func() {})}
		n.Env = &Env{
			Env: lot.Env{
				Clock: clock.New(func() clock.Node { return clock.Node((w.true - n.slept) + (w.true-n.slept)*n.drift/1_000_000) },
					func() clock.Store { return clock.Store(epoch + w.true) }),
				Table: lot.NewTable(1<<20, n.returns), Refusals: lot.NewRefusals(1<<16, 1_000_000),
				Nodes: func() int64 { return int64(len(w.nodes)) }, Go: n.start, Fetch: n.call, Mark: mark, Rand: rand.Uint64,
			},
		}
		w.nodes = append(w.nodes, n)
	}
	return w
}

func (n *node) start(f func()) bool {
	if n.closing {
		return false
	}
	x := &flight{}
	x.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		x.yield = yield
		f()
	})
	n.flying = append(n.flying, x)
	return true
}

func (n *node) call(_ *lot.Flight, ops []weir.Op) (clock.Node, error) {
	x, sent := n.turn, n.Clock.Now()
	n.calls++
	n.failed = true
	x.yield(struct{}{})
	if x.loseCall {
		x.loseCall = false
		return sent, errLost
	}
	n.take(ops)
	x.yield(struct{}{})
	if x.loseAnswer {
		x.loseAnswer = false
		return sent, errLost
	}
	n.failed = false
	n.Clock.Observe(0, clock.Store(ops[0].Now), sent)
	return sent, nil
}

func (w *world) take(ops []weir.Op) {
	w.Helper()
	w.served.Store(epoch + w.true + w.set)
	if err := w.store.Take(context.Background(), ops); err != nil {
		w.Fatal(err)
	}
}

// resume lets a flight go on to its next stop, and reports whether it has one.
func (w *world) resume(i int) bool {
	x := w.flying[i]
	w.turn = x
	_, ok := x.next()
	if !ok {
		w.flying = append(w.flying[:i], w.flying[i+1:]...)
	}
	return ok
}

// land lets all flights end.
func (w *world) land() {
	for len(w.flying) > 0 {
		w.resume(0)
	}
}

// giveBack sends what waits to be returned.
func (n *node) giveBack() {
	for some := n.returns.TakeDue(0, clock.Store(epoch+n.true)); some != nil; some = n.returns.TakeDue(0, 0) {
		for i := range some {
			n.take([]weir.Op{some[i].BuildOp()})
		}
		n.returns.FinishCall(some, n.Clock.Now(), lot.Accepted)
	}
}

func (n *node) decider(l *weir.Limit) *Decider {
	n.Helper()
	terms, err := NewTerms(l, true)
	if err != nil || terms == nil {
		n.Fatalf("no terms: %v", err)
	}
	return &Decider{n.Env, terms}
}

func (n *node) draw(d *Decider, cost int64) (lot.Verdict, *lot.Flight, weir.Op) {
	o := weir.Op{Key: "k", Limit: d.limit, Cost: cost}
	v, f := d.Draw(context.Background(), n.Clock.Now(), &o, nil)
	return v, f, o
}

// spend decides a cost as the phases of a decision do: it waits for flights, and asks the
// store where it is to.
func (n *node) spend(d *Decider, cost int64) bool {
	n.Helper()
	for flights := 0; ; flights++ {
		if flights == 4 {
			n.Fatalf("%s: a draw of %d still waits after %d flights", d.limit.Algorithm.Name(), cost, flights)
		}
		v, f, o := n.draw(d, cost)
		switch v {
		case lot.Charged:
			return true
		case lot.Refused:
			return false
		case lot.Wait:
			n.land()
			if f.Refused > 0 && cost >= f.Refused || n.failed {
				return false
			}
		default:
			sent := n.Clock.Now()
			ops := []weir.Op{o}
			n.take(ops)
			ops[0].Limit = d.limit
			d.Learn(&ops[0], sent)
			return ops[0].Charged
		}
	}
}

func limited(t *testing.T, count int64, a weir.Algorithm) *weir.Limit {
	t.Helper()
	l := &weir.Limit{Name: "limit", Algorithm: a, Count: count, Period: time.Minute}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return l
}

// left is how many units the store has.
func (w *world) left(l *weir.Limit) int64 {
	ops := []weir.Op{{Key: "k", Limit: l, Cost: 1, Verb: weir.Peek}}
	w.take(ops)
	return ops[0].Decision.Remaining
}

func (n *node) held() int64 {
	_, units, _ := n.Table.CountHeld()
	return units
}
