package tier_test

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
	"github.com/weirlimit/weir/store/tier"
)

// A node's share of a limit is handed out once while a part of the store is away,
// however long that takes: what the node knew to be gone stays gone.
func TestShareIsHandedOutOnce(t *testing.T) {
	for _, known := range []int64{0, 60, 90} {
		virtual(t, fmt.Sprint("known ", known), func(t *testing.T) {
			f := newFleet(t, 1, tier.Options{})
			s, l := f.nodes[0], rare(t, 100, algorithm.FixedWindow, weir.ConsistencyStrict)
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

// A share is handed out once, whatever else the node does while somebody is admitted
// by it: pays what is owed, gives the share back, and begins it for many callers at
// once. Nobody asks while a part of the store goes away, so that the node knows all that
// is gone.
func TestFamilyShareIsHandedOutOnce(t *testing.T) {
	for seed := range drawn(t, fewer(40, 20), 2000) {
		virtual(t, fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 31))
			shared := newFaulty(t, nil)
			own := newFaulty(t, nil)
			s, err := tier.New(shared, tier.Options{Local: &paused{Store: own.Store, seed: seed}, Nodes: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			l := rare(t, 100, algorithm.FixedWindow, weir.ConsistencyStrict)
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
			// What was given back by a call that failed is stranded: nobody knows whether
			// the store has it.
			st := s.Stats()
			if left := f.left("gone", l); left != 100-spent.Load()-int64(st.Stranded) || st.DebtLost > 0 {
				t.Errorf("%d are left after %d of 100: %+v", left, spent.Load(), st)
			}
		})
	}
}

// Units that are given back while the store is away are not lost: those that were
// admitted without it are not owed, the others it gets when it is back.
func TestRefundsWhileTheStoreIsAway(t *testing.T) {
	for _, p := range []weir.StoreErrorPolicy{weir.OnErrorLocal, weir.OnErrorDeny, weir.OnErrorAllow} {
		virtual(t, p.String(), func(t *testing.T) {
			f := newFleet(t, 1, tier.Options{})
			s := f.nodes[0]
			l := compiled(t, weir.PerHour(1000, algorithm.FixedWindow), onError(p))
			before := hold(t, s, "before", "k", 100, l)
			f.shared.set(down)
			for !s.Stats().Away {
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

// Outages of all sorts, one after the other, of parts and of all of the store, with
// units spent and given back meanwhile: no more is admitted than the limit and one
// share in each, and when all is quiet the store has counted what was admitted, and
// what the nodes say that they could not tell.
func TestFamilyOutages(t *testing.T) {
	for seed := range drawn(t, 12, 400) {
		virtual(t, fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 19))
			f := newFleet(t, 1+r.IntN(3), tier.Options{})
			f.shared.delay.Store(int64(time.Millisecond) * r.Int64N(3))
			m := []weir.ConsistencyMode{weir.ConsistencyStrict, weir.ConsistencyLeased, weir.ConsistencyEventual}[r.IntN(3)]
			l := rare(t, 2000, []weir.Algorithm{algorithm.FixedWindow, algorithm.TokenBucket}[r.IntN(2)], m)
			// Answers that are lost cost units, and debts.
			sorts := []fault{down, partly, none, down, partly, tenth, lost, stall}
			if r.IntN(2) == 0 {
				sorts = sorts[:5]
			}
			spent, outages, unheard := int64(0), int64(0), false
			var open []weir.Op
			for range 60 {
				x := sorts[r.IntN(len(sorts))]
				if x != none {
					outages++
				}
				unheard = unheard || x == lost || x == stall
				f.shared.set(x)
				for range 1 + r.IntN(30) {
					s := f.nodes[r.IntN(len(f.nodes))]
					if r.IntN(3) == 0 && len(open) > 0 {
						i := r.IntN(len(open))
						if err := s.Take(context.Background(), []weir.Op{open[i].Undo(open[i].Cost)}); err != nil {
							t.Fatal(err)
						}
						spent -= open[i].Cost
						open = append(open[:i], open[i+1:]...)
						continue
					}
					ops := []weir.Op{{Key: "gone", Limit: l, Cost: 1 + r.Int64N(5)}}
					if err := s.Take(context.Background(), ops); err != nil {
						t.Fatal(err)
					}
					if ops[0].Charged {
						spent += ops[0].Cost
						open = append(open, ops[0])
					}
				}
				time.Sleep(time.Duration(r.Int64N(int64(1500 * time.Millisecond))))
			}
			f.shared.set(none)
			time.Sleep(3 * time.Second)
			var lost, stranded int64
			for _, s := range f.nodes {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				st := s.Stats()
				lost, stranded = lost+int64(st.DebtLost), stranded+int64(st.Stranded)
				if st.Debts != 0 {
					t.Errorf("debts: %+v", st)
				}
			}
			counted := l.Burst - f.left("gone", l)
			t.Logf("%s: %d admitted and not given back, %d counted, %d debts lost, %d outages", l.Name, spent, counted, lost, outages)
			if spent < l.Burst && counted < spent-lost {
				t.Errorf("%s: %d admitted and not given back, %d counted, %d debts lost", l.Name, spent, counted, lost)
			}
			// (What the store is given back before it was told of the debt can be lost.)
			if !unheard && counted > spent+stranded+30 {
				t.Errorf("%s: %d admitted and not given back, %d counted, %d stranded", l.Name, spent, counted, stranded)
			}
		})
	}
}
