package permit

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
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/lot"
	"github.com/weirlimit/weir/store/memory"
)

const epoch = 1_699_999_200_000_000

var errLost = errors.New("no answer")

// A world is some nodes and their store, by a true time. Flights are coroutines: they
// stop before the store is reached, and before its answer is, until they are resumed.
type world struct {
	*testing.T
	true   int64        // microseconds
	served atomic.Int64 // the store's time, which its sweeper reads too
	store  *memory.Store
	nodes  []*node
	flying []*flight
	turn   *flight // that is resumed
	late   []weir.Op
	leases map[int64]lease // that the store counts, by name
	calls  int
	failed bool // the last call has no answer
}

// A lease is what the store counts under a name, until when.
type lease struct{ units, until int64 }

type flight struct {
	next  func() (struct{}, bool)
	yield func(struct{}) bool
	// loseCall and loseAnswer are faults.
	loseCall, loseAnswer bool
	until                int64 // it stands still
	node                 *node
}

type node struct {
	*Env
	*world
	drift   int64 // ppm
	slept   int64
	ahead   int64 // the wall clock was set forward
	cutOff  int64 // until when the store is out of reach
	closing bool
}

func newWorld(t *testing.T, nodes int) *world {
	w := &world{T: t, true: 1000, leases: map[int64]lease{}}
	w.store = memory.New(memory.Options{MaxBytes: 1 << 20, Now: w.served.Load})
	t.Cleanup(func() { w.store.Close() })
	for range nodes {
		w.nodes = append(w.nodes, w.newNode())
	}
	return w
}

func (w *world) newNode() *node {
	n := &node{world: w}
	returns := lot.NewReturns(1<<20, func() {})
	n.Env = &Env{
		Env: lot.Env{
			Clock: clock.New(func() clock.Node { return clock.Node((w.true - n.slept) + (w.true-n.slept)*n.drift/1_000_000) },
				func() clock.Store { return clock.Store(epoch + w.true + n.ahead) }),
			Table: lot.NewTable(8<<20, returns), Refusals: lot.NewRefusals(1<<16, 1_000_000), Returns: returns,
			Nodes: func() int64 { return int64(len(w.nodes)) }, Go: n.start, Fetch: n.call, Rand: rand.Uint64,
		},
	}
	return n
}

func (n *node) start(f func()) bool {
	if n.closing {
		return false
	}
	x := &flight{node: n}
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
	w.served.Store(epoch + w.true)
	if err := w.store.Take(context.Background(), ops); err != nil {
		w.Fatal(err)
	}
	for _, o := range ops {
		switch {
		case o.Verb == weir.Refund:
			delete(w.leases, o.ID)
		case o.Charged:
			w.leases[o.ID] = lease{o.Cost, max(w.true+micros.Of(o.Limit.Period), w.leases[o.ID].until)}
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

// giveBack sends what waits to be returned. With r it may be lost, carried out without an
// answer, and carried out late.
func (n *node) giveBack(r *rand.Rand) {
	n.Returns.Resume()
	for some := n.Returns.TakeDue(0, 0); some != nil; some = n.Returns.TakeDue(0, 0) {
		for i := range some {
			fate := 0
			if r != nil {
				fate = r.IntN(12)
			}
			end := lot.Unknown
			switch fate {
			default:
				n.take([]weir.Op{some[i].BuildOp()})
				end = lot.Accepted
			case 1:
				n.take([]weir.Op{some[i].BuildOp()})
			case 2:
				n.late = append(n.late, some[i].BuildOp())
			case 3:
			}
			n.Returns.FinishCall(some[i:i+1], n.Clock.Now(), end)
		}
	}
}

// sweep gives back what is idle after a while.
func (n *node) sweep(after time.Duration) {
	n.true += after.Microseconds()
	n.Table.SweepIdle(n.Clock.Now())
	n.giveBack(nil)
}

func (n *node) decider(l *weir.Limit) *Decider {
	n.Helper()
	terms, err := NewTerms(l)
	if err != nil || terms == nil {
		n.Fatalf("no terms: %v", err)
	}
	return &Decider{n.Env, terms}
}

func (n *node) draw(d *Decider, id, cost int64) (lot.Verdict, *lot.Flight, weir.Op) {
	o := weir.Op{Key: "k", Limit: d.limit, Cost: cost, ID: id}
	v, f := d.Draw(context.Background(), n.Clock.Now(), &o, nil)
	return v, f, o
}

// acquire decides as the phases of a decision do: it waits for flights, and asks the store
// where it is to.
func (n *node) acquire(d *Decider, id, cost int64) bool {
	for {
		switch v, _, o := n.draw(d, id, cost); v {
		case lot.Charged:
			return true
		case lot.Refused:
			return false
		case lot.Wait:
			n.land()
			if n.failed {
				return false
			}
		default:
			sent := n.Clock.Now()
			ops := []weir.Op{o}
			n.take(ops)
			d.Learn(&ops[0], sent)
			return ops[0].Charged
		}
	}
}

// release releases a permit, and reports whether it was the node's.
func (n *node) release(d *Decider, id int64) bool {
	o := weir.Op{Key: "k", Limit: d.limit, Cost: 1, ID: id, Role: weir.Always, Verb: weir.Refund}
	if d.Refund(n.Clock.Now(), &o) {
		return true
	}
	n.take([]weir.Op{o})
	return false
}

// entry returns the entry of the key, nil if there is none.
func (n *node) entry(l *weir.Limit) *lot.Entry {
	tag := n.Table.TagForKey("k", l)
	return n.Table.ShardOfTag(tag).GetEntry(tag, "k")
}

// lots returns the lots of the key.
func (n *node) lots(d *Decider) []lot.Lot {
	if e := n.entry(d.limit); e != nil {
		return e.Lots()
	}
	return nil
}

func limited(t *testing.T, count int64, period time.Duration) *weir.Limit {
	t.Helper()
	l := &weir.Limit{Name: "limit", Algorithm: algorithm.Concurrency, Count: count, Period: period}
	l.Consistency.Mode = params.ConsistencyLeased
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return l
}

// left is how many permits the store has.
func (w *world) left(l *weir.Limit) int64 {
	ops := []weir.Op{{Key: "k", Limit: l, Cost: 1, Verb: weir.Peek}}
	w.take(ops)
	return ops[0].Decision.Remaining
}

func (n *node) held() int64 {
	_, units, _ := n.Table.CountHeld()
	return units
}
