package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/store/memory"
)

func newClient(t *testing.T, opt Options) *Client {
	t.Helper()
	c, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func check(t *testing.T, c *Client, k Check) Decision {
	t.Helper()
	d, err := c.Check(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var ann = Of("shop", weir.Entry{Key: "user", Value: "ann"})

func TestRefusalIsRemembered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		refusal := Decision{RetryAfter: 10 * time.Second, ResetAfter: 30 * time.Second, Limit: perMinute, Limits: refusedBy(perMinute)}
		w := &wire{decide: func(ctx context.Context, ks []Check, _ bool) ([]Decision, error) {
			time.Sleep(20 * time.Millisecond) // on the way
			return says(refusal)(ctx, ks, false)
		}}
		c := newClient(t, Options{Wire: w})
		k := ann
		k.Cost = 5
		start := time.Now()
		if d := check(t, c, k); d.Allowed || d.Source != Service || d.RetryAfter != 10*time.Second {
			t.Errorf("the service said %+v", d)
		}
		time.Sleep(4 * time.Second)
		d := check(t, c, k)
		if d.Allowed || d.Source != Remembered || d.Degraded || w.asked != 1 {
			t.Errorf("after 4 s: %+v, %d calls", d, w.asked)
		}
		// It counts from when it was asked, 4.02 s ago.
		if d.RetryAfter != 5980*time.Millisecond || d.ResetAfter != 25980*time.Millisecond {
			t.Errorf("after 4.02 s: retry after %v, reset after %v", d.RetryAfter, d.ResetAfter)
		}
		time.Sleep(time.Until(start.Add(10*time.Second - 1)))
		if d := check(t, c, k); d.Source != Remembered {
			t.Errorf("just before it ends: %+v", d)
		}
		time.Sleep(time.Nanosecond)
		if d := check(t, c, k); d.Source != Service {
			t.Errorf("when it has ended: %+v", d)
		}
		dear, cheap, other, low := k, k, k, k
		dear.Cost, cheap.Cost, low.Priority = 6, 4, 1
		other.Descriptors = []weir.Descriptor{{Entries: []weir.Entry{{Key: "user", Value: "bob"}}}}
		for _, f := range []struct {
			k    Check
			want Source
		}{{dear, Remembered}, {cheap, Service}, {other, Service}, {low, Service}, {k, Remembered}} {
			if d := check(t, c, f.k); d.Source != f.want {
				t.Errorf("%+v: decided by %v, want %v", f.k, d.Source, f.want)
			}
		}
		if _, err := c.Peek(t.Context(), k); err != nil || w.asked != 6 {
			t.Errorf("peek: %v, %d calls", err, w.asked)
		}
		if n := c.Counters(); n.Remembered != 4 || n.Calls != 6 {
			t.Errorf("counters %+v", n)
		}
	})
}

func TestWhatIsNotRemembered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := func(d Decision, most time.Duration, want int) {
			t.Helper()
			w := &wire{decide: says(d)}
			c := newClient(t, Options{Wire: w, MaxRemember: most})
			for range 3 {
				check(t, c, ann)
				time.Sleep(time.Second)
			}
			if w.asked != want {
				t.Errorf("%+v: %d calls of 3, want %d", d, w.asked, want)
			}
		}
		s := 10 * time.Second
		slots := &Limit{Name: "slots", Algorithm: "concurrency"}
		by := refusedBy(perMinute)
		f(Decision{RetryAfter: s, Limits: by}, 0, 1)
		f(Decision{RetryAfter: weir.Never, Limits: by}, 0, 1)
		f(Decision{RetryAfter: s, Limits: by}, 2*time.Second, 2)
		f(Decision{RetryAfter: weir.Never, Limits: by}, time.Second, 3)
		f(Decision{RetryAfter: s, Limits: by}, -1, 3)
		f(Decision{RetryAfter: s, Limits: by, Degraded: true}, 0, 3)
		f(Decision{Allowed: true, Limits: by}, 0, 3)
		f(Decision{RetryAfter: s, Limit: perMinute}, 0, 3) // the limits are not known
		f(Decision{RetryAfter: s, Limits: refusedBy(slots)}, 0, 3)
		f(Decision{RetryAfter: s, Limit: perMinute, Limits: []Outcome{{Limit: slots, Role: "enforce"}}}, 0, 3)
		f(Decision{RetryAfter: s, Limit: perMinute, Limits: []Outcome{{Limit: slots, Role: "enforce", Allowed: true}, {Limit: perMinute, Role: "enforce"}}}, 0, 1)
		f(Decision{RetryAfter: s, Limit: perMinute, Limits: []Outcome{{Limit: perMinute, Role: "own"}}}, 0, 3)
	})
}

