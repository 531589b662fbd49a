package sharedtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/memory"
)

// twin is a node with remembered refusals and one without, each on a store of its
// own, at the same time.
type twin struct {
	*testing.T
	clock         atomic.Int64
	with, without *fleet
}

func newTwin(t *testing.T, newNode New) *twin {
	w := &twin{T: t}
	w.clock.Store(1_773_500_966_535_897)
	opt := Options{Now: w.clock.Load, Timeout: 10 * time.Second}
	w.with = newFleet(t, newNode, 1, opt)
	opt.RefusalLife = -1
	w.without = newFleet(t, newNode, 1, opt)
	return w
}

// both spends on both nodes.
func (w *twin) both(key string, l *weir.Limit, cost int64) (with, without weir.Decision) {
	return w.with.take(w.with.nodes[0], key, l, cost), w.without.take(w.without.nodes[0], key, l, cost)
}

// other spends as a third node would, straight on both stores.
func (w *twin) other(key string, l *weir.Limit, cost int64) {
	for _, s := range []*faulty{w.with.shared, w.without.shared} {
		if _, err := s.Store.TakeOne(context.Background(), key, l, cost); err != nil {
			w.Fatal(err)
		}
	}
}

// However many goroutines on however many nodes spend at once, exactly the limit
// is admitted.
func testStrictCount(t *testing.T, newNode New) {
	for _, a := range lasting {
		for _, nodes := range []int{1, 4} {
			f := newFleet(t, newNode, nodes, Options{Timeout: 10 * time.Second, Prompt: nodes > 1})
			l := compiled(t, &weir.Limit{Algorithm: a, Count: 200, Period: 1000 * time.Hour}, strict)
			var passed atomic.Int64
			var wg sync.WaitGroup
			for g := range 64 {
				wg.Go(func() {
					for range 20 {
						if f.take(f.nodes[g%nodes], "k", l, 1).Allowed() {
							passed.Add(1)
						}
					}
				})
			}
			wg.Wait()
			if n := passed.Load(); n != 200 {
				t.Errorf("%s on %d nodes admitted %d of 200", a.Name(), nodes, n)
			}
		}
	}
}

// With refusals remembered and without, the same requests get the same answers:
// which pass, and when the refused may come back. Others spend at the same time.
func testRememberedRefusals(t *testing.T, newNode New) {
	for _, a := range lasting {
		for _, alone := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s alone %v", a.Name(), alone), func(t *testing.T) {
				w := newTwin(t, newNode)
				r := rand.New(rand.NewPCG(7, 7))
				ls := []*weir.Limit{
					compiled(t, weir.PerSecond(7, a), strict), compiled(t, weir.PerMinute(100, a), strict),
					compiled(t, &weir.Limit{Algorithm: a, Count: 7919, Period: 7 * time.Second, Burst: 20}, strict),
				}
				for n := range 1500 {
					l, key, cost := ls[r.IntN(len(ls))], fmt.Sprint(r.IntN(2)), []int64{1, 1, 1, 1, 2, 5}[r.IntN(6)]
					if !alone && r.IntN(4) == 0 {
						w.other(key, l, cost)
					}
					with, without := w.both(key, l, cost)
					if with.Allowed() != without.Allowed() || with.Remaining > without.Remaining && alone ||
						alone && (with.RetryAfter != without.RetryAfter || with.ResetAfter != without.ResetAfter) ||
						with.RetryAfter > without.RetryAfter && without.RetryAfter >= 0 {
						t.Fatalf("question %d: cost %d of %q: remembering %+v, asking %+v", n, cost, l.Name, with, without)
					}
					w.clock.Add([]int64{0, 0, 0, 0, 1, 997, 13_000, 140_000}[r.IntN(8)])
				}
				saved := w.without.shared.calls.Load() - w.with.shared.calls.Load()
				if saved < 75 {
					t.Errorf("only %d calls were saved: the test tests nothing", saved)
				}
			})
		}
	}
}

