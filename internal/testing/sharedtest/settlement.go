package sharedtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
)

// A held is units that were spent and may be refunded once: what a reservation is
// to a store.
type held struct {
	id   string
	back []weir.Op
}

// hold spends cost of key under each limit on a node. It returns nil if it is refused.
func hold(t testing.TB, s weir.Store, id, key string, cost int64, ls ...*weir.Limit) *held {
	t.Helper()
	ops := make([]weir.Op, len(ls))
	for i, l := range ls {
		ops[i] = weir.Op{Key: key, Limit: l, Cost: cost, ID: int64(len(id)) + 1}
		if l.Traits()&weir.Leases != 0 {
			ops[i].ID = rand.Int64()>>1 | 1
		}
	}
	if err := s.Take(context.Background(), ops); err != nil {
		t.Fatal(err)
	}
	if !weir.Fold(ops).Allowed() {
		return nil
	}
	h := &held{id: id}
	for i := range ops {
		if ops[i].Charged {
			h.back = append(h.back, ops[i].Undo(cost))
		}
	}
	return h
}

// settle gives h back on a node, and reports whether it was this call that did.
func (h *held) settle(ctx context.Context, s weir.Store, mark *weir.Limit) (bool, error) {
	ops := append([]weir.Op{{Key: h.id, Limit: mark, Cost: 1}}, h.back...)
	if err := s.Take(ctx, ops); err != nil {
		return false, err
	}
	return weir.Fold(ops).Allowed(), nil
}

// What is held is refunded once, however many try at once, and on whatever node.
func testSettlementOnce(t *testing.T, newNode New) {
	for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.TokenBucket} {
		for _, m := range countedAs {
			virtual(t, fmt.Sprint(a.Name(), " ", m), func(t *testing.T) {
				f := newFleet(t, newNode, 2, Options{})
				mark, l := settled(t), rare(t, 1000, a, m)
				nodes := f.nodes
				if m == params.ConsistencyLocal {
					nodes = nodes[:1] // what was spent elsewhere is not known
				}
				h := hold(t, nodes[0], "id", "k", 50, l)
				var won, tries atomic.Int64
				var wg sync.WaitGroup
				for i := range 10 {
					wg.Go(func() {
						tries.Add(1)
						if ok, err := h.settle(context.Background(), nodes[i%len(nodes)], mark); err != nil {
							t.Error(err)
						} else if ok {
							won.Add(1)
						}
					})
				}
				wg.Wait()
				f.nodes = nodes
				n, most := f.drain("k", l), l.Count+l.Consistency.MaxOvershoot
				if won.Load() != 1 || n > most || n < l.Count*9/10 {
					t.Errorf("given back %d times; %d units were spent after, of %d", won.Load(), n, l.Count)
				}
			})
		}
	}
}

// What is held and refunded at once on the same node is counted nowhere afterwards: a limit
// that nothing else was spent of can be spent whole, though the store had not heard of what
// was held when it was refunded, or is slow, or hears of more at the same time.
func testSettlementAtOnce(t *testing.T, newNode New) {
	for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.TokenBucket, algorithm.SlidingSubwindows} {
		for _, m := range countedAs {
			virtual(t, fmt.Sprint(a.Name(), " ", m), func(t *testing.T) {
				f := newFleet(t, newNode, 1, Options{})
				mark, l := settled(t), rare(t, 400, a, m)
				for n := range 40 {
					f.shared.delay.Store(int64(time.Millisecond) * int64(n%3))
					var wg sync.WaitGroup
					for of := range 1 + n%3 {
						h := hold(t, f.nodes[0], fmt.Sprint(n, "-", of), "k", int64(1+n%11), l)
						if h == nil {
							t.Fatalf("hold %d is refused", n)
						}
						wg.Go(func() {
							if ok, err := h.settle(context.Background(), f.nodes[0], mark); !ok || err != nil {
								t.Errorf("not given back: %v", err)
							}
						})
					}
					wg.Wait()
					time.Sleep(time.Duration(n%4) * 50 * time.Millisecond)
				}
				f.shared.delay.Store(0)
				time.Sleep(time.Minute) // what a bucket gained while its units were out flows in again: seconds of a unit
				if n, most := f.drain("k", l), l.Count+l.Consistency.MaxOvershoot; n < l.Count || n > most {
					t.Errorf("%d units were spent after, of %d", n, l.Count)
				}
			})
		}
	}
}

