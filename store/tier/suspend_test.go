package tier_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/tier"
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
func TestSuspendedNodeSpendsNothingLate(t *testing.T) {
	for _, a := range lenders() {
		for _, still := range []bool{false, true} {
			virtual(t, fmt.Sprint(a.Name(), " ", still), func(t *testing.T) {
				f := newFleet(t, 1, tier.Options{Nodes: 2})
				m := newMachine()
				s := f.node(tier.Options{Nodes: 2, Now: m.now})
				aligned(time.Minute)
				w := newLoad(f, compiled(t, weir.PerMinute(1000, a), leased))
				for range 200 {
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

// Permits, shares of an overshoot and remembered refusals end in time as well.
func TestFamilySuspend(t *testing.T) {
	for seed := range drawn(t, 10, 300) {
		virtual(t, fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 23))
			f := newFleet(t, 0, tier.Options{})
			f.shared.delay.Store(int64(time.Millisecond) * r.Int64N(2))
			machines := make([]*machine, 3)
			for i := range machines {
				machines[i] = newMachine()
				f.nodes = append(f.nodes, f.node(tier.Options{Nodes: 3, Now: machines[i].now}))
			}
			a, m := lending[r.IntN(len(lending))], []weir.ConsistencyMode{weir.ConsistencyLeased, weir.ConsistencyEventual, weir.ConsistencyStrict}[r.IntN(3)]
			aligned(time.Minute)
			w := newLoad(f, compiled(t, &weir.Limit{Algorithm: a, Count: 400, Period: 4 * time.Second}, func(l *weir.Limit) {
				l.Consistency.Mode, l.Consistency.MaxOvershoot, l.Consistency.OnStoreError = m, 40, weir.OnErrorDeny
			}))
			if m == weir.ConsistencyEventual {
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

// The places of holders whose node was suspended are not handed out again by it.
func TestSuspendedNodeHandsOutNothingLate(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		f := newFleet(t, 1, tier.Options{Nodes: 2})
		m := newMachine()
		s := f.node(tier.Options{Nodes: 2, Now: m.now})
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

// A node that was cut off, and is counted again, spends no whole burst while others
// hold what they fetched when they did not count it.
func TestFamilyNodesComeAndGo(t *testing.T) {
	for seed := range drawn(t, fewer(12, 5), 300) {
		virtual(t, fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 29))
			f := newFleet(t, 0, tier.Options{})
			var paths []*faulty
			for range 2 {
				p := &faulty{Store: f.shared.Store, mended: make(chan struct{})}
				paths = append(paths, p)
				g := &fleet{T: t, shared: p}
				f.nodes = append(f.nodes, g.node(tier.Options{}))
			}
			w := newLoad(f, compiled(t, &weir.Limit{Algorithm: algorithm.TokenBucket, Count: 10 + r.Int64N(6), Period: 30 * time.Second}, func(l *weir.Limit) {
				leased(l)
				l.Consistency.Share, l.Consistency.LeaseTTL, l.Consistency.OnStoreError = 1, 5*time.Second, weir.OnErrorDeny
			}))
			for range 20 {
				// Both have known for long that they are two, and the bucket is full.
				time.Sleep(40 * time.Second)
				i := r.IntN(2)
				paths[i].set([]fault{down, stall}[r.IntN(2)])
				// So long that the other forgets it, or not.
				time.Sleep(time.Duration(r.Int64N(int64(16 * time.Second))))
				for range r.IntN(12) {
					w.ask(f.nodes[1-i])
				}
				time.Sleep(time.Duration(r.Int64N(int64(4 * time.Second))))
				paths[i].set(none)
				time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
				for range 30 {
					w.ask(f.nodes[i])
				}
				for range 30 {
					w.ask(f.nodes[1-i])
				}
			}
			if w.over.Load() != 0 || w.admitted.Load() < 50 {
				t.Errorf("%d too many: %s", w.over.Load(), w)
			}
		})
	}
}

// A node whose process was held up renews its registration late, and does not hear that
// it was not counted meanwhile. Here a node renews in turns that are longer than
// registrations live. Another fetches units while it counts itself alone, and both spend
// as soon as the first is registered again.
func TestFamilyLateRenewals(t *testing.T) {
	for seed := range drawn(t, fewer(12, 5), 300) {
		virtual(t, fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 31))
			f := newFleet(t, 0, tier.Options{})
			w := newLoad(f, compiled(t, &weir.Limit{Algorithm: algorithm.TokenBucket, Count: 10 + r.Int64N(6), Period: 30 * time.Second}, func(l *weir.Limit) {
				leased(l)
				l.Consistency.Share, l.Consistency.LeaseTTL, l.Consistency.OnStoreError = 1, 5*time.Second, weir.OnErrorDeny
			}))
			every := time.Duration(30+r.Int64N(60)) * time.Second
			begun := time.Now()
			f.nodes = append(f.nodes, f.node(tier.Options{ProbeEvery: every}), f.node(tier.Options{}))
			for range 20 {
				next := begun.Add((time.Since(begun)/every + 1) * every)
				// A node that is asked again and again fetches more at a time.
				time.Sleep(time.Until(next) - time.Duration(r.Int64N(int64(15*time.Second))))
				for time.Now().Before(next) {
					w.ask(f.nodes[1])
					time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
				}
				time.Sleep(time.Duration(r.Int64N(int64(time.Second))))
				for i := range f.nodes {
					for range 30 {
						w.ask(f.nodes[i])
					}
				}
			}
			if w.over.Load() != 0 || w.admitted.Load() < 50 {
				t.Errorf("%d too many: %s", w.over.Load(), w)
			}
		})
	}
}

// A node that was cut off leaves what flows in while others hold units, until all nodes
// have known for a while again how many they are.
func TestReturningNodeLeavesTheInflow(t *testing.T) {
	for name, x := range map[string]fault{"down": down, "stall": stall} {
		virtual(t, name, func(t *testing.T) {
			f := newFleet(t, 0, tier.Options{})
			var paths []*faulty
			for range 2 {
				p := &faulty{Store: f.shared.Store, mended: make(chan struct{})}
				paths = append(paths, p)
				f.nodes = append(f.nodes, (&fleet{T: t, shared: p}).node(tier.Options{}))
			}
			l := compiled(t, &weir.Limit{Algorithm: algorithm.TokenBucket, Count: 15, Period: 30 * time.Second}, func(l *weir.Limit) {
				leased(l)
				l.Consistency.Share, l.Consistency.LeaseTTL, l.Consistency.OnStoreError = 1, 5*time.Second, weir.OnErrorDeny
			})
			atOnce := func(key string) (n int64) {
				for range 30 {
					if f.take(f.nodes[1], key, l, 1).Allowed() {
						n++
					}
				}
				return n
			}
			time.Sleep(40 * time.Second)
			if n := atOnce("before"); n != 15 {
				t.Errorf("%d passed of 15 before", n)
			}
			paths[1].set(x)
			time.Sleep(15 * time.Second)
			paths[1].set(none)
			for atOnce("back") == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			if n := atOnce("after"); n != 15-l.Inflow() {
				t.Errorf("%d passed at once of 15, of which %d may flow in while others hold units", n, l.Inflow())
			}
			time.Sleep(40 * time.Second)
			if n := atOnce("later"); n != 15 {
				t.Errorf("%d passed of 15 later", n)
			}
		})
	}
}