// A refused hot key costs one call of the store, until its refusal ends.
func testRefusedKeyCalls(t *testing.T, newNode New) {
	w := newTwin(t, newNode)
	f := w.with
	l := compiled(t, weir.PerMinute(3, algorithm.SlidingWindow), strict)
	for range 4 {
		f.take(f.nodes[0], "k", l, 1)
	}
	before := f.shared.calls.Load()
	for range 1000 {
		d := f.take(f.nodes[0], "k", l, 1)
		if d.Allowed() || d.Guarantee().Source != weir.FromCache || !d.Guarantee().Exact {
			t.Fatalf("%+v, %s", d, d.Guarantee())
		}
	}
	if n := f.shared.calls.Load() - before; n != 0 {
		t.Errorf("%d calls for refused requests", n)
	}
	// Not longer than a second: another node may have given units back.
	w.clock.Add(time.Second.Microseconds())
	f.take(f.nodes[0], "k", l, 1)
	if n := f.shared.calls.Load() - before; n != 1 {
		t.Errorf("%d calls after a second, want 1", n)
	}
}

// What is refunded on the node can be spent at once.
func testRefundEndsRefusal(t *testing.T, newNode New) {
	w := newTwin(t, newNode)
	f, s := w.with, w.with.nodes[0]
	l := compiled(t, weir.PerMinute(2, algorithm.FixedWindow), strict)
	ops := []weir.Op{{Key: "k", Limit: l, Cost: 2}}
	if err := s.Take(context.Background(), ops); err != nil {
		t.Fatal(err)
	}
	if f.take(s, "k", l, 1).Allowed() {
		t.Fatal("three of two passed")
	}
	if err := s.Take(context.Background(), []weir.Op{ops[0].Undo(2)}); err != nil {
		t.Fatal(err)
	}
	if !f.take(s, "k", l, 1).Allowed() {
		t.Error("refused after a refund")
	}
}

// A limit that was raised is asked anew at once.
func testReloadEndsRefusal(t *testing.T, newNode New) {
	w := newTwin(t, newNode)
	f, s := w.with, w.with.nodes[0]
	named := func(n int64) *weir.Limit {
		return compiled(t, weir.PerMinute(n, algorithm.FixedWindow), func(l *weir.Limit) { l.Name = "reloaded"; strict(l) })
	}
	old, raised := named(1), named(2)
	f.take(s, "k", old, 1)
	if f.take(s, "k", old, 1).Allowed() || !f.take(s, "k", raised, 1).Allowed() {
		t.Error("the count that is in the rules does not hold")
	}
}

// Spends of one key that come together are sent together, and each gets the
// answer that it would have got alone, in the order in which they came.
func testCoalescedSpends(t *testing.T, newNode New) {
	for _, a := range append(lasting, algorithm.LeakyQueue) {
		for _, prompt := range []bool{false, true} {
			virtual(t, fmt.Sprintf("%s, prompt %v", a.Name(), prompt), func(t *testing.T) { combined(t, newNode, a, prompt) })
		}
	}
}

func combined(t *testing.T, newNode New, a weir.Algorithm, prompt bool) {
	f := newFleet(t, newNode, 1, Options{RefusalLife: -1, Timeout: time.Second, Prompt: prompt})
	model := memory.New(memory.Options{MaxBytes: 1 << 20})
	defer model.Close()
	l := compiled(t, weir.PerMinute(40, a), strict)
	r := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		gate := make(chan struct{})
		f.shared.gate.Store(&gate)
		before := f.shared.calls.Load()
		costs := make([]int64, 1+r.IntN(40))
		got := make([]weir.Decision, len(costs))
		var wg sync.WaitGroup
		for i := range costs {
			costs[i] = 1 + r.Int64N(1+r.Int64N(3))
			wg.Go(func() { got[i] = f.take(f.nodes[0], "k", l, costs[i]) })
			synctest.Wait() // it has been sent, or waits behind those before it
		}
		close(gate)
		wg.Wait()
		runs := int64(2)
		for i, cost := range costs {
			if i > 1 && cost != costs[i-1] {
				runs++
			}
			want, err := model.TakeOne(context.Background(), "k", l, cost)
			if err != nil {
				t.Fatal(err)
			}
			if got[i] != want {
				t.Fatalf("spend %d of %v: got %+v, want %+v", i, costs, got[i], want)
			}
		}
		if calls := f.shared.calls.Load() - before; calls > runs {
			t.Errorf("%d calls for %v, at most %d", calls, costs, runs)
		}
		time.Sleep(time.Duration(r.Int64N(int64(20 * time.Second))))
	}
}
