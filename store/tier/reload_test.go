package tier_test

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
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/tier"
)

// A node that holds units when the rate is halved gives them back at the price that it
// paid for them: what is left is no more than what was left, less what passed.
func TestReloadKeepsThePrice(t *testing.T) {
	for _, a := range []weir.Algorithm{algorithm.TokenBucket, algorithm.LeakyBucket} {
		virtual(t, a.Name(), func(t *testing.T) {
			f := newFleet(t, 2, tier.Options{})
			fast := reloaded(t, 10_000, time.Hour, 0, a, weir.ConsistencyLeased)
			slow := reloaded(t, 5_000, time.Hour, 0, a, weir.ConsistencyLeased)
			for range 7000 {
				f.take(f.nodes[0], "k", fast, 1)
			}
			held := f.nodes[0].Stats().LeaseUnits
			// 3000 of 10,000 remain: of an hour, three tenths.
			for _, s := range f.nodes {
				f.take(s, "k", slow, 1)
			}
			time.Sleep(3 * time.Second)
			if left := f.left("k", slow); left > 1500+5 || left < 1450 {
				t.Errorf("%d are left of 5000, of 3000 of 10,000; %d were held", left, held)
			}
		})
	}
}

func reloaded(t testing.TB, n int64, period time.Duration, burst int64, a weir.Algorithm, m weir.ConsistencyMode) *weir.Limit {
	return compiled(t, &weir.Limit{Name: "reloaded", Algorithm: a, Count: n, Period: period, Burst: burst}, func(l *weir.Limit) {
		l.Consistency.Mode, l.Consistency.MaxOvershoot = m, max(l.Count/20, 4)
	})
}

// A limit whose numbers go up and down again and again, with what is spent, given back
// and left idle meanwhile, and with answers that are lost, admits no more than its
// largest version would.
func TestFamilyReload(t *testing.T) {
	for seed := range drawn(t, fewer(10, 4), 400) {
		virtual(t, fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 17))
			aligned(time.Hour)
			f := newFleet(t, 1+r.IntN(3), tier.Options{})
			paid := &refunds{Store: f.shared.Store}
			f.shared.Store = paid
			f.shared.delay.Store(int64(time.Millisecond) * r.Int64N(3))
			a := []weir.Algorithm{
				algorithm.TokenBucket, algorithm.LeakyBucket, algorithm.FixedWindow, algorithm.SlidingSubwindows, algorithm.SlidingWindow, algorithm.SlidingCounter,
			}[r.IntN(6)]
			unanswered := r.IntN(2) == 0
			bucket := a == algorithm.TokenBucket || a == algorithm.LeakyBucket
			// The largest version: its rate and its burst are at least those of all. Full is
			// each again after about as long: of what is owed for longer, a bucket forgives
			// what is more than twice that.
			const most = 4000
			largest := reloaded(t, most, time.Hour, 0, a, weir.ConsistencyStrict)
			version := func() *weir.Limit {
				n, period, burst := int64(most)>>r.IntN(6), time.Hour, int64(0)
				if bucket {
					period = time.Hour << r.IntN(3)
					burst = n * int64(time.Hour) / int64(period) * (2 + r.Int64N(2)) / 3
				}
				m := []weir.ConsistencyMode{weir.ConsistencyLeased, weir.ConsistencyLeased, weir.ConsistencyStrict, weir.ConsistencyEventual}[r.IntN(4)]
				l := &weir.Limit{Name: "reloaded", Algorithm: a, Count: n, Period: period, Burst: burst}
				l.Consistency.Mode, l.Consistency.MaxOvershoot = m, max(n/20, 4)
				if unanswered {
					l.Consistency.OnStoreError = weir.OnErrorDeny
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
				half := weir.Op{Limit: largest, Cost: most / 2}
				charge(exact, half, weir.Force)
				charge(f.shared.Store, half, weir.Force)
			}
			cut := f.cut(seed, 300*time.Millisecond)
			if unanswered {
				cut.share.Store(15)
			}
			l := version()
			var spent []weir.Op
			passed, back := int64(0), int64(0)
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
				deep = reloaded(t, most, time.Hour, 4*most, a, weir.ConsistencyStrict)
			}
			left := []weir.Op{{Key: "k", Limit: deep, Cost: 1, Verb: weir.Peek}}
			if err := exact.Take(context.Background(), left); err != nil {
				t.Fatal(err)
			}
			// A bucket takes units back less those that have flowed in since their charge,
			// as it does not know that it was never full meanwhile. So each refund and each
			// lot that goes back costs the time since its charge, at most the time in which
			// its units flow in at their price: that is all that is missing of exact.
			// (Each price rounds up by a part of a unit of its own.)
			want := left[0].Decision.Remaining - paid.units(largest)
			// What is not answered can stay spent, and so does what few units of a sliding
			// window lay idle.
			fewer := unanswered || a == algorithm.SlidingWindow
			if n := f.left("k", deep); n > want+2 || n < want-2 && !fewer {
				t.Errorf("%s: %d are left, %d should be, less %d that flowed in before they were given back", a.Name(), n, want, paid.units(largest))
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

// refunds is a store that notes how much of what it is given back has flowed in since
// the units were charged.
type refunds struct {
	weir.Store
	mu     sync.Mutex
	flowed time.Duration
}

func (s *refunds) Take(ctx context.Context, ops []weir.Op) error {
	err := s.Store.Take(ctx, ops)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range ops {
		o := &ops[i]
		if err != nil || o.Verb != weir.Refund || o.ChargedAt == 0 || o.Limit.Algorithm != algorithm.TokenBucket && o.Limit.Algorithm != algorithm.LeakyBucket {
			continue
		}
		s.flowed += min(weir.FromMicros(max(o.Now-o.ChargedAt, 0)), o.Limit.Period*time.Duration(o.Cost)/time.Duration(o.Limit.Count))
	}
	return err
}

// units returns how many units of l flow in in that time.
func (s *refunds) units(l *weir.Limit) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.flowed) / (int64(l.Period) / l.Count)
}