func TestMemoryIsBounded(t *testing.T) {
	var m refusals
	now := time.Now()
	d := Decision{RetryAfter: time.Hour}
	for i := range 3 * maxRemembered {
		m.remember(string(rune(i)), 1, d, now, time.Hour)
		if len(m.of) > maxRemembered {
			t.Fatalf("%d are kept", len(m.of))
		}
	}
	if len(m.of) < maxRemembered-1 {
		t.Errorf("only %d are kept", len(m.of))
	}
	m.remember("late", 1, d, now.Add(2*time.Hour), time.Hour)
	if _, ok := m.refusal("late", 1, now.Add(2*time.Hour)); !ok {
		t.Error("the latest is not kept")
	}
}

func TestGivingBackForgetsRefusals(t *testing.T) {
	w := &wire{decide: says(Decision{RetryAfter: time.Hour, Limits: refusedBy(perMinute)})}
	c := newClient(t, Options{Wire: w})
	check(t, c, ann)
	w.settle = func(string, int64) (Settlement, error) { return Settlement{5, 5}, nil }
	if _, err := c.Commit(t.Context(), Reservation{Handle: "x"}, 5); err != nil {
		t.Fatal(err)
	}
	if check(t, c, ann); w.asked != 1 {
		t.Errorf("%d calls, want the refusal remembered", w.asked)
	}
	w.settle = func(string, int64) (Settlement, error) { return Settlement{5, 0}, nil }
	if _, err := c.Cancel(t.Context(), Reservation{Handle: "x"}); err != nil {
		t.Fatal(err)
	}
	if check(t, c, ann); w.asked != 2 {
		t.Errorf("%d calls, want the service asked after units were given back", w.asked)
	}
}

func TestBatchAsksForTheRestOnly(t *testing.T) {
	var last []Check
	w := &wire{decide: func(_ context.Context, ks []Check, _ bool) ([]Decision, error) {
		last = ks
		ds := make([]Decision, len(ks))
		for i, k := range ks {
			ds[i] = Decision{Allowed: true, Remaining: k.Cost}
			if k.Cost == 2 {
				ds[i] = Decision{RetryAfter: time.Hour, Limits: refusedBy(perMinute)}
			}
		}
		return ds, nil
	}}
	c := newClient(t, Options{Wire: w, Domain: "shop"})
	ks := make([]Check, 4)
	for i := range ks {
		ks[i] = Of("", weir.Entry{Key: "user", Value: string(rune('a' + i))})
		ks[i].Cost = int64(i)
	}
	for i, want := range []int{4, 3} {
		ds, err := c.CheckAll(t.Context(), ks)
		if err != nil || len(ds) != 4 || len(last) != want {
			t.Fatalf("round %d: %v %v, asked %d", i, ds, err, len(last))
		}
		for j, d := range ds {
			if d.Allowed != (j != 2) || d.Allowed && d.Remaining != int64(j) {
				t.Errorf("round %d: answer %d is %+v", i, j, d)
			}
		}
	}
	if last[0].Domain != "shop" || ks[0].Domain != "" {
		t.Errorf("domains %q and %q", last[0].Domain, ks[0].Domain)
	}
	if _, err := c.CheckAll(t.Context(), nil); err == nil {
		t.Error("no checks were taken")
	}
	if _, err := c.CheckAll(t.Context(), make([]Check, 1001)); err == nil {
		t.Error("1001 checks were taken")
	}
}

