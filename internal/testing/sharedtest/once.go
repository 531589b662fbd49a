package sharedtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
)

// onceKeys is how many keys have a payment or a return of their own.
const onceKeys = 40

// What a node has admitted in an outage the store counts once, though every third call is
// carried out and its answer lost.
func testPaidOnce(t *testing.T, newNode New) {
	for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.SlidingLog, algorithm.LeakyBucket, algorithm.TokenBucket} {
		virtual(t, a.Name(), func(t *testing.T) {
			f := newFleet(t, newNode, 1, Options{})
			l := rare(t, 1000, a, params.ConsistencyStrict)
			f.shared.set(down)
			for i := range onceKeys {
				for range 1 + i%3 {
					if !f.take(f.nodes[0], fmt.Sprint(i), l, 7).Allowed() {
						t.Fatal("refused")
					}
				}
			}
			f.shared.set(third)
			time.Sleep(20 * time.Second)
			for i := range onceKeys {
				if got, want := l.Burst-f.left(fmt.Sprint(i), l), int64(7*(1+i%3)); got != want {
					t.Errorf("%d: %d admitted, %d counted", i, want, got)
				}
			}
			if st := f.nodes[0].Stats(); st.DebtLost != 0 || st.Debts != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// Costs that were incurred and units that are given back count once, though every third call
// is carried out and its answer lost.
func testOwedOnce(t *testing.T, newNode New) {
	for _, mode := range []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased} {
		for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.SlidingCounter, algorithm.LeakyBucket, algorithm.TokenBucket} {
			virtual(t, mode.String()+" "+a.Name(), func(t *testing.T) {
				f := newFleet(t, newNode, 1, Options{})
				l := rare(t, 1000, a, mode)
				ask := func(i int, v weir.Verb, cost int64) {
					ops := []weir.Op{{Key: fmt.Sprint(i), Limit: l, Cost: cost, Role: weir.Always, Verb: v}}
					if err := f.nodes[0].Take(t.Context(), ops); err != nil || !ops[0].Charged || !ops[0].Decision.Allowed() {
						t.Fatalf("%v, %+v", err, ops[0])
					}
				}
				for i := range onceKeys {
					ask(i, weir.Force, 100)
				}
				f.shared.set(third)
				for i := range onceKeys {
					for range 1 + i%3 {
						ask(i, weir.Force, 9)
						ask(i, weir.Refund, 20)
					}
				}
				time.Sleep(20 * time.Second)
				f.shared.set(none)
				for i := range onceKeys {
					if got, want := l.Burst-f.left(fmt.Sprint(i), l), int64(100-11*(1+i%3)); got != want {
						t.Errorf("%d: %d are charged, want %d", i, got, want)
					}
				}
				if st := f.nodes[0].Stats(); st.DebtLost != 0 || st.Stranded != 0 || st.Debts != 0 {
					t.Errorf("%+v", st)
				}
			})
		}
	}
}

// What a node does not use the store has back once, also when the node is closed, though every third call is carried out
// and its answer lost.
func testReturnedOnce(t *testing.T, newNode New) {
	for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingCounter, algorithm.TokenBucket} {
		virtual(t, a.Name(), func(t *testing.T) {
			f := newFleet(t, newNode, 1, Options{})
			l := rare(t, 10_000, a, params.ConsistencyLeased)
			spent := [onceKeys]int64{}
			for round := range 60 {
				for i := range onceKeys {
					if f.take(f.nodes[0], fmt.Sprint(i), l, 2).Allowed() {
						spent[i] += 2
					}
				}
				time.Sleep(5 * time.Millisecond)
				if round == 50 {
					f.shared.set(third)
				}
			}
			if a == algorithm.TokenBucket {
				time.Sleep(30 * time.Second)
			} else if err := f.nodes[0].Close(); err != nil {
				t.Error(err)
			}
			back := int64(0)
			for i := range onceKeys {
				got := l.Burst - f.left(fmt.Sprint(i), l)
				if back += got - spent[i]; got < spent[i] {
					t.Errorf("%d: %d admitted, %d counted", i, spent[i], got)
				}
			}
			st := f.nodes[0].Stats()
			if t.Logf("%d returned, %d counted too much", st.Returned, back); st.Stranded != 0 || st.Returned == 0 || back > 0 {
				t.Errorf("%d units are counted that nobody has: %+v", back, st)
			}
		})
	}
}