// Units that were charged before a reload cut the refill time go back at the price that
// was paid. Where the new limit was asked first, and has forgotten what is owed beyond
// twice its refill time, they take off all that is left to owe, the kept units' part
// too: the bucket is full, and never more than that.
func TestReloadAndRefundForget(t *testing.T) {
	for _, a := range []weir.Algorithm{algorithm.TokenBucket, algorithm.LeakyBucket} {
		for _, asked := range []bool{false, true} {
			virtual(t, fmt.Sprint(a.Name(), ", asked ", asked), func(t *testing.T) {
				f := newFleet(t, 1, tier.Options{})
				slow := reloaded(t, 100, time.Hour, 100, a, weir.ConsistencyStrict)
				fast := reloaded(t, 10_000, time.Hour, 100, a, weir.ConsistencyStrict)
				spent := []weir.Op{{Key: "k", Limit: slow, Cost: 100}}
				if err := f.nodes[0].Take(context.Background(), spent); err != nil || !spent[0].Charged {
					t.Fatal(err, spent[0].Decision)
				}
				if asked {
					if d := f.take(f.nodes[0], "k", fast, 1); d.Allowed() {
						t.Fatalf("all is spent: %s", d)
					}
				}
				undo := spent[0].Undo(50)
				if err := f.nodes[0].Take(context.Background(), []weir.Op{undo}); err != nil {
					t.Fatal(err)
				}
				want := int64(0) // half an hour is owed
				if asked {
					want = 100
				}
				if left := f.left("k", fast); left != want {
					t.Errorf("%d are left, want %d", left, want)
				}
			})
		}
	}
}

// A fetch whose answer was lost before the rate of a bucket is lowered stays spent: its
// units are not taken over at the new price.
func TestReloadForgetsAnUnansweredFetch(t *testing.T) {
	for _, a := range []weir.Algorithm{algorithm.TokenBucket, algorithm.LeakyBucket} {
		virtual(t, a.Name(), func(t *testing.T) {
			f := newFleet(t, 1, tier.Options{})
			f.shared.delay.Store(int64(time.Millisecond))
			deaf := &deaf{Store: f.shared.Store}
			f.shared.Store = deaf
			version := func(n int64) *weir.Limit {
				l := &weir.Limit{Name: "reloaded", Algorithm: a, Count: n, Period: time.Hour}
				return compiled(t, l, leasedOr(weir.OnErrorDeny))
			}
			used := 0.0
			take := func(l *weir.Limit) bool {
				ok := f.take(f.nodes[0], "k", l, 1).Allowed()
				if ok {
					used += 1 / float64(l.Count)
				}
				return ok
			}
			fast, slow := version(10_000), version(2500)
			for range 3000 {
				take(fast)
			}
			begin := time.Now()
			deaf.next.Store(1)
			for deaf.next.Load() > 0 {
				take(fast)
			}
			time.Sleep(10 * time.Millisecond)
			for refused := 0; refused < 50; {
				if !take(slow) {
					refused++
					time.Sleep(20 * time.Millisecond)
				}
			}
			flowed := time.Since(begin).Hours()
			t.Logf("%.4f of the bucket used, %.4f flowed in", used, flowed)
			if used > 1+flowed+0.002 || used < 0.5 {
				t.Errorf("%.4f of the bucket was used, and %.4f flowed in", used, flowed)
			}
		})
	}
}

// deaf is a store of which the answers to the next calls are lost, with the connection.
type deaf struct {
	weir.Store
	next atomic.Int64
}

func (s *deaf) Take(ctx context.Context, ops []weir.Op) error {
	err := s.Store.Take(ctx, ops)
	if s.next.Load() > 0 {
		s.next.Add(-1)
		return errDown
	}
	return err
}