func TestServiceAway(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := &wire{decide: hangs}
		c := newClient(t, Options{Wire: w})
		start := time.Now()
		for i := range 8 {
			d := check(t, c, ann)
			if !d.Allowed || !d.Degraded || d.Source != Policy || d.Cause == nil || d.Remaining != -1 {
				t.Fatalf("call %d: %+v", i, d)
			}
			if i >= 5 && !errors.Is(d.Cause, ErrOpen) {
				t.Errorf("call %d: %v", i, d.Cause)
			}
		}
		// Five calls of a budget each, and then none.
		if took := time.Since(start); took != 500*time.Millisecond || w.asked != 5 {
			t.Errorf("eight checks took %v and %d calls", took, w.asked)
		}
		if n := c.Counters(); !n.Open || n.Opened != 1 || n.Timeouts != 5 || n.Broken != 3 || n.Allowed != 8 || n.InFlight != 0 {
			t.Errorf("counters %+v", n)
		}
		// Calls of probes are twice as far apart each time, to half a minute and up
		// to half more.
		var gaps []time.Duration
		last, calls := time.Now().Add(-100*time.Millisecond), w.asked
		for len(gaps) < 8 {
			time.Sleep(10 * time.Millisecond)
			check(t, c, ann)
			if w.asked > calls {
				gaps, last, calls = append(gaps, time.Since(last)), time.Now(), w.asked
			}
		}
		want := time.Second
		for i, gap := range gaps {
			if gap < want || gap > want*3/2+300*time.Millisecond {
				t.Errorf("probe %d came after %v, want %v to half more", i, gap, want)
			}
			want = min(2*want, 30*time.Second)
		}
		// It is back: the next probe finds out, and all go.
		w.decide = says(Decision{Allowed: true})
		time.Sleep(46 * time.Second)
		for range 3 {
			if d := check(t, c, ann); d.Source != Service || d.Degraded {
				t.Errorf("the service is back: %+v", d)
			}
		}
		if c.Counters().Open {
			t.Error("the breaker is open though the service answers")
		}
	})
}

func TestOneProbeAtATime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := &wire{decide: fails(errors.New("refused"))}
		c := newClient(t, Options{Wire: w})
		for range 5 {
			check(t, c, ann)
		}
		time.Sleep(2 * time.Second)
		w.decide, w.asked = hangs, 0
		done := make(chan Decision)
		for range 10 {
			go func() {
				d, _ := c.Check(context.Background(), ann)
				done <- d
			}()
		}
		for range 10 {
			<-done
		}
		if w.asked != 1 {
			t.Errorf("%d calls probed at once", w.asked)
		}
		// A probe whose caller goes away is no verdict, and another may go.
		time.Sleep(4 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if _, err := c.Check(ctx, ann); !errors.Is(err, context.Canceled) {
			t.Errorf("a call that was canceled: %v", err)
		}
		w.decide = says(Decision{Allowed: true})
		if d := check(t, c, ann); d.Source != Service {
			t.Errorf("after a probe that was canceled: %+v", d)
		}
	})
}

func TestAwayPolicies(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := &wire{decide: fails(errors.New("connection refused"))}
		c := newClient(t, Options{Wire: w, Fallback: Deny})
		for range 5 {
			if d := check(t, c, ann); d.Allowed || !d.Degraded || d.RetryAfter < 100*time.Millisecond {
				t.Errorf("deny: %+v", d)
			}
		}
		if d := check(t, c, ann); d.RetryAfter < time.Second || d.RetryAfter > 1500*time.Millisecond {
			t.Errorf("retry after %v, want when the service is tried again", d.RetryAfter)
		}

		store := memory.New(memory.Options{})
		defer store.Close()
		local, err := weir.New(store, weir.Limits{{Name: "alone", Count: 3, Period: time.Minute, Algorithm: algorithm.FixedWindow}}, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c = newClient(t, Options{Wire: w, Fallback: DecideLocally, Local: local})
		for i := range 5 {
			d := check(t, c, ann)
			if d.Allowed != (i < 3) || d.Source != Local || !d.Degraded || d.Limit == nil || d.Limit.Name != "alone" {
				t.Errorf("local decision %d: %+v", i, d)
			}
		}
		bob := ann
		bob.Descriptors = []weir.Descriptor{{Entries: []weir.Entry{{Key: "user", Value: "bob"}}}}
		for range 2 { // looking spends nothing
			if d, err := c.Peek(t.Context(), bob); err != nil || !d.Allowed || d.Remaining != 3 {
				t.Errorf("local peek: %+v %v", d, err)
			}
		}
		if n := c.Counters(); n.Local != 7 || n.Broken != 2 || n.Failures != 5 {
			t.Errorf("counters %+v", n)
		}
		// A refusal of this process is not remembered as the service's.
		w.decide = says(Decision{Allowed: true})
		time.Sleep(2 * time.Second)
		if d := check(t, c, ann); d.Source != Service {
			t.Errorf("the service is back: %+v", d)
		}
	})
}

