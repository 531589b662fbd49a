package sharedtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
)

// paused is a node's own store that answers late, as on a machine whose processors are
// taken, so that what the node does in the background comes between.
type paused struct {
	weir.Store
	seed uint64
	n    atomic.Uint64
}

func (p *paused) Take(ctx context.Context, ops []weir.Op) error {
	p.wait(ops)
	defer p.wait(ops)
	return p.Store.Take(ctx, ops)
}

func (p *paused) wait(ops []weir.Op) {
	r := rand.New(rand.NewPCG(p.seed, p.n.Add(1)))
	switch {
	case ops[0].Verb == weir.Force: // under a lock, which holds up time
		for range 100 {
			runtime.Gosched()
		}
	case r.IntN(3) == 0:
		time.Sleep(time.Duration(r.Int64N(int64(600 * time.Millisecond))))
	}
}

// noughts is a store that counts the incurred costs of nothing.
type noughts struct {
	*faulty
	seen atomic.Int64
}

func (n *noughts) Take(ctx context.Context, ops []weir.Op) error {
	for i := range ops {
		if ops[i].Verb == weir.Force && ops[i].Cost == 0 {
			n.seen.Add(1)
		}
	}
	return n.faulty.Take(ctx, ops)
}

// between is a node's own store that has something done when it was looked at.
type between struct {
	weir.Store
	then atomic.Pointer[func()]
}

func (b *between) Take(ctx context.Context, ops []weir.Op) error {
	err := b.Store.Take(ctx, ops)
	if ops[0].Verb == weir.Peek {
		if then := b.then.Swap(nil); then != nil {
			(*then)()
		}
	}
	return err
}

// A node's share of a limit is admitted once while a shard of the store is out,
// however long that takes: what the node knew to be gone stays gone.
func testShareOnce(t *testing.T, newNode New) {
	for _, known := range []int64{0, 60, 90} {
		virtual(t, fmt.Sprint("known ", known), func(t *testing.T) {
			f := newFleet(t, newNode, 1, Options{})
			s, l := f.nodes[0], rare(t, 100, algorithm.FixedWindow, params.ConsistencyStrict)
			for range known {
				f.take(s, "gone", l, 1)
			}
			passed := known
			for range 5 {
				f.shared.set(partly)
				for range 10 {
					for range 100 {
						if f.take(s, "gone", l, 1).Allowed() {
							passed++
						}
					}
					time.Sleep(400 * time.Millisecond)
				}
				if passed != 100 {
					t.Fatalf("%d passed of 100", passed)
				}
				f.shared.set(none)
				time.Sleep(2 * time.Second)
				if d := f.take(s, "gone", l, 1); d.Allowed() || d.Guarantee().Degraded {
					t.Fatalf("when all of it was back: %+v", d)
				}
			}
			if left := f.left("gone", l); left != 0 {
				t.Errorf("%d are left after %d passed", left, passed)
			}
		})
	}
}