// While the store refuses the call that says that units were refunded, none are; the
// call that succeeds gives them back.
func testRetriedSettlement(t *testing.T, newNode New) {
	for _, m := range countedAs {
		virtual(t, m.String(), func(t *testing.T) {
			f := newFleet(t, newNode, 1, Options{})
			mark, l := settled(t), rare(t, 1000, algorithm.FixedWindow, m)
			h := hold(t, f.nodes[0], "id", "k", 35, l)
			f.shared.set(down)
			for range 4 {
				if ok, _ := h.settle(context.Background(), f.nodes[0], mark); ok {
					t.Error("given back without a mark")
				}
			}
			f.shared.set(none)
			time.Sleep(time.Second)
			if ok, err := h.settle(context.Background(), f.nodes[0], mark); !ok || err != nil {
				t.Errorf("not given back: %v", err)
			}
			if n, most := f.drain("k", l), l.Count+l.Consistency.MaxOvershoot; n > most || n < 1000 {
				t.Errorf("%d units were spent after, of %d", n, l.Count)
			}
		})
	}
}

// Of requests that are held and refunded at random, by several at once, with calls
// that are refused, late, or whose caller has gone, each is refunded once at most, and
// the limits hold of what was not.
func testRandomSettlements(t *testing.T, newNode New) {
	algorithms := []weir.Algorithm{algorithm.FixedWindow, algorithm.TokenBucket, algorithm.SlidingSubwindows}
	for seed := range drawn(t, 12, 400) {
		virtual(t, fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 13))
			// A store that loses answers ends no call by itself.
			faults := r.IntN(2) == 0
			f := newFleet(t, newNode, 1+r.IntN(3), Options{Prompt: !faults && r.IntN(2) == 0})
			f.shared.delay.Store(int64(time.Millisecond) * r.Int64N(3))
			mark := settled(t)
			// One to three limits of any mode, all of them met by each request.
			var ls []*weir.Limit
			for _, i := range r.Perm(4)[:1+r.IntN(3)] {
				if countedAs[i] == params.ConsistencyLocal && len(f.nodes) > 1 {
					continue
				}
				ls = append(ls, rare(t, 400, algorithms[r.IntN(3)], countedAs[i]))
			}
			if len(ls) == 0 {
				ls = append(ls, rare(t, 400, algorithm.FixedWindow, params.ConsistencyLeased))
			}
			spent := int64(0)
			var open []*held
			for n := range 300 {
				s := f.nodes[r.IntN(len(f.nodes))]
				switch x := r.IntN(10); {
				case x < 4:
					cost := 1 + r.Int64N(12)
					if h := hold(t, s, fmt.Sprint(n), "k", cost, ls...); h != nil {
						spent += cost
						open = append(open, h)
					}
				case x < 8 && len(open) > 0:
					i := r.IntN(len(open))
					h := open[i]
					if faults {
						f.shared.set([]fault{none, none, down, lost, tenth}[r.IntN(5)])
					}
					var won atomic.Int64
					var wg sync.WaitGroup
					for range 1 + r.IntN(4) {
						s, gone := f.nodes[r.IntN(len(f.nodes))], r.IntN(8) == 0
						wg.Go(func() {
							ctx, cancel := context.WithCancel(context.Background())
							defer cancel()
							if gone {
								time.AfterFunc(time.Millisecond/2, cancel)
							}
							if ok, _ := h.settle(ctx, s, mark); ok {
								won.Add(1)
							}
						})
					}
					wg.Wait()
					f.shared.set(none)
					if w := won.Load(); w > 1 {
						t.Errorf("given back %d times", w)
					}
				default:
					time.Sleep(time.Duration(r.Int64N(int64(1500 * time.Millisecond))))
				}
			}
			time.Sleep(3 * time.Second)
			for _, h := range open {
				// Whoever tried may not have heard that it was.
				if f.left(h.id, mark) == 0 {
					spent -= h.back[0].Cost
				}
			}
			for i, l := range ls {
				// What was admitted and not refunded, and all that can still be.
				n, most := spent+f.drain("k", l), l.Count+l.Consistency.MaxOvershoot
				if faults && l.Consistency.Mode != params.ConsistencyLocal {
					most += l.Count // by the share, while the store did not answer
				}
				if n > most {
					t.Errorf("limit %d, %s: %d admitted of %d", i, l.Name, n, most)
				}
				if !faults && n < l.Count-8 {
					t.Errorf("limit %d, %s: only %d admitted of %d", i, l.Name, n, l.Count)
				}
			}
		})
	}
}