func TestCallerAtFault(t *testing.T) {
	w := &wire{decide: fails(&Error{Status: 400, Detail: "#/cost: must not be"})}
	c := newClient(t, Options{Wire: w})
	for range 30 {
		var wrong *Error
		if _, err := c.Check(t.Context(), ann); !errors.As(err, &wrong) || wrong.Status != 400 {
			t.Fatal(err)
		}
	}
	if n := c.Counters(); n.Open || n.Wrong != 30 || n.Allowed != 0 {
		t.Errorf("counters %+v", n)
	}
	w.decide = says(Decision{Allowed: true})
	f := func(k Check, want string) {
		t.Helper()
		if _, err := c.Check(t.Context(), k); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", k, err, want)
		}
	}
	f(Of("\xff"), "UTF-8")
	f(Of("a", weir.Entry{Key: "k", Value: "\xff"}), "UTF-8")
	f(Check{Descriptors: []weir.Descriptor{{Override: &weir.Limit{}}}}, "override")
	f(Check{Cost: -1}, "cost")
	f(Check{Cost: weir.MaxCost + 1}, "cost")
}

func TestBudget(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newClient(t, Options{Wire: &wire{decide: hangs}, Budget: 80 * time.Millisecond})
		f := func(deadline, want time.Duration) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			start := time.Now()
			if d, err := c.Check(ctx, ann); err != nil || !d.Allowed {
				t.Errorf("deadline %v: %+v %v", deadline, d, err)
			}
			if took := time.Since(start); took != want {
				t.Errorf("deadline %v: took %v, want %v", deadline, took, want)
			}
		}
		f(time.Hour, 80*time.Millisecond)
		f(60*time.Millisecond, 30*time.Millisecond)
		for range 20 { // callers in a hurry show nothing about the service
			f(2*time.Millisecond, time.Millisecond)
		}
		if c.Counters().Open {
			t.Error("callers in a hurry opened the breaker")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Check(ctx, ann); !errors.Is(err, context.Canceled) {
			t.Errorf("a context that has ended: %v", err)
		}
	})
}

func TestInFlight(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newClient(t, Options{Wire: &wire{decide: hangs}, MaxInFlight: 3})
		done := make(chan Decision)
		for range 10 {
			go func() {
				d, _ := c.Check(context.Background(), ann)
				done <- d
			}()
		}
		crowded := 0
		for range 10 {
			if d := <-done; errors.Is(d.Cause, ErrInFlight) {
				crowded++
			}
		}
		if crowded != 7 || c.Counters().Crowded != 7 || c.Counters().InFlight != 0 {
			t.Errorf("%d of 10 were too many, want 7; %+v", crowded, c.Counters())
		}
	})
}

func TestBusyServiceIsLeftAlone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := &wire{decide: fails(&Busy{RetryAfter: 3 * time.Second, Detail: "too many requests"})}
		c := newClient(t, Options{Wire: w})
		start := time.Now()
		for time.Since(start) < 2900*time.Millisecond {
			check(t, c, ann)
			time.Sleep(10 * time.Millisecond)
		}
		if w.asked != 2 || c.Counters().Busy != 2 {
			t.Errorf("%d calls in 2.9 s of a service that asked for 3, want two", w.asked)
		}
		w.decide = says(Decision{Allowed: true})
		time.Sleep(1700 * time.Millisecond)
		if d := check(t, c, ann); d.Source != Service {
			t.Errorf("after 4.6 s: %+v", d)
		}
		// One question that cannot be answered does not keep the others away.
		for range 10 {
			w.decide = fails(&Busy{RetryAfter: time.Second})
			check(t, c, ann)
			w.decide = says(Decision{Allowed: true})
			for range 2 {
				if d := check(t, c, ann); d.Source != Service {
					t.Fatalf("after one question that was not answered: %+v", d)
				}
			}
		}
	})
}

