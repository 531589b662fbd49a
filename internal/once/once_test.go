package once_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/once"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/seeds"
)

// desk decides calls with keys.
type desk struct {
	t     *testing.T
	store *clocked.Store
	lim   *weir.Limiter
	calls *once.Calls
}

func newDesk(t *testing.T, limits ...*weir.Limit) *desk {
	t.Helper()
	store := clocked.New(t)
	lim, err := weir.New(store, weir.Limits(limits), weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &desk{t, store, lim, once.NewCalls()}
}

func request(user string, cost int64) *weir.Request {
	return &weir.Request{Domain: "api", Cost: cost, Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "user", Value: user}}}}}
}

// call makes a call with a key, and returns whether it was allowed and made before.
func (d *desk) call(key, user string, cost int64) (allowed, repeated bool, err error) {
	r := request(user, cost)
	d.calls.Mark(once.Check, key, r)
	a, err := d.lim.Decide(context.Background(), r)
	if err != nil {
		return false, false, err
	}
	repeated, err = once.IsRepeated(r.Mark)
	return a.Allowed(), repeated, err
}

// left checks what user could still spend.
func (d *desk) left(user string, want int64) {
	d.t.Helper()
	r := request(user, 1)
	r.Verb = weir.Peek
	if got, err := d.lim.Decide(context.Background(), r); err != nil || got.Remaining != want {
		d.t.Errorf("%s has %d left, want %d (%v)", user, got.Remaining, want, err)
	}
}

// A call is charged once for as long as it is remembered, and passes again when nothing is
// left; what asks something else under its key is an error and charges nothing.
func TestCallIsChargedOnce(t *testing.T) {
	d := newDesk(t, weir.PerDay(10, algorithm.FixedWindow))
	f := func(key, user string, cost int64, allowed, repeated bool, want error) {
		t.Helper()
		a, r, err := d.call(key, user, cost)
		if a != allowed && err == nil || r != repeated || !errors.Is(err, want) {
			t.Errorf("%s %s %d: allowed %v, repeated %v, %v", key, user, cost, a, r, err)
		}
	}
	f("a", "ann", 4, true, false, nil)
	f("a", "ann", 4, true, true, nil)
	d.left("ann", 6)
	f("a", "ann", 5, false, false, once.ErrMismatch)
	f("a", "bob", 4, true, false, nil) // beside another counter: another call
	d.left("bob", 6)
	f("b", "ann", 6, true, false, nil)
	d.left("ann", 0)
	f("a", "ann", 4, true, true, nil)
	// Refused, it leaves no mark, and is decided anew.
	f("c", "ann", 1, false, false, nil)
	f("c", "ann", 2, false, false, nil)
	d.store.Advance(once.Life - time.Microsecond)
	f("a", "ann", 4, true, true, nil)
	d.store.Advance(time.Microsecond)
	f("a", "bob", 4, true, false, nil) // forgotten
	d.left("bob", 2)
}

// Of calls at the same time one is charged.
func TestCallsAtOnce(t *testing.T) {
	d := newDesk(t, weir.PerDay(1000, algorithm.TokenBucket))
	var wg sync.WaitGroup
	var mu sync.Mutex
	fresh := 0
	for range 16 {
		wg.Go(func() {
			allowed, repeated, err := d.call("k", "ann", 7)
			if !allowed || err != nil {
				t.Errorf("allowed %v, %v", allowed, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if !repeated {
				fresh++
			}
		})
	}
	wg.Wait()
	if fresh != 1 {
		t.Errorf("%d calls were charged", fresh)
	}
	d.left("ann", 993)
}

// Repeats are no refusals: they are charged no penalty, and nobody is banned for them.
func TestRepeatsAreNoRefusals(t *testing.T) {
	banned := weir.PerDay(1, algorithm.FixedWindow)
	banned.Ban = &weir.Limit{Name: "ban", Algorithm: algorithm.Lockout, Count: 2, Period: 48 * time.Hour}
	penalizing := weir.PerDay(5, algorithm.FixedWindow)
	penalizing.Name, penalizing.Penalize = "penalizing", true
	d := newDesk(t, banned, penalizing)
	for i := range 5 {
		if allowed, repeated, err := d.call("k", "ann", 1); !allowed || repeated != (i > 0) || err != nil {
			t.Fatalf("%d: allowed %v, repeated %v, %v", i, allowed, repeated, err)
		}
	}
	if c := penalizing.Counters().Load(weir.Allowed); c != 1 {
		t.Errorf("counted %d times", c)
	}
	used := func() int64 {
		r := request("ann", 1)
		r.Verb = weir.Peek
		if _, err := d.lim.Decide(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		for _, o := range r.Ops() {
			if o.Limit.Name == "penalizing" {
				return 5 - o.Decision.Remaining
			}
		}
		return -1
	}
	if used() != 1 {
		t.Errorf("used %d", used())
	}
	// Others are refused, penalized, and banned after two.
	for i := range 3 {
		if allowed, _, err := d.call(fmt.Sprint(i), "ann", 1); allowed || err != nil {
			t.Errorf("allowed %v, %v", allowed, err)
		}
	}
	if used() < 3 {
		t.Errorf("used %d", used())
	}
	r := request("ann", 1)
	if a, err := d.lim.Decide(t.Context(), r); err != nil || !a.Banned() {
		t.Errorf("not banned: %+v, %v", a, err)
	}
}

// Random calls, with repeats of any earlier one at any time, spend what the first of each
// spend alone.
func TestCallsAsModel(t *testing.T) {
	r := rand.New(rand.NewPCG(seeds.Of(t), 1))
	for range 50 {
		d := newDesk(t, weir.PerDay(60, algorithm.FixedWindow))
		made, left := map[int]int64{}, int64(60)
		for range 80 {
			n := r.IntN(12)
			cost := int64(1 + n + r.IntN(2)*r.IntN(2))
			allowed, repeated, err := d.call(fmt.Sprint(n), "ann", cost)
			before, known := made[n]
			switch {
			case known && before != cost:
				if !errors.Is(err, once.ErrMismatch) {
					t.Fatalf("call %d of %d, was %d: %v", n, cost, before, err)
				}
			case known:
				if !allowed || !repeated || err != nil {
					t.Fatalf("call %d again: allowed %v, repeated %v, %v", n, allowed, repeated, err)
				}
			default:
				if allowed != (cost <= left) || repeated || err != nil {
					t.Fatalf("call %d of %d, %d left: allowed %v, repeated %v, %v", n, cost, left, allowed, repeated, err)
				}
				if allowed {
					made[n], left = cost, left-cost
				}
			}
			d.left("ann", left)
		}
	}
}
