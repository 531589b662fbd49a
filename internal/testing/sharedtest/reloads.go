package sharedtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
)

// refunds is a store that sums how many of the units that are refunded have flowed in
// since they were charged.
type refunds struct {
	weir.Store
	mu     sync.Mutex
	flowed float64
}

func (s *refunds) Take(ctx context.Context, ops []weir.Op) error {
	err := s.Store.Take(ctx, ops)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range ops {
		o := &ops[i]
		if err != nil || o.Verb != weir.Refund || o.FlowsFrom == 0 || o.Limit.Algorithm != algorithm.TokenBucket && o.Limit.Algorithm != algorithm.LeakyBucket {
			continue
		}
		s.flowed += min(float64(max(o.Now-o.FlowsFrom, 0))*float64(o.Limit.Count)/float64(micros.Of(o.Limit.Period)), float64(o.Cost))
	}
	return err
}

func (s *refunds) units() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.flowed)
}

// A limit whose numbers go up and down again and again, with what is spent, refunded
// and left idle meanwhile, and with answers that are lost, admits no more than its
// largest version would.
func testRandomReloads(t *testing.T, newNode New) {
	for seed := range drawn(t, fewer(10, 4), 400) {
		virtual(t, fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 17))
			aligned(time.Hour)
			f := newFleet(t, newNode, 1+r.IntN(3), Options{})
			paid := &refunds{Store: f.shared.Store}
			f.shared.Store = paid
			f.shared.delay.Store(int64(time.Millisecond) * r.Int64N(3))
			a := []weir.Algorithm{
				algorithm.TokenBucket, algorithm.LeakyBucket, algorithm.FixedWindow, algorithm.SlidingSubwindows, algorithm.SlidingWindow, algorithm.SlidingCounter,
			}[r.IntN(6)]
			lossy := r.IntN(2) == 0
			bucket := a == algorithm.TokenBucket || a == algorithm.LeakyBucket
			// The largest version: its rate and its burst are at least those of all.
			const most = 4000
			largest := reloaded(t, most, time.Hour, 0, a, params.ConsistencyStrict)
			fixed := most / (1 + r.Int64N(2)) // as an operator has who writes burst
			version := func() *weir.Limit {
				n, period, burst := []int64{most >> r.IntN(6), most / 10, most / 100, most - r.Int64N(3)}[r.IntN(4)], time.Hour, int64(0)
				if bucket {
					period, burst = []time.Duration{time.Hour, time.Hour, 24 * time.Hour}[r.IntN(3)], fixed-fixed/3*r.Int64N(2)
				}
				m := []params.ConsistencyMode{params.ConsistencyLeased, params.ConsistencyLeased, params.ConsistencyStrict, params.ConsistencyEventual}[r.IntN(4)]
				l := &weir.Limit{Name: "reloaded", Algorithm: a, Count: n, Period: period, Burst: burst}
				l.Consistency.Mode, l.Consistency.MaxOvershoot = m, max(n/20, 4)
				if lossy {
					l.Consistency.OnStoreError = params.OnErrorDeny
				}
				return compiled(t, l, nil)
			}
			w := newLoad(f, largest)
			w.allow(most / 20)
			// exact is charged each unit at the price at which it was admitted. Nothing has
			// flowed back before the end: the bucket is never full.
			exact := memory.New(memory.Options{MaxBytes: 1 << 20})
			defer exact.Close()
			charge := func(s weir.Store, o weir.Op, v weir.Verb) {
				ops := []weir.Op{{Key: "k", Limit: o.Limit, Cost: o.Cost, Role: weir.Always, Verb: v}}
				if err := s.Take(context.Background(), ops); err != nil {
					t.Fatal(err)
				}
			}
			if bucket {
				half := weir.Op{Limit: largest, Cost: fixed / 2}
				charge(exact, half, weir.Force)
				charge(f.shared.Store, half, weir.Force)
			}
			cut := f.cut(seed, 300*time.Millisecond)
			if lossy {
				cut.share.Store(15)
			}
			l := version()
			var spent []weir.Op
			passed, back, begin := int64(0), int64(0), time.Now()
			for range 400 {
				s := f.nodes[r.IntN(len(f.nodes))]
				switch x := r.IntN(20); {
				case x < 3:
					l = version()
				case x < 5:
					time.Sleep(time.Duration(r.Int64N(int64(1500 * time.Millisecond))))
				case x < 8 && len(spent) > 0:
					i := r.IntN(len(spent))
					undo := spent[i].Undo(spent[i].Cost)
					if err := s.Take(context.Background(), []weir.Op{undo}); err != nil {
						t.Fatal(err)
					}
					w.back(&spent[i])
					charge(exact, spent[i], weir.Refund)
					back += spent[i].Cost
					spent = append(spent[:i], spent[i+1:]...)
				default:
					for range 1 + r.IntN(60) {
						ops := []weir.Op{{Key: "k", Limit: l, Cost: 1 + r.Int64N(3)}}
						if err := s.Take(context.Background(), ops); err != nil {
							t.Fatal(err)
						}
						if o := ops[0]; o.Charged {
							w.admit(o.Cost)
							charge(exact, o, weir.Force)
							passed += o.Cost
							o.Key = "k"
							spent = append(spent, o)
						}
					}
				}
			}
			cut.share.Store(0)
			cut.late.Wait()
			for _, s := range f.nodes {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			// As of a bucket so deep that it is never used up: what is owed.
			deep := largest
			if bucket {
				deep = reloaded(t, most, time.Hour, 4*most, a, params.ConsistencyStrict)
			}
			left := []weir.Op{{Key: "k", Limit: deep, Cost: 1, Verb: weir.Peek}}
			if err := exact.Take(context.Background(), left); err != nil {
				t.Fatal(err)
			}
			// A bucket takes units back less those that have flowed in since their charge,
			// as it does not know that it was never full meanwhile: that is all that is
			// missing of exact.
			want := left[0].Decision.Remaining - paid.units()
			// By which version it flows between two decisions is not known to exact.
			in := 2 + int64(time.Since(begin).Hours()*most)
			// What is not answered can stay spent, and so does what few units of a sliding
			// window lay idle.
			fewer := lossy || a == algorithm.SlidingWindow
			if n := f.left("k", deep); n > want+in || n < want-in && !fewer {
				t.Errorf("%s: %d are left, %d should be, less %d that flowed in before they were given back", a.Name(), n, want, paid.units())
			}
			if w.over.Load() != 0 {
				t.Errorf("%s: %d units too many of %d that passed, %d given back", a.Name(), w.worst(), passed, back)
			}
			if passed < most/80 {
				t.Errorf("%s: only %d passed", a.Name(), passed)
			}
		})
	}
}