// A request whose caller goes while a shadow is asked is charged nothing, wherever its
// other limits were charged.
func testShadowError(t *testing.T, newNode New) {
	for _, m := range countedAs {
		virtual(t, m.String(), func(t *testing.T) {
			f := newFleet(t, newNode, 1, Options{})
			l := rare(t, 1000, algorithm.FixedWindow, m)
			shadow := compiled(t, weir.PerHour(1000, algorithm.SlidingSubwindows), leased)
			strictly := rare(t, 1000, algorithm.SlidingSubwindows, params.ConsistencyStrict)
			// Warm, so that the shadow alone is waited for.
			f.take(f.nodes[0], "k", l, 1)
			time.Sleep(time.Second / 4)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			f.shared.delay.Store(int64(2 * time.Millisecond))
			time.AfterFunc(5*time.Millisecond, cancel)
			ops := []weir.Op{
				{Key: "k", Limit: l, Cost: 7}, {Key: "k", Limit: strictly, Cost: 7},
				{Key: "a", Limit: shadow, Cost: 1, Role: weir.Shadow}, {Key: "b", Limit: shadow, Cost: 1, Role: weir.Shadow},
				{Key: "c", Limit: shadow, Cost: 1, Role: weir.Shadow},
			}
			err := f.nodes[0].Take(ctx, ops)
			if err == nil {
				t.Fatal("the caller has not gone: the test tests nothing")
			}
			time.Sleep(3 * time.Second)
			for _, l := range []*weir.Limit{l, strictly} {
				spent := int64(0)
				if l.Consistency.Mode != params.ConsistencyStrict || m == params.ConsistencyStrict && l.Algorithm == algorithm.FixedWindow {
					spent = 1
				}
				if n := f.drain("k", l); n < 1000-spent || n > 1000+l.Consistency.MaxOvershoot-spent {
					t.Errorf("%s: %d of 1000 could be spent after %v", l.Name, n, err)
				}
			}
		})
	}
}

// What is undone is undone though the caller has gone, and though the lot that it was
// spent from has.
func testUndo(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 1, Options{})
		l := rare(t, 1000, algorithm.FixedWindow, params.ConsistencyLeased)
		other := rare(t, 1000, algorithm.SlidingSubwindows, params.ConsistencyStrict)
		for range 50 {
			ctx, cancel := context.WithCancel(context.Background())
			f.shared.delay.Store(int64(3 * time.Millisecond))
			time.AfterFunc(4*time.Millisecond, cancel)
			// The lease is asked first, and then the shared store.
			ops := []weir.Op{{Key: "k", Limit: l, Cost: 5}, {Key: "k", Limit: other, Cost: 1}}
			if err := f.nodes[0].Take(ctx, ops); err == nil && ops[0].Charged {
				undo := ops[0].Undo(5)
				time.Sleep(2 * time.Second)
				if err := f.nodes[0].Take(ctx, []weir.Op{undo}); err != nil {
					t.Fatal(err)
				}
			}
			cancel()
			time.Sleep(2 * time.Second)
		}
		f.shared.delay.Store(0)
		time.Sleep(3 * time.Second)
		if n := f.drain("k", l); n != 1000 {
			t.Errorf("%d of 1000 could be spent after all was undone", n)
		}
	})
}
