package authorize_test

import (
	"context"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/authorize"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/shed"
	"github.com/weirlimit/weir/store/memory"
)

// from is a question about a request of an address.
func from(address string) *authorize.Question {
	q := &authorize.Question{}
	q.Peer, q.Method, q.Path = netip.MustParseAddr(address), "GET", "/"
	return q
}

func limiter(t testing.TB, store weir.Store, rules weir.Rules) *weir.Limiter {
	t.Helper()
	lim, err := weir.New(store, rules, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

// What cannot work is said when it is made.
func TestNew(t *testing.T) {
	lim := limiter(t, clocked.New(t), weir.Limits{})
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := who.Plan(nil)
	if err != nil {
		t.Fatal(err)
	}
	f := func(want string, opt authorize.Options) {
		t.Helper()
		_, err := authorize.New(opt)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	f("", authorize.Options{Limiter: lim})
	f("no limiter", authorize.Options{})
	f("a plan without its resolver", authorize.Options{Limiter: lim, Plan: plan})
	f("max waiting", authorize.Options{Limiter: lim, MaxWaiting: -1})
	f("route 1 is unlimited", authorize.Options{Limiter: lim, Routes: []identity.Route{{Path: "/", Cost: 2, Unlimited: true}}})
	f("it is never reached", authorize.Options{Limiter: lim, Routes: []identity.Route{{}, {Path: "/x"}}})
}

// What is refused for the service's sake is told as such.
// beside is limits that requests meet before those of a set.
type beside struct {
	first weir.Limits
	set   *limits.Set
}

// Match implements weir.Rules.
func (b beside) Match(dst []weir.Op, r *weir.Request) []weir.Op {
	return b.set.Match(b.first.Match(dst, r), r)
}

func TestShed(t *testing.T) {
	s, err := shed.New(shed.Options{FleetShare: shed.FleetOptions{Limit: shed.Rate{Count: 2, Period: time.Hour}}})
	if err != nil {
		t.Fatal(err)
	}
	own := weir.PerHour(1, algorithm.FixedWindow)
	own.Name = "own"
	if err := own.Compile(); err != nil {
		t.Fatal(err)
	}
	a, err := authorize.New(authorize.Options{Limiter: limiter(t, clocked.New(t), beside{weir.Limits{own}, limits.NewSet(s.Layer())}), Shed: s})
	if err != nil {
		t.Fatal(err)
	}
	f := func(address string, status int, want authorize.Outcome, code int) {
		t.Helper()
		q := from(address)
		q.Status = status
		rec := httptest.NewRecorder()
		if v := a.Decide(context.Background(), rec, q); v.Outcome != want || want != authorize.Allowed && rec.Code != code {
			t.Errorf("%s: %+v %d, want %d %d", address, v, rec.Code, want, code)
		}
	}
	f("192.0.2.1", 0, authorize.Allowed, 0)
	f("192.0.2.1", 0, authorize.Refused, 429) // its own fault
	f("192.0.2.2", 0, authorize.Allowed, 0)
	f("192.0.2.3", 0, authorize.Refused, 503)
	f("192.0.2.3", 403, authorize.Refused, 403)
}

// So many answers are held back at a time and no more; who goes leaves his place
// to others.
func TestWaiting(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := &weir.Limit{Name: "queue", Algorithm: algorithm.LeakyQueue, Count: 1, Period: time.Second, Burst: 100}
		store := memory.New(memory.Options{Now: func() int64 { return time.Now().UnixMicro() }})
		defer store.Close()
		a, err := authorize.New(authorize.Options{Limiter: limiter(t, store, weir.Limits{l}), MaxWaiting: 2})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(ctx context.Context) authorize.Outcome {
			q := from("192.0.2.1")
			q.MaxDelay = time.Minute
			return a.Decide(ctx, httptest.NewRecorder(), q).Outcome
		}
		began := time.Now()
		var wg sync.WaitGroup
		var mu sync.Mutex
		outcomes := map[authorize.Outcome]int{}
		for range 5 {
			wg.Go(func() {
				o := ask(context.Background())
				mu.Lock()
				defer mu.Unlock()
				outcomes[o]++
			})
		}
		wg.Wait()
		// One at once, two wait, two find no room to wait.
		if outcomes[authorize.Allowed] != 3 || outcomes[authorize.Refused] != 2 {
			t.Errorf("outcomes %v", outcomes)
		}
		took := time.Since(began)
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		if o := ask(ctx); o == authorize.Allowed {
			t.Error("allowed, though nobody waited for it")
		}
		if o := ask(context.Background()); o != authorize.Allowed {
			t.Errorf("the next: %v", o)
		}
		// The places of those who went were given back, but for one that another
		// stood behind when it was: the next has not waited for them.
		if extra := time.Since(began) - took; extra > 2*time.Second {
			t.Errorf("the next waited %s", extra)
		}
	})
}
