package sharedtest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
)

// In an outage each limit is decided by its policy, and the decision says so.
func testPolicies(t *testing.T, newNode New) {
	f := func(p params.StoreErrorPolicy, want int, source weir.Source, over int64) {
		t.Helper()
		virtual(t, p.String(), func(t *testing.T) {
			f := newFleet(t, newNode, 4, Options{})
			l := compiled(t, weir.PerMinute(100, algorithm.FixedWindow), onError(p))
			f.take(f.nodes[0], "k", l, 60)
			f.shared.set(down)
			passed := 0
			for range 150 {
				d := f.take(f.nodes[0], "k", l, 1)
				if d.Allowed() {
					passed++
				}
				g := d.Guarantee()
				if g.Source != source || !g.Degraded || g.Exact || g.OverAdmit != over {
					t.Fatalf("%+v, from %s: %s", d, g.Source, g)
				}
				if !d.Allowed() && (d.RetryAfter <= 0 || d.RetryAfter > time.Minute) {
					t.Fatalf("refused for %s", d.RetryAfter)
				}
			}
			if passed != want {
				t.Errorf("%d passed, want %d", passed, want)
			}
		})
	}
	f(params.OnErrorAllow, 150, weir.FailedOpen, weir.Unbounded)
	f(params.OnErrorDeny, 0, weir.FailedClosed, 0)
	f(params.OnErrorLocal, 10, weir.FromShare, 100)
	f(params.OnErrorDefault, 10, weir.FromShare, 100)
	f(params.OnErrorLastKnown, 40, weir.FromLastKnown, weir.Unbounded)
}

// The nodes' shares together are the limit, whatever was spent before, and the
// store knows of them when it is back.
func testShares(t *testing.T, newNode New) {
	for _, a := range lasting {
		if a == algorithm.Lockout {
			continue
		}
		virtual(t, a.Name(), func(t *testing.T) {
			f := newFleet(t, newNode, 4, Options{})
			l := compiled(t, weir.PerHour(1000, a), strict)
			for _, s := range f.nodes {
				f.take(s, "k", l, 100)
			}
			f.shared.set(down)
			passed := int64(0)
			for range 1000 {
				for _, s := range f.nodes {
					if f.take(s, "k", l, 1).Allowed() {
						passed++
					}
				}
			}
			// What the last node has heard is the truth; the others knew of more.
			if passed < 600 || passed > 600+150 {
				t.Errorf("%d passed of 600", passed)
			}
			f.shared.set(none)
			time.Sleep(time.Second)
			synctest.Wait()
			if left := f.left("k", l); left != 0 {
				t.Errorf("%d remain, of 1000 of which %d are spent", left, 400+passed)
			}
			for _, s := range f.nodes {
				d := f.take(s, "k", l, 1)
				if d.Allowed() || d.Guarantee().Degraded {
					t.Errorf("after the store was back: %+v", d)
				}
			}
			for _, s := range f.nodes {
				if st := s.Stats(); st.DebtPaid == 0 || st.DebtLost != 0 || st.Debts != 0 {
					t.Errorf("debts: %+v", st)
				}
			}
		})
	}
}

// Whatever the store does, a decision keeps to its budget, then takes no time, and is
// exact again within a second after the store is.
func testBreaker(t *testing.T, newNode New) {
	for name, x := range map[string]fault{"down": down, "stall": stall, "lost": lost, "wedged": wedged} {
		virtual(t, name, func(t *testing.T) {
			f := newFleet(t, newNode, 1, Options{})
			defer f.shared.mend()
			s := f.nodes[0]
			ls := []*weir.Limit{
				compiled(t, weir.PerHour(1000, algorithm.TokenBucket), strict),
				compiled(t, weir.PerHour(1000, algorithm.SlidingWindow), strict),
			}
			ask := func() weir.Decision {
				ops := []weir.Op{{Key: "k", Limit: ls[0], Cost: 1}, {Key: "k", Limit: ls[1], Cost: 1}}
				if err := s.Take(context.Background(), ops); err != nil {
					t.Fatal(err)
				}
				return weir.Fold(ops)
			}
			if ask().Guarantee().Degraded {
				t.Fatal("degraded from the start")
			}
			f.shared.set(x)
			for range 2 {
				f.within(20*time.Millisecond, func() { f.take(s, "one", ls[0], 1) })
				f.within(20*time.Millisecond, func() { ask() })
			}
			f.within(20*time.Millisecond, func() {
				if !f.take(s, "one", ls[0], 1).Guarantee().Degraded {
					t.Error("not degraded")
				}
			})
			if !s.Stats().BreakerOpen {
				t.Fatal("five calls failed, and the breaker is closed")
			}
			calls := f.shared.calls.Load()
			f.within(0, func() {
				for range 100 {
					if !ask().Guarantee().Degraded || !f.take(s, "one", ls[0], 1).Guarantee().Degraded {
						t.Fatal("not degraded")
					}
				}
			})
			if n := f.shared.calls.Load() - calls; n != 0 {
				t.Errorf("%d calls while the breaker was open", n)
			}
			// One at a time the store is tried.
			time.Sleep(10 * time.Second)
			if n := f.shared.calls.Load() - calls; n < 10 || n > 45 {
				t.Errorf("%d probes in ten seconds", n)
			}
			f.shared.mend()
			time.Sleep(time.Second)
			if ask().Guarantee().Degraded || f.take(s, "one", ls[0], 1).Guarantee().Degraded {
				t.Error("degraded a second after the store was back")
			}
		})
	}
}

