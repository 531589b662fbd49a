package eventual

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
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

// A world is some nodes and their store, by a true time. Flights are coroutines: they stop
// before the store is reached, and before its answer is, until they are resumed.
type world struct {
	*testing.T
	true   int64 // microseconds
	served atomic.Int64
	store  *memory.Store
	// other is asked while isMoved: a server that has the keys until theirs is back.
	other   *memory.Store
	isMoved bool
	nodes   []*node
	flying  []*flight
	// stray are calls that are still under way though nobody waits for them: those that
	// are late, and copies of others.
	stray  [][]weir.Op
	turn   *flight // that is resumed
	calls  int
	failed bool // the last call has no answer
}

type flight struct {
	n     *node
	next  func() (struct{}, bool)
	yield func(struct{}) bool
	// Faults: the call is lost, is late, comes again, or its answer is lost.
	loseCall, isLate, comesAgain, loseAnswer bool
}

type node struct {
	*Env
	*world
	drift   int64 // ppm
	slept   int64
	alone   bool // it takes itself to be the only one
	closing bool
}

func newWorld(t *testing.T, nodes int) *world {
	w := &world{T: t, true: 1000}
	for _, s := range []**memory.Store{&w.store, &w.other} {
		*s = memory.New(memory.Options{MaxBytes: 1 << 22, Now: w.served.Load})
		t.Cleanup(func() { (*s).Close() })
	}
	for range nodes {
		w.nodes = append(w.nodes, w.newNode())
	}
	return w
}

// newNode returns a node that has just been started.
func (w *world) newNode() *node {
	n := &node{world: w}
	n.Env = &Env{Env: lot.Env{
		Clock: clock.New(func() clock.Node { return clock.Node((w.true - n.slept) + (w.true-n.slept)*n.drift/1_000_000) },
			func() clock.Store { return clock.Store(epoch + w.true) }),
		Returns: lot.NewReturns(1<<20, func() {}), Refusals: lot.NewRefusals(1<<16, 1_000_000),
		Nodes: func() int64 {
			if n.alone {
				return 1
			}
			return int64(len(w.nodes))
		},
		Go: n.start, Fetch: n.call, Mark: transport.NewMark(algorithm.FixedWindow), Rand: rand.Uint64,
	}}
	n.Table = lot.NewTable(1<<20, n.Returns)
	return n
}

func (n *node) start(f func()) bool {
	if n.closing {
		return false
	}
	x := &flight{n: n}
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
	if x.isLate || x.comesAgain {
		n.stray = append(n.stray, slices.Clone(ops))
	}
	if x.loseCall || x.isLate {
		return sent, errLost
	}
	n.take(ops)
	x.yield(struct{}{})
	if x.loseAnswer {
		return sent, errLost
	}
	n.failed = false
	n.Clock.Observe(0, clock.Store(ops[0].Now), sent)
	return sent, nil
}

func (w *world) take(ops []weir.Op) {
	w.Helper()
	store := w.store
	if w.isMoved {
		store = w.other
	}
	w.served.Store(epoch + w.true)
	if err := store.Take(context.Background(), ops); err != nil {
		w.Fatal(err)
	}
	for i := range ops {
		if o := &ops[i]; w.isMoved {
			o.Decision.Limit = o.Limit.From(weir.FromSuccessor)
		}
	}
}

// resume lets a flight go on to its next stop.
func (w *world) resume(i int) {
	x := w.flying[i]
	w.turn = x
	if _, ok := x.next(); !ok {
		w.flying = append(w.flying[:i], w.flying[i+1:]...)
	}
}

// land lets all flights end.
func (w *world) land() {
	for len(w.flying) > 0 {
		w.resume(0)
	}
}

// arrive lets the i-th stray call reach the store.
func (w *world) arrive(i int) {
	w.take(w.stray[i])
	w.stray = slices.Delete(w.stray, i, i+1)
}

// crash ends a node, and starts another in its place.
func (w *world) crash(i int) {
	old := w.nodes[i]
	w.flying = slices.DeleteFunc(w.flying, func(x *flight) bool { return x.n == old })
	w.nodes[i] = w.newNode()
	w.nodes[i].drift = old.drift
}

// giveBack sends what waits to be returned.
func (n *node) giveBack() {
	for some := n.Returns.TakeDue(0, clock.Store(epoch+n.true)); some != nil; some = n.Returns.TakeDue(0, 0) {
		for i := range some {
			n.take([]weir.Op{some[i].BuildOp()})
		}
		n.Returns.FinishCall(some, n.Clock.Now(), lot.Accepted)
	}
}

func (n *node) decider(l *weir.Limit) *Decider {
	n.Helper()
	terms, err := NewTerms(l)
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

// ask has the store decide.
func (n *node) ask(d *Decider, cost int64) weir.Op {
	sent := n.Clock.Now()
	ops := []weir.Op{{Key: "k", Limit: d.limit, Cost: cost}}
	n.take(ops)
	n.Clock.Observe(0, clock.Store(ops[0].Now), sent)
	d.Learn(&ops[0], sent)
	return ops[0]
}

// spend decides a cost as the phases of a decision do: it waits for flights, and asks the
// store where it is to.
func (n *node) spend(d *Decider, cost int64) (weir.Op, bool) {
	for {
		v, _, o := n.draw(d, cost)
		switch v {
		case lot.Charged:
			return o, true
		case lot.Refused:
			return o, false
		case lot.Wait:
			if n.land(); n.failed {
				return o, false
			}
		default:
			o = n.ask(d, cost)
			return o, o.Charged
		}
	}
}

// pushAll has the node report all that it has, without faults.
func (n *node) pushAll() {
	for range 3 {
		n.PushDue(clock.Never - 1)
		n.land()
	}
	n.giveBack()
}

func limited(t *testing.T, count int64, a weir.Algorithm, change ...func(*weir.Limit)) *weir.Limit {
	t.Helper()
	l := &weir.Limit{Name: "limit", Algorithm: a, Count: count, Period: time.Minute}
	l.Consistency.MaxOvershoot = count / 10
	for _, f := range change {
		f(l)
	}
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

func (n *node) entry(d *Decider) (*lot.Entry, *tally) {
	tag := n.Table.TagForKey("k", d.limit)
	e := n.Table.ShardOfTag(tag).GetEntry(tag, "k")
	return e, d.tallyOf(e)
}
