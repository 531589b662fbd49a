package sharedtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
)

// Outages of all sorts, one after the other, of parts and of all of the store, with
// units spent and refunded meanwhile: no more is admitted than the limit and one
// share in each, and when all is quiet the store has counted what was admitted, and
// what the nodes say is lost.
func testRandomOutages(t *testing.T, newNode New) {
	for seed := range drawn(t, 12, 400) {
		virtual(t, fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 19))
			f := newFleet(t, newNode, 1+r.IntN(3), Options{})
			f.shared.delay.Store(int64(time.Millisecond) * r.Int64N(3))
			m := []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual}[r.IntN(3)]
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
			// (A refund that reaches the store before the debt of another node can be lost.)
			if !unheard && counted > spent+stranded+30 {
				t.Errorf("%s: %d admitted and not given back, %d counted, %d stranded", l.Name, spent, counted, stranded)
			}
		})
	}
}

// A store that is dead at the start is no error.
func testStartInOutage(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 0, Options{})
		f.shared.set(down)
		s := f.node(Options{Nodes: 2})
		l := compiled(t, weir.PerHour(10, algorithm.TokenBucket), strict)
		for i := range 6 {
			if d := f.take(s, "k", l, 1); d.Allowed() != (i < 5) || !d.Guarantee().Degraded {
				t.Errorf("spend %d of a share of five: %+v", i, d)
			}
		}
		f.shared.set(none)
		time.Sleep(time.Second)
		if d := f.take(s, "k", l, 1); !d.Allowed() || d.Remaining != 4 || d.Guarantee().Degraded {
			t.Errorf("after the store came: %+v", d)
		}
	})
}

// A store that is busy for a moment while a node starts, for longer than a decision
// waits, is not out: no breaker opens, and the first decision is the store's.
func testBusyStart(t *testing.T, newNode New) {
	for kind, keeps := range map[string]fault{"keeps nodes": none, "counts": counts} {
		for _, prompt := range []bool{false, true} {
			virtual(t, fmt.Sprint(kind, ", prompt ", prompt), func(t *testing.T) {
				f := newFleet(t, newNode, 0, Options{Prompt: prompt})
				f.shared.set(keeps)
				f.shared.delay.Store(int64(300 * time.Millisecond))
				s := f.node(Options{Nodes: 2, Prompt: prompt})
				f.shared.delay.Store(0)
				l := compiled(t, weir.PerHour(10, algorithm.FixedWindow), strict)
				if d := f.take(s, "k", l, 1); !d.Allowed() || d.Remaining != 9 || d.Guarantee().Degraded {
					t.Errorf("%+v, from %s", d, d.Guarantee().Source)
				}
				if st := s.Stats(); st.BreakerOpen || st.Late != 0 {
					t.Errorf("%+v", st)
				}
			})
		}
	}
}
