package sharedtest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
)

// slowReturns is a store that takes long for returns, and answers.
type slowReturns struct{ weir.Store }

func (s slowReturns) Take(ctx context.Context, ops []weir.Op) error {
	if ops[0].Verb == weir.Refund || ops[0].Verb == weir.Force {
		time.Sleep(300 * time.Millisecond)
	}
	return s.Store.Take(ctx, ops)
}

// What could not be returned before it would have flowed back anyway stays spent:
// returned to a bucket that has been full since, it would be there twice.
func testLateReturns(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 2, Options{})
		l := compiled(t, &weir.Limit{Algorithm: algorithm.TokenBucket, Count: 400, Period: 40 * time.Second}, leased)
		w := newLoad(f, l)
		for range 75 {
			w.ask(f.nodes[0])
		}
		if f.nodes[0].Stats().LeaseUnits <= l.Inflow() {
			t.Fatal("no more is held than is kept back from the burst")
		}
		f.shared.set(down)
		other := compiled(t, weir.PerHour(100, algorithm.SlidingWindow), strict)
		for range 5 {
			f.take(f.nodes[0], "other", other, 1)
		}
		if !f.nodes[0].Stats().BreakerOpen {
			t.Fatal("the store is not away")
		}
		time.Sleep(100 * time.Second)
		f.shared.set(none)
		for f.nodes[1].Stats().BreakerOpen {
			time.Sleep(time.Millisecond) // what it admits alone is not in question
		}
		for range 30 {
			for range 500 {
				w.ask(f.nodes[1])
			}
			time.Sleep(50 * time.Millisecond)
		}
		if w.over.Load() != 0 {
			t.Errorf("%d too many: %s", w.over.Load(), w)
		}
		if st := f.nodes[0].Stats(); st.BreakerOpen || st.LeaseUnits != 0 || st.Returned != 0 {
			t.Errorf("what came too late was given back: %+v", st)
		}
	})
}

// Units that are refunded after they stopped to count are not there again, however
// they were spent: of a bucket that has been full since, of a window that is over.
func testLateRefunds(t *testing.T, newNode New) {
	for _, a := range lenders() {
		for _, m := range []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual} {
			virtual(t, a.Name()+" "+m.String(), func(t *testing.T) {
				f := newFleet(t, newNode, 1, Options{})
				l := compiled(t, &weir.Limit{Algorithm: a, Count: 400, Period: 40 * time.Second}, func(l *weir.Limit) {
					l.Consistency.Mode, l.Consistency.MaxOvershoot = m, 20
				})
				aligned(40 * time.Second)
				s := f.nodes[0]
				take := func() weir.Op {
					ops := []weir.Op{{Key: "k", Limit: l, Cost: 1}}
					if err := s.Take(context.Background(), ops); err != nil {
						t.Fatal(err)
					}
					return ops[0]
				}
				var spent []weir.Op
				for range 100 {
					if o := take(); o.Charged {
						spent = append(spent, o)
					}
					time.Sleep(time.Millisecond)
				}
				// All of it has stopped to count, whatever the algorithm.
				time.Sleep(2 * time.Minute)
				w := newLoad(f, l)
				if m == params.ConsistencyEventual {
					w.allow(20)
				}
				exhaust := func() {
					for range 1000 {
						w.ask(s)
					}
				}
				// Half of them while the node holds some, half when all is spent.
				for i := range spent {
					if i < len(spent)/2 {
						w.ask(s)
					}
					if i == len(spent)/2 {
						exhaust()
					}
					if err := s.Take(context.Background(), []weir.Op{spent[i].Undo(1)}); err != nil {
						t.Fatal(err)
					}
				}
				exhaust()
				time.Sleep(time.Second)
				exhaust()
				if w.over.Load() != 0 || len(spent) < 90 {
					t.Errorf("%d too many after %d late refunds: %s", w.over.Load(), len(spent), w)
				}
			})
		}
	}
}

// What no decision waits for may take longer than the budget: the store is not late by
// it, and nothing is lost.
func testSlowReturns(t *testing.T, newNode New) {
	for _, prompt := range []bool{false, true} {
		virtual(t, fmt.Sprint("prompt ", prompt), func(t *testing.T) {
			f := newFleet(t, newNode, 1, Options{Prompt: prompt})
			f.shared.Store = slowReturns{f.shared.Store}
			l := compiled(t, weir.PerDay(1000, algorithm.FixedWindow), leased)
			l.Consistency.LeaseTTL = 50 * time.Millisecond
			for range 20 {
				for n := range 200 {
					f.take(f.nodes[0], fmt.Sprint("k", n%40), l, 1)
				}
				time.Sleep(time.Second)
				if st := f.nodes[0].Stats(); st.BreakerOpen || st.Failed != 0 || st.Stranded != 0 || st.Degraded != 0 {
					t.Fatalf("%+v", st)
				}
			}
			if st := f.nodes[0].Stats(); st.Returned == 0 {
				t.Errorf("nothing was given back: %+v", st)
			}
		})
	}
}

// Returns that wait are bounded with their keys.
func testReturnsBound(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 1, Options{MaxBytes: minBytes})
		s, l := f.nodes[0], rare(t, 1000, algorithm.FixedWindow, params.ConsistencyStrict)
		f.shared.set(down)
		for n := 0; !s.Stats().BreakerOpen; n++ {
			f.take(s, fmt.Sprint(n), l, 1)
		}
		bytes := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before, long := bytes(), strings.Repeat("k", 8<<10)
		for n := range 3000 {
			o := weir.Op{Key: fmt.Sprint(n, long), Limit: l, Cost: 1, ID: time.Now().Add(time.Hour).UnixMicro(), Role: weir.Always, Verb: weir.Refund}
			if err := s.Take(context.Background(), []weir.Op{o}); err != nil {
				t.Fatal(err)
			}
		}
		// (The node's own store has the keys of its shares as numbers.)
		if n, st := bytes()-before, s.Stats(); n > 2*minBytes || st.Stranded == 0 {
			t.Errorf("%d bytes wait to be given back, of %d; %d units were stranded", n, minBytes, st.Stranded)
		}
	})
}
