package admit_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/admit"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/store/memory"
)

// gate returns a gate over one limit, whose store has the time of the bubble.
func gate(t *testing.T, l *weir.Limit, opt admit.Options) *admit.Gate {
	t.Helper()
	store := memory.New(memory.Options{Now: func() int64 { return time.Now().UnixMicro() }})
	t.Cleanup(func() { store.Close() })
	var err error
	if opt.Limiter, err = weir.New(store, weir.Limits{l}, weir.Options{}); err != nil {
		t.Fatal(err)
	}
	g, err := admit.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// queue is a limit that lets one request pass a second, and delays the others.
func queue() *weir.Limit {
	return &weir.Limit{Name: "queue", Algorithm: algorithm.LeakyQueue, Count: 1, Period: time.Second, Burst: 100}
}

func permits(n int64) *weir.Limit {
	return &weir.Limit{Name: "permits", Algorithm: algorithm.Concurrency, Count: n, Period: 3 * time.Second}
}

// begin returns an admission of a request for the key a.
func begin(g *admit.Gate) *admit.Admission {
	a := g.NewAdmission()
	fill(a, g)
	return a
}

func fill(a *admit.Admission, g *admit.Gate) {
	a.Begin(g)
	a.Req.NewLease = true
	a.Req.Descriptors = append(a.Req.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "k", Value: "a"}}})
}

// A request waits for its delay, no longer than it may, and one that does not wait is
// charged nothing.
func TestWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := gate(t, queue(), admit.Options{MaxDelay: 1500 * time.Millisecond})
		within := gate(t, queue(), admit.Options{MaxDelay: time.Hour, WithinDeadline: true})
		for _, g := range []*admit.Gate{g, within} {
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			began := time.Now()
			if d, err := begin(g).Decide(ctx); err != nil || !d.Allowed() {
				t.Fatal(d, err)
			}
			second := begin(g)
			if d, err := second.Decide(ctx); err != nil || !d.Allowed() || !second.Delayed() {
				t.Fatal(d, err)
			}
			third := begin(g)
			want := time.Second // all of the rest is less
			if g == within {
				want = 2 * time.Second
			}
			for range 3 {
				if d, err := third.Decide(ctx); err != nil || d.Allowed() || d.RetryAfter != want {
					t.Fatalf("%v %v, want a refusal for %s", d, err, want)
				}
			}
			if err := second.AwaitDelay(ctx); err != nil || time.Since(began) != time.Second {
				t.Errorf("%v after %s", err, time.Since(began))
			}
			cancel()
		}
	})
}

// Only so many wait at a time; one that goes makes room, and what it was charged is given
// back.
func TestRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := gate(t, queue(), admit.Options{MaxWaiting: 1})
		decide := func(want bool) *admit.Admission {
			t.Helper()
			a := begin(g)
			if d, err := a.Decide(t.Context()); err != nil || d.Allowed() != want {
				t.Fatalf("%v, %v; want allowed: %v", d, err, want)
			}
			return a
		}
		decide(true)
		waiting := decide(true)
		decide(false)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := waiting.AwaitDelay(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		last := decide(true)
		began := time.Now()
		if err := last.AwaitDelay(t.Context()); err != nil || time.Since(began) != time.Second {
			t.Errorf("%v after %s: the place in the queue was not given back", err, time.Since(began))
		}
		decide(true).Cancel(t.Context()) // and its place in the room
		decide(true).End()
		decide(true)
	})
}

// A permit is renewed for as long as the request runs, and free once it has ended.
func TestPermits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := gate(t, permits(1), admit.Options{})
		first, second := begin(g), begin(g)
		if d, err := first.Decide(t.Context()); err != nil || !d.Allowed() || !first.NeedsFinish() {
			t.Fatal(d, err)
		}
		time.Sleep(time.Minute)
		if d, err := second.Decide(t.Context()); err != nil || d.Allowed() {
			t.Fatalf("after a minute: %v, %v", d, err)
		}
		first.Finish(t.Context(), weir.Result{Code: 200})
		if d, err := second.Decide(t.Context()); err != nil || !d.Allowed() {
			t.Fatalf("after its end: %v, %v", d, err)
		}
		second.Cancel(t.Context())
		if d, err := begin(g).Decide(t.Context()); err != nil || !d.Allowed() {
			t.Fatalf("after it was canceled: %v, %v", d, err)
		}
	})
}

// An outgoing request waits until a permit is free and its key is no longer left alone,
// and is refused where that takes too long.
func TestAwait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := gate(t, permits(1), admit.Options{MaxDelay: 10 * time.Second})
		send := func(key string) (*admit.Outgoing, error) {
			o := &admit.Outgoing{Key: key}
			fill(&o.Admission, g)
			return o, o.AwaitTurn(t.Context(), func(limit string, wait time.Duration) error { return errors.New("refused by " + limit) })
		}
		first, err := send("x")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(3100*time.Millisecond, func() { first.Finish(context.Background(), weir.Result{Code: 200}) })
		began := time.Now()
		second, err := send("x")
		if took := time.Since(began); err != nil || took < 3100*time.Millisecond || took > 4200*time.Millisecond {
			t.Errorf("%v after %s", err, took)
		}
		if _, err = send("x"); err == nil || !strings.Contains(err.Error(), "refused by permits") {
			t.Errorf("got %v", err)
		}
		second.Finish(t.Context(), weir.Result{Code: 200})
		g.PauseKey("x", 4*time.Second)
		began = time.Now()
		third, err := send("x")
		if took := time.Since(began); err != nil || took != 4*time.Second {
			t.Errorf("%v after %s", err, took)
		}
		third.Finish(t.Context(), weir.Result{Code: 200})
		g.PauseKey("x", time.Minute)
		if _, err = send("x"); err == nil || err.Error() != "refused by " {
			t.Errorf("got %v", err)
		}
		if _, err = send("y"); err != nil {
			t.Errorf("another key: %v", err)
		}
	})
}

// A new lease whose name is never heard is released.
func TestAcquire(t *testing.T) {
	g := gate(t, permits(1), admit.Options{})
	acquire := func(ctx context.Context) (weir.Decision, error) {
		r := &weir.Request{Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "k", Value: "a"}}}}}
		return admit.Acquire(ctx, g.Limiter, r)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if d, err := acquire(gone); !errors.Is(err, context.Canceled) || d.Allowed() {
		t.Errorf("%v, %v", d, err)
	}
	if d, err := acquire(t.Context()); err != nil || !d.Allowed() {
		t.Errorf("%v, %v", d, err)
	}
	if d, err := acquire(t.Context()); err != nil || d.Allowed() {
		t.Errorf("a second: %v, %v", d, err)
	}
}