// TestServiceThatFailsSome: one call in three fails, which the breaker takes.
// With the breaker satisfied, the throttle refuses what is more than twice the
// successes.
func TestServiceThatFailsSome(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := 0
		w := &wire{}
		w.decide = func(ctx context.Context, ks []Check, peek bool) ([]Decision, error) {
			if n++; n%20 < 9 && n%20%2 == 0 || n%20 > 12 {
				return nil, errors.New("overloaded")
			}
			return says(Decision{Allowed: true})(ctx, ks, peek)
		}
		c := newClient(t, Options{Wire: w, Throttle: ThrottleOptions{Ratio: 1}})
		// It refuses at random.
		for range 60_000 {
			check(t, c, ann)
			time.Sleep(time.Millisecond)
			if c.Counters().Throttled > 0 {
				break
			}
		}
		if got := c.Counters(); got.Throttled == 0 {
			t.Errorf("nothing was spared a service that fails half of what it is asked: %+v", got)
		}
	})
}

func TestWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		// A window of which one request in ten seconds passes.
		var free time.Time
		w := &wire{decide: func(ctx context.Context, ks []Check, _ bool) ([]Decision, error) {
			if now := time.Now(); now.Before(free) {
				return says(Decision{RetryAfter: free.Sub(now), Limit: perMinute})(ctx, ks, false)
			}
			return says(Decision{Allowed: true, Limit: perMinute})(ctx, ks, false)
		}}
		var waits []time.Duration
		for range 200 {
			c := newClient(t, Options{Wire: w, MaxWait: time.Minute})
			free = time.Now().Add(8 * time.Second)
			start := time.Now()
			if d, err := c.Wait(t.Context(), ann); err != nil || !d.Allowed {
				t.Fatalf("%+v %v", d, err)
			}
			if w.asked > 2 {
				t.Fatalf("%d calls for one wait", w.asked)
			}
			w.asked = 0
			waits = append(waits, time.Since(start))
		}
		slices.Sort(waits)
		if waits[0] < 8*time.Second || waits[199] > 10*time.Second {
			t.Errorf("waits from %v to %v, want 8 s to a quarter more", waits[0], waits[199])
		}
		if spread := waits[180] - waits[20]; spread < time.Second {
			t.Errorf("four fifths return within %v of each other", spread)
		}

		c := newClient(t, Options{Wire: w})
		f := func(wait, deadline, most time.Duration, want error) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			free = time.Now().Add(wait)
			start := time.Now()
			_, err := c.Wait(ctx, ann)
			var refused *Refused
			if want == nil && err != nil || want != nil && !errors.As(err, &refused) {
				t.Errorf("wait %v with %v left: %v", wait, deadline, err)
			}
			if took := time.Since(start); took > most {
				t.Errorf("wait %v with %v left took %v", wait, deadline, took)
			}
			time.Sleep(time.Until(free.Add(time.Second)))
		}
		f(8*time.Second, time.Hour, 10*time.Second, nil)
		f(8*time.Second, 8*time.Second+50*time.Millisecond, 8*time.Second+50*time.Millisecond, nil) // jitter leaves room
		f(8*time.Second, 7*time.Second, 0, new(Refused))                                            // at once
		f(11*time.Second, time.Hour, 0, new(Refused))                                               // MaxWait
	})
}

func TestWaitOfADelayedRequest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := &wire{decide: says(Decision{Allowed: true, Delay: 3 * time.Second})}
		c := newClient(t, Options{Wire: w})
		start := time.Now()
		if _, err := c.Wait(t.Context(), ann); err != nil || time.Since(start) != 3*time.Second {
			t.Errorf("%v after %v, want exactly its turn", err, time.Since(start))
		}
		w.decide = says(Decision{RetryAfter: weir.Never, Limit: perMinute})
		var refused *Refused
		if _, err := c.Wait(t.Context(), ann); !errors.As(err, &refused) || !strings.Contains(err.Error(), "whatever the wait") {
			t.Errorf("what can never pass: %v", err)
		}
		w.decide = says(Decision{RetryAfter: time.Hour, Limit: &Limit{Name: "slots", Algorithm: "concurrency"}})
		time.AfterFunc(2*time.Second, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.decide = says(Decision{Allowed: true})
		})
		start = time.Now()
		bob := Of("shop", weir.Entry{Key: "user", Value: "bob"})
		if d, err := c.Wait(t.Context(), bob); err != nil || !d.Allowed || time.Since(start) > 4*time.Second {
			t.Errorf("a place that became free after 2 s: %+v %v after %v", d, err, time.Since(start))
		}
	})
}

func TestTooManyWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := &wire{decide: says(Decision{RetryAfter: 5 * time.Second, Limit: &Limit{Algorithm: "concurrency"}})}
		c := newClient(t, Options{Wire: w, MaxWaiting: 2, MaxWait: time.Second})
		done := make(chan time.Duration)
		for range 5 {
			go func() {
				start := time.Now()
				_, _ = c.Wait(context.Background(), ann)
				done <- time.Since(start)
			}()
		}
		atOnce := 0
		for range 5 {
			if took := <-done; took == 0 {
				atOnce++
			}
		}
		if atOnce != 3 {
			t.Errorf("%d of 5 were refused at once where 2 may wait", atOnce)
		}
	})
}

func TestLeases(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		held := map[string]int{}
		w := &wire{
			acquire: func(k Check) (Decision, error) {
				held[k.Lease]++
				return Decision{Allowed: true}, nil
			},
			release: func(k Check) error {
				delete(held, k.Lease)
				return nil
			},
		}
		c := newClient(t, Options{Wire: w})
		l, d, err := c.Acquire(t.Context(), ann)
		if err != nil || !d.Allowed || l.Check.Lease == "" {
			t.Fatalf("%+v %+v %v", l, d, err)
		}
		other, _, _ := c.Acquire(t.Context(), ann)
		if other.Check.Lease == l.Check.Lease {
			t.Error("two leases have one name")
		}
		if l, _, err = c.Renew(t.Context(), l); err != nil || held[l.Check.Lease] != 2 {
			t.Errorf("renewed: %v %v", held, err)
		}
		if _, err := c.Release(t.Context(), l); err != nil || len(held) != 1 {
			t.Errorf("released: %v %v", held, err)
		}
		if _, err := c.Release(t.Context(), Lease{}); err != nil {
			t.Errorf("no lease: %v", err)
		}
		// Nobody answers: allowed, and nothing is held that must be released.
		w.acquire = func(Check) (Decision, error) { return Decision{}, errors.New("refused") }
		for range 5 {
			_, _, _ = c.Acquire(t.Context(), ann)
		}
		l, d, err = c.Acquire(t.Context(), ann)
		if err != nil || !d.Allowed || !d.Degraded || l.remote {
			t.Errorf("without a service: %+v %+v %v", l, d, err)
		}
		if _, err := c.Release(t.Context(), l); err != nil {
			t.Errorf("release of what nobody holds: %v", err)
		}
	})
}

func TestLocalLeases(t *testing.T) {
	store := memory.New(memory.Options{})
	defer store.Close()
	local, err := weir.New(store, weir.Limits{{Name: "slots", Count: 1, Period: time.Minute, Algorithm: algorithm.Concurrency}}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{
		acquire: func(Check) (Decision, error) { return Decision{}, errors.New("refused") },
		release: func(Check) error { return nil },
	}
	c := newClient(t, Options{Wire: w, Fallback: DecideLocally, Local: local})
	l, d, err := c.Acquire(t.Context(), ann)
	if err != nil || !d.Allowed || d.Source != Local {
		t.Fatalf("%+v %v", d, err)
	}
	if _, d, _ := c.Acquire(t.Context(), ann); d.Allowed {
		t.Error("two hold the only place")
	}
	if _, err := c.Release(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if _, d, _ := c.Acquire(t.Context(), ann); !d.Allowed {
		t.Errorf("the place was released: %+v", d)
	}
}

func TestReservationsWithoutAService(t *testing.T) {
	w := &wire{reserve: func(Check) (Decision, string, time.Time, error) {
		return Decision{}, "", time.Time{}, errors.New("refused")
	}, settle: func(string, int64) (Settlement, error) {
		return Settlement{}, errors.New("refused")
	}}
	c := newClient(t, Options{Wire: w})
	r, err := c.Reserve(t.Context(), ann)
	if err != nil || !r.Decision.Allowed || r.Handle != "" {
		t.Fatalf("%+v %v", r, err)
	}
	if s, err := c.Commit(t.Context(), r, 7); err != nil || s.Actual != 7 {
		t.Errorf("nothing to settle: %+v %v", s, err)
	}
	if _, err := c.Commit(t.Context(), Reservation{Handle: "x"}, 7); err == nil {
		t.Error("a commit that was not heard is no error")
	}
	if _, err := c.Commit(t.Context(), Reservation{Handle: "x"}, -1); err == nil {
		t.Error("a negative cost was committed")
	}
}