// What is kept on a shard that is out is decided by policy, and written
// back when it is there again; the rest is decided as ever.
func testShardOutage(t *testing.T, newNode New) {
	for kind, fault := range map[string]fault{"said by the store": partly, "found by a breaker": partDown} {
		virtual(t, kind, func(t *testing.T) {
			opt := Options{Nodes: 2}
			if fault == partDown {
				opt.Servers = 3
			}
			f := newFleet(t, newNode, 2, opt)
			s := f.nodes[0]
			l := compiled(t, weir.PerHour(100, algorithm.FixedWindow), onError(params.OnErrorLocal))
			f.take(s, "gone", l, 10)
			f.shared.set(fault)
			for range 60 {
				if g := f.take(s, "gone", l, 1).Guarantee(); !g.Degraded || g.Source != weir.FromShare {
					t.Fatalf("a key that is away: %s", g)
				}
				if g := f.take(s, "here", l, 1).Guarantee(); g.Degraded || g.Source != weir.FromStore {
					t.Fatalf("a key that is not: %s", g)
				}
			}
			if st := s.Stats(); st.BreakerOpen || st.Degraded != 60 {
				t.Errorf("%d decisions were degraded, away %v", st.Degraded, st.BreakerOpen)
			}
			// One request on both: what it was charged of the key that is there is paid.
			ops := []weir.Op{{Key: "gone", Limit: l, Cost: 1}, {Key: "both", Limit: l, Cost: 7}}
			if err := s.Take(context.Background(), ops); err != nil || ops[1].Charged {
				t.Fatalf("the share of one is used up: %+v, %v", ops, err)
			}
			ops[0].Key = "gone too"
			if err := s.Take(context.Background(), ops); err != nil || !ops[0].Charged || !ops[1].Charged {
				t.Fatalf("%+v, %v", ops, err)
			}
			time.Sleep(time.Second)
			if d := f.take(f.nodes[1], "both", l, 0); d.Remaining != 93 {
				t.Errorf("%d remain of the key that is there, want 93", d.Remaining)
			}
			f.shared.set(none)
			time.Sleep(time.Second)
			// What the share admitted is counted: half of what was last known to remain.
			if d := f.take(f.nodes[1], "gone", l, 0); d.Remaining != 90-45 {
				t.Errorf("%d remain after the debts were paid, want 45", d.Remaining)
			}
			if calls := f.shared.gone.Load(); fault == partDown && calls > 30 {
				t.Errorf("%d calls of a server whose breaker is open", calls)
			}
		})
	}
}

// A key that the store cannot decide is decided by policy, and opens no breaker for
// others: in every mode, alone and with others.
func testBadKey(t *testing.T, newNode New) {
	for _, m := range []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual} {
		virtual(t, m.String(), func(t *testing.T) {
			f := newFleet(t, newNode, 1, Options{})
			s := f.nodes[0]
			l := compiled(t, weir.PerHour(1000, algorithm.FixedWindow), func(l *weir.Limit) { l.Consistency.Mode = m })
			f.shared.set(rejects)
			for n := range 100 {
				if g := f.take(s, fmt.Sprint("bad", n%3), l, 1).Guarantee(); !g.Degraded {
					t.Fatalf("a key that the store cannot decide: %s", g)
				}
				if g := f.take(s, fmt.Sprint("good", n), l, 1).Guarantee(); n%10 == 0 && g.Degraded {
					t.Fatalf("another key: %s", g)
				}
				time.Sleep(50 * time.Millisecond)
			}
			for range 20 {
				f.take(s, "bad", l, 1)
			}
			if s.Stats().BreakerOpen {
				t.Error("the breaker opened for one key")
			}
			f.shared.set(none)
		})
	}
}

// Of a store that fails one call in ten, the limit holds but for the shares that
// those calls were decided by.
func testTenthFails(t *testing.T, newNode New) {
	for name, x := range map[string]fault{"refuses": tenth} {
		virtual(t, name, func(t *testing.T) {
			f := newFleet(t, newNode, 4, Options{})
			l := compiled(t, weir.PerHour(1000, algorithm.SlidingWindow), strict)
			f.shared.set(x)
			passed := int64(0)
			for n := range 6000 {
				if f.take(f.nodes[n%4], "k", l, 1).Allowed() {
					passed++
				}
				time.Sleep(time.Millisecond)
			}
			if passed < 1000 || passed > 1000+l.From(weir.FromShare).Guarantee().OverAdmit {
				t.Errorf("%d of 1000 passed", passed)
			}
			if f.nodes[0].Stats().BreakerOpen {
				t.Error("the breaker opened for one call in ten")
			}
		})
	}
}

// Answers that are lost after the call was carried out cost units, and admit none
// too many.
func testLostAnswers(t *testing.T, newNode New) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, newNode, 1, Options{})
		l := compiled(t, weir.PerHour(10, algorithm.SlidingWindow), onError(params.OnErrorDeny))
		passed := 0
		for n := range 20 {
			f.shared.set([]fault{none, lost}[n%2])
			if f.take(f.nodes[0], "k", l, 1).Allowed() {
				passed++
			}
		}
		if passed != 5 || f.left("k", l) != 0 {
			t.Errorf("%d passed and %d are left, of 10 of which five were lost", passed, f.left("k", l))
		}
	})
}
