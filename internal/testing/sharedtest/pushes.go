package sharedtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
)

// repeating carries calls that force costs out again: at once, and once more
// after the next one.
type repeating struct {
	weir.Store
	before []weir.Op
	n      int
}

func (r *repeating) Take(ctx context.Context, ops []weir.Op) error {
	again := append([]weir.Op(nil), ops...)
	if err := r.Store.Take(ctx, ops); err != nil || ops[len(ops)-1].Verb != weir.Force {
		return err
	}
	r.n++
	if err := r.Store.Take(ctx, append([]weir.Op(nil), again...)); err != nil {
		return err
	}
	if r.before != nil {
		if err := r.Store.Take(ctx, append([]weir.Op(nil), r.before...)); err != nil {
			return err
		}
	}
	for i := range again {
		again[i].Key = string(append([]byte(nil), again[i].Key...))
	}
	r.before = again
	return nil
}

// A push that is made twice, or after a later one, is counted once.
func testRepeatedPushes(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 1, Options{})
		l := compiled(t, weir.PerHour(10_000, algorithm.SlidingWindow), eventual(1000))
		repeat := &repeating{Store: f.shared.Store}
		f.shared.Store = repeat
		spent := int64(0)
		for range 300 {
			for range 1 + spent%7 {
				if !f.take(f.nodes[0], "k", l, 1).Allowed() {
					t.Fatal("refused")
				}
				spent++
			}
			time.Sleep(time.Duration(50+spent%400) * time.Millisecond)
		}
		if err := f.nodes[0].Close(); err != nil {
			t.Fatal(err)
		}
		if left := f.left("k", l); left != 10_000-spent {
			t.Errorf("%d are left of 10000 of which %d were spent", left, spent)
		}
		if repeat.n < 100 {
			t.Errorf("only %d calls were repeated", repeat.n)
		}
	})
}

// What is refunded on the node while the push that tells of it has had no answer comes back all
// the same: the store counts it, and then no more.
func testRefundedPushes(t *testing.T, newNode New) {
	for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.TokenBucket, algorithm.SlidingSubwindows} {
		for _, failing := range []fault{down, lost} {
			virtual(t, fmt.Sprint(a.Name(), " ", failing), func(t *testing.T) {
				f := newFleet(t, newNode, 1, Options{})
				l := rare(t, 400, a, params.ConsistencyEventual)
				for n := range 20 {
					// Warm, so that the node decides, and the store knows of no more than this.
					warm := hold(t, f.nodes[0], "w", "k", 1, l)
					time.Sleep(time.Second)
					h := hold(t, f.nodes[0], "id", "k", int64(2+n%9), l)
					f.shared.set(failing)
					time.Sleep(time.Duration(n%5) * 80 * time.Millisecond)
					if err := f.nodes[0].Take(context.Background(), h.back); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Duration(n%3) * 60 * time.Millisecond)
					f.shared.set(none)
					time.Sleep(2 * time.Second)
					if err := f.nodes[0].Take(context.Background(), warm.back); err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * time.Second)
				}
				time.Sleep(time.Minute)
				if n, most := f.drain("k", l), l.Count+l.Consistency.MaxOvershoot; n < l.Count || n > most {
					t.Errorf("%d units were spent after, of %d", n, l.Count)
				}
			})
		}
	}
}

// A node that has gone takes its share of the overshoot with it until the next
// window; the others go on.
func testLostSlack(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 4, Options{})
		l := compiled(t, weir.PerMinute(1000, algorithm.FixedWindow), eventual(80))
		w := newLoad(f, l)
		for round := range 2 {
			before := w.admitted.Load()
			for _, s := range f.nodes {
				for range 15 {
					w.ask(s)
				}
			}
			gone := f.nodes[0]
			f.nodes = f.nodes[1:]
			for range 3000 {
				for _, s := range f.nodes {
					w.ask(s)
				}
			}
			if n := w.admitted.Load() - before; n > 1080 || n < 980 {
				t.Errorf("window %d: %d admitted of 1000 and 80: %s", round, n, w)
			}
			f.nodes = append([]Node{gone}, f.nodes...)
			aligned(time.Minute)
		}
	})
}

// Units that were refunded in one window are not spent in the next without
// being counted there.
func testCreditEnd(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 1, Options{})
		l := compiled(t, weir.PerMinute(1000, algorithm.FixedWindow), eventual(100))
		s := f.nodes[0]
		take := func(ops ...weir.Op) []weir.Op {
			if err := s.Take(context.Background(), ops); err != nil {
				t.Fatal(err)
			}
			return ops
		}
		time.Sleep(59500 * time.Millisecond)
		spent := take(weir.Op{Key: "k", Limit: l, Cost: 40})
		time.Sleep(300 * time.Millisecond) // it is pushed
		take(spent[0].Undo(40))
		time.Sleep(300 * time.Millisecond)
		for range 30 {
			take(weir.Op{Key: "k", Limit: l, Cost: 1})
		}
		time.Sleep(300 * time.Millisecond)
		if left := f.left("k", l); left != 970 {
			t.Errorf("%d are left of 1000 of which 30 were spent", left)
		}
	})
}

// What an eventual limit admitted and takes back, before it was pushed or after,
// can be spent again, and the store has it where it is not.
func testEventualRefunds(t *testing.T, newNode New) {
	for _, a := range lenders() {
		for _, reported := range []bool{false, true} {
			for _, again := range []bool{false, true} {
				virtual(t, fmt.Sprint(a.Name(), ", told ", reported, ", again ", again), func(t *testing.T) {
					f := newFleet(t, newNode, 1, Options{})
					l := compiled(t, weir.PerDay(1000, a), eventual(200))
					bucket := a == algorithm.TokenBucket || a == algorithm.LeakyBucket
					f.take(f.nodes[0], "k", l, 1)
					time.Sleep(time.Second) // it is known, and there is a share
					var undo []weir.Op
					for range 50 {
						ops := []weir.Op{{Key: "k", Limit: l, Cost: 1}}
						if err := f.nodes[0].Take(context.Background(), ops); err != nil || !ops[0].Charged {
							t.Fatal(err, ops[0].Decision)
						}
						undo = append(undo, ops[0].Undo(1))
					}
					if reported {
						time.Sleep(500 * time.Millisecond) // five intervals, and it is not idle
					}
					for _, o := range undo[1:] {
						if err := f.nodes[0].Take(context.Background(), []weir.Op{o}); err != nil {
							t.Fatal(err)
						}
					}
					want := int64(998)
					if again {
						for range 49 {
							f.take(f.nodes[0], "k", l, 1)
						}
						want -= 49
					}
					time.Sleep(5 * time.Second)
					if err := f.nodes[0].Close(); err != nil {
						t.Fatal(err)
					}
					// A credit of a bucket that is not used ends as its first unit has flowed
					// back.
					if n := f.left("k", l); n > want+1 || n < want-1 && (again || !bucket) {
						t.Errorf("%d remain of 1000, want %d", n, want)
					}
				})
			}
		}
	}
}
