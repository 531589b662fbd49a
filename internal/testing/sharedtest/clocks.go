package sharedtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
)

// A machine can be suspended: its monotonic clock stands still while time passes.
type machine struct {
	start time.Time
	// slept is for how long it was suspended, and from when it is, 0 if it is not.
	slept, from atomic.Int64
}

func newMachine() *machine { return &machine{start: time.Now()} }

func (m *machine) now() int64 {
	t := time.Since(m.start).Microseconds()
	if from := m.from.Load(); from != 0 {
		t = from
	}
	return t - m.slept.Load()
}

func (m *machine) suspend() { m.from.Store(time.Since(m.start).Microseconds()) }

// still returns for how many microseconds the machine is suspended.
func (m *machine) still() int64 { return time.Since(m.start).Microseconds() - m.from.Load() }

func (m *machine) resume() {
	m.slept.Add(m.still())
	m.from.Store(0)
}

// A machine that was suspended spends nothing of a window that is over, whether its
// clock goes on again or not.
func testSuspend(t *testing.T, newNode New) {
	for _, a := range lenders() {
		for _, still := range []bool{false, true} {
			virtual(t, fmt.Sprint(a.Name(), " ", still), func(t *testing.T) {
				f := newFleet(t, newNode, 1, Options{Nodes: 2})
				m := newMachine()
				s := f.node(Options{Nodes: 2, Now: m.now})
				aligned(time.Minute)
				w := newLoad(f, compiled(t, weir.PerMinute(10_000, a), leased))
				for range 2000 {
					w.ask(s)
				}
				if s.Stats().LeaseUnits == 0 {
					t.Fatal("nothing is held")
				}
				m.suspend()
				time.Sleep(2 * time.Minute)
				if !still {
					m.resume()
				}
				for range 2000 {
					w.ask(f.nodes[0])
				}
				for range 500 {
					w.ask(s)
				}
				if w.over.Load() != 0 {
					t.Errorf("%d too many: %s", w.over.Load(), w)
				}
			})
		}
	}
}

// The permits of holders whose node was suspended are not handed out again by it.
func testSuspendPermits(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 1, Options{Nodes: 2})
		m := newMachine()
		s := f.node(Options{Nodes: 2, Now: m.now})
		l := compiled(t, &weir.Limit{Algorithm: algorithm.Concurrency, Count: 100, Period: 20 * time.Second}, leased)
		id := int64(0)
		occupy := func(s weir.Store) bool {
			id++
			ops := []weir.Op{{Key: "k", Limit: l, Cost: 1, ID: id}}
			if err := s.Take(context.Background(), ops); err != nil {
				t.Fatal(err)
			}
			return ops[0].Charged
		}
		for range 20 {
			if !occupy(s) {
				t.Fatal("refused")
			}
		}
		m.suspend()
		time.Sleep(time.Minute)
		m.resume()
		taken := 0
		for range 200 {
			for _, s := range []weir.Store{f.nodes[0], s} {
				if occupy(s) {
					taken++
				}
			}
		}
		if taken > 100 {
			t.Errorf("%d places are taken of 100", taken)
		}
	})
}

// Permits, shares of an overshoot and remembered refusals end in time as well.
func testRandomSuspends(t *testing.T, newNode New) {
	for seed := range drawn(t, 10, 300) {
		virtual(t, fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 23))
			f := newFleet(t, newNode, 0, Options{})
			f.shared.delay.Store(int64(time.Millisecond) * r.Int64N(2))
			machines := make([]*machine, 3)
			for i := range machines {
				machines[i] = newMachine()
				f.nodes = append(f.nodes, f.node(Options{Nodes: 3, Now: machines[i].now}))
			}
			a, m := lending[r.IntN(len(lending))], []params.ConsistencyMode{params.ConsistencyLeased, params.ConsistencyEventual, params.ConsistencyStrict}[r.IntN(3)]
			aligned(time.Minute)
			w := newLoad(f, compiled(t, &weir.Limit{Algorithm: a, Count: 400, Period: 4 * time.Second}, func(l *weir.Limit) {
				l.Consistency.Mode, l.Consistency.MaxOvershoot, l.Consistency.OnStoreError = m, 40, params.OnErrorDeny
			}))
			if m == params.ConsistencyEventual {
				w.allow(40)
			}
			still := make([]bool, len(machines))
			for range 300 {
				i := r.IntN(len(machines))
				switch x := r.IntN(12); {
				case x == 0 && !still[i]:
					for range 40 {
						w.ask(f.nodes[i])
					}
					machines[i].suspend()
					still[i] = true
				case x == 1 && still[i]:
					// A shorter standstill is not noticed by a clock that a test sets.
					time.Sleep(1100*time.Millisecond - time.Duration(machines[i].still())*time.Microsecond)
					for j := range machines {
						for n := 0; n < 400 && !still[j]; n++ {
							w.ask(f.nodes[j])
						}
					}
					machines[i].resume()
					still[i] = false
					for range 40 {
						w.ask(f.nodes[i])
					}
				case x < 6:
					time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
				default:
					for range r.IntN(100) {
						if !still[i] {
							w.ask(f.nodes[i])
						}
					}
				}
			}
			if w.over.Load() != 0 || w.admitted.Load() < 400 {
				t.Errorf("%s %s: %d too many: %s", m, a.Name(), w.over.Load(), w)
			}
		})
	}
}