// A share is handed out once, whatever else the node does while somebody is admitted
// by it: pays what is owed, gives the share back, and begins it for many callers at
// once. No request comes while a shard goes out, so that the node knows all that
// is gone.
func testShareRaces(t *testing.T, newNode New) {
	for seed := range drawn(t, fewer(40, 20), 2000) {
		virtual(t, fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 31))
			shared := newFaulty(t, nil)
			own := newFaulty(t, nil)
			s, err := newNode(shared, Options{Local: &paused{Store: own.Store, seed: seed}, Nodes: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			l := rare(t, 100, algorithm.FixedWindow, params.ConsistencyStrict)
			var spent atomic.Int64
			take := func() {
				if d, err := s.TakeOne(context.Background(), "gone", l, 1); err != nil {
					t.Error(err)
				} else if d.Allowed() {
					spent.Add(1)
				}
			}
			var open []weir.Op
			for step := range 60 {
				switch step % 20 {
				case 0:
					shared.set(none)
					time.Sleep(3 * time.Second) // what is owed is paid
				case 10:
					shared.set(partly)
				}
				switch r.IntN(4) {
				case 0:
					var all sync.WaitGroup
					for range 1 + r.IntN(30) {
						all.Go(take)
					}
					all.Wait()
				case 1:
					if len(open) > 0 {
						o := open[len(open)-1]
						open = open[:len(open)-1]
						if err := s.Take(context.Background(), []weir.Op{o.Undo(o.Cost)}); err != nil {
							t.Error(err)
						}
						spent.Add(-o.Cost)
					}
				default:
					for range r.IntN(20) {
						ops := []weir.Op{{Key: "gone", Limit: l, Cost: 1}}
						if err := s.Take(context.Background(), ops); err != nil {
							t.Error(err)
						} else if ops[0].Charged {
							spent.Add(1)
							open = append(open, ops[0])
						}
					}
				}
				if n := spent.Load(); n > 100 {
					t.Fatalf("%d units of 100 are out", n)
				}
				time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
			}
			shared.set(none)
			time.Sleep(3 * time.Second)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			f := &fleet{T: t, shared: shared}
			// What was returned by a call that failed is stranded: it is unknown whether
			// the store has it.
			st := s.Stats()
			if left := f.left("gone", l); left != 100-spent.Load()-int64(st.Stranded) || st.DebtLost > 0 {
				t.Errorf("%d are left after %d of 100: %+v", left, spent.Load(), st)
			}
		})
	}
}

// Somebody is admitted by the share while what it owes is looked at, and it owed
// nothing more: the store is paid what was admitted, and no cost of nothing.
func testEmptyDebt(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		shared := &noughts{faulty: newFaulty(t, nil)}
		own := &between{Store: memory.New(memory.Options{MaxBytes: 1 << 20})}
		s, err := newNode(shared, Options{Local: own, Nodes: 1})
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, s, own)
		l := compiled(t, &weir.Limit{Count: 100, Period: 2 * time.Second, Algorithm: algorithm.FixedWindow}, strict)
		take := func(cost int64) {
			if d, err := s.TakeOne(context.Background(), "gone", l, cost); err != nil || !d.Allowed() {
				t.Errorf("%+v, %v", d, err)
			}
		}
		shared.set(partly)
		take(30)
		// The window is over: nothing is owed of it.
		time.Sleep(2 * time.Second)
		again := func() { take(7) }
		own.then.Store(&again)
		time.Sleep(time.Second)
		shared.set(none)
		time.Sleep(800 * time.Millisecond)
		if own.then.Load() != nil {
			t.Fatal("the share was not looked at: nothing was tested")
		}
		if n := shared.seen.Load(); n != 0 {
			t.Errorf("the store was told %d times of a cost of nothing", n)
		}
	})
}

// Units that are refunded in an outage are not lost: those that were
// admitted without it are not owed, the others it gets when it is back.
func testOutageRefunds(t *testing.T, newNode New) {
	for _, p := range []params.StoreErrorPolicy{params.OnErrorLocal, params.OnErrorDeny, params.OnErrorAllow} {
		virtual(t, p.String(), func(t *testing.T) {
			f := newFleet(t, newNode, 1, Options{})
			s := f.nodes[0]
			l := compiled(t, weir.PerHour(1000, algorithm.FixedWindow), onError(p))
			before := hold(t, s, "before", "k", 100, l)
			f.shared.set(down)
			for !s.Stats().BreakerOpen {
				f.take(s, "other", l, 1)
			}
			during := hold(t, s, "during", "k", 50, l)
			for _, h := range []*held{before, during} {
				if h == nil {
					continue
				}
				if err := s.Take(context.Background(), h.back); err != nil {
					t.Fatal(err)
				}
			}
			f.shared.set(none)
			time.Sleep(2 * time.Second)
			if left := f.left("k", l); left != 1000 {
				t.Errorf("%d are left of 1000 after all was given back", left)
			}
		})
	}
}
