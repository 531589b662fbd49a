package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/clocked"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/store/memory"
)

// hung is a store that answers no more once it is told so.
type hung struct {
	weir.Store
	hangs atomic.Bool
}

func (s *hung) Take(ctx context.Context, ops []weir.Op) error {
	if s.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Store.Take(ctx, ops)
}

// TestStoreHangs: a store that hangs holds up the end of a request for a bounded
// time, and its renewals pile up nowhere.
func TestStoreHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		limits := append(concurrency(1), settled(5, weir.Adjustment{RefundOn: codes(200)})...)
		limits[0].Period = 9 * time.Second
		store := &hung{Store: bubbled(t, weir.Limits{}).Store()}
		lim, err := weir.New(store, limits, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := httplimit.New(httplimit.Options{Limiter: lim})
		if err != nil {
			t.Fatal(err)
		}
		from := time.Now()
		m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			store.hangs.Store(true)
			<-time.After(4 * time.Second) // a renewal is under way since a second
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		// Five seconds each to settle and to release; the renewal ends meanwhile.
		if took := time.Since(from); took != 14*time.Second {
			t.Errorf("it took %s, want 14s", took)
		}
		store.hangs.Store(false)
		<-time.After(9 * time.Second)
		d, err := lim.Decide(t.Context(), &weir.Request{Lease: "next", Descriptors: []weir.Descriptor{{Entries: []weir.Entry{{Key: "remote_address", Value: "192.0.2.1"}}}}})
		if err != nil || !d.Allowed() {
			t.Errorf("after the lease's time: %v %v", d, err)
		}
	})
}

// bubbled returns a limiter whose store runs on the time of a synctest bubble.
func bubbled(t *testing.T, rules weir.Rules) *weir.Limiter {
	t.Helper()
	store := memory.New(memory.Options{MaxBytes: 16 << 20, Now: func() int64 { return time.Now().UnixMicro() }})
	t.Cleanup(func() { store.Close() })
	lim, err := weir.New(store, rules, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

// TestLeaseIsRenewed: a request that outlasts its lease still counts, and
// leaves nothing behind.
func TestLeaseIsRenewed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		limits := concurrency(1)
		limits[0].Period = 9 * time.Second
		lim := bubbled(t, limits)
		m, err := httplimit.New(httplimit.Options{Limiter: lim})
		if err != nil {
			t.Fatal(err)
		}
		serve := func(next http.HandlerFunc) int {
			w := httptest.NewRecorder()
			m.Handler(next).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			return w.Code
		}
		status := serve(func(http.ResponseWriter, *http.Request) {
			for range 100 {
				<-time.After(time.Second)
				if n := left(t, lim, "192.0.2.1"); n != 0 {
					t.Fatalf("%d left: the lease was lost", n)
				}
			}
		})
		if status != 200 {
			t.Errorf("got %d", status)
		}
		<-time.After(4 * time.Second)
		if n := left(t, lim, "192.0.2.1"); n != 1 {
			t.Errorf("%d left after the request: it was renewed once more", n)
		}
	})
}

// failing is a store that fails while it is told to.
type failing struct {
	weir.Store
	fail atomic.Bool
	// late fails after the work was done, as over a network.
	late  atomic.Bool
	calls atomic.Int64
}

func (s *failing) Take(ctx context.Context, ops []weir.Op) error {
	s.calls.Add(1)
	if s.late.Load() {
		_ = s.Store.Take(ctx, ops)
		return errors.New("too late")
	}
	if s.fail.Load() {
		return errors.New("away")
	}
	return s.Store.Take(ctx, ops)
}

// TestStoreAnswersTooLate: a request that passes without a decision has nothing
// to settle, whatever its ops say.
func TestStoreAnswersTooLate(t *testing.T) {
	store := &failing{Store: clocked.New(t)}
	store.late.Store(true)
	lim, err := weir.New(store, append(concurrency(1), settled(5, weir.Adjustment{RefundOn: codes(200)})...), weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(httplimit.Options{Limiter: lim, OnError: func(http.ResponseWriter, *http.Request, error) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	m.Handler(http.HandlerFunc(hello)).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Body.String() != "hello" || store.calls.Load() != 1 {
		t.Errorf("got %s after %d calls", w.Body, store.calls.Load())
	}
	tr := transport(t, lim, ok, httplimit.TransportOptions{OnError: func(*http.Request, error) error { return nil }})
	if _, err := send(t, tr, api); err != nil || store.calls.Load() != 2 {
		t.Errorf("outgoing: %v after %d calls", err, store.calls.Load())
	}
}

// TestNobodyPassesByLeaving: a client that has gone before the store answered is not
// served, whatever OnError says of a store that fails.
func TestNobodyPassesByLeaving(t *testing.T) {
	store := &failing{Store: clocked.New(t)}
	store.late.Store(true)
	lim, err := weir.New(store, concurrency(1), weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(httplimit.Options{Limiter: lim, OnError: func(http.ResponseWriter, *http.Request, error) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	m.Handler(http.HandlerFunc(hello)).ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
	if w.Code != http.StatusServiceUnavailable || w.Body.String() == "hello" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// TestRenewalOutlivesAStoreThatFails: a lease whose renewal failed once is
// renewed the next time.
func TestRenewalOutlivesAStoreThatFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		limits := concurrency(1)
		limits[0].Period = 9 * time.Second
		store := &failing{Store: bubbled(t, weir.Limits{}).Store()}
		lim, err := weir.New(store, limits, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := httplimit.New(httplimit.Options{Limiter: lim})
		if err != nil {
			t.Fatal(err)
		}
		m.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			store.fail.Store(true)
			<-time.After(4 * time.Second) // the renewal after 3 s fails
			store.fail.Store(false)
			<-time.After(10 * time.Second)
			if n := left(t, lim, "192.0.2.1"); n != 0 {
				t.Errorf("%d left: the lease was lost", n)
			}
		})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		if n := left(t, lim, "192.0.2.1"); n != 1 {
			t.Errorf("%d left, want 1", n)
		}
	})
}

// recording is a store that notes how many ops each call has.
type recording struct {
	weir.Store
	mu    sync.Mutex
	calls []int
}

func (s *recording) Take(ctx context.Context, ops []weir.Op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, len(ops))
	return s.Store.Take(ctx, ops)
}

func (s *recording) taken() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := fmt.Sprint(s.calls)
	s.calls = nil
	return calls
}