// Rules that are reloaded at every step, with another mode each time, lose count
// of nothing.
func testModeReloads(t *testing.T, newNode New) {
	for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingSubwindows} {
		for seed := range drawn(t, 3, 200) {
			virtual(t, fmt.Sprint(a.Name(), " ", seed), func(t *testing.T) {
				f := newFleet(t, newNode, 3, Options{})
				f.shared.delay.Store(int64(time.Millisecond))
				r := rand.New(rand.NewPCG(seed, 9))
				version := func() *weir.Limit {
					m := []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual}[r.IntN(3)]
					return compiled(t, weir.PerHour(1000, a), func(l *weir.Limit) {
						l.Name = "reloaded"
						l.Consistency.Mode, l.Consistency.MaxOvershoot = m, 60
					})
				}
				passed := int64(0)
				l := version()
				for range 4000 {
					if r.IntN(20) == 0 {
						l = version()
					}
					s := f.nodes[r.IntN(3)]
					if r.IntN(10) == 0 {
						ops := []weir.Op{{Key: "k", Limit: l, Cost: 2}}
						if err := s.Take(context.Background(), ops); err != nil {
							t.Fatal(err)
						}
						if ops[0].Charged && r.IntN(2) == 0 {
							if err := s.Take(context.Background(), []weir.Op{ops[0].Undo(2)}); err != nil {
								t.Fatal(err)
							}
						} else if ops[0].Charged {
							passed += 2
						}
					} else if f.take(s, "k", l, 1).Allowed() {
						passed++
					}
					time.Sleep(time.Duration(r.Int64N(int64(5 * time.Millisecond))))
				}
				for _, s := range f.nodes {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
				}
				left := f.left("k", l)
				if passed > 1060 || passed < 900 || left != max(1000-passed, 0) {
					t.Errorf("%d passed of 1000, and %d are left", passed, left)
				}
			})
		}
	}
}
