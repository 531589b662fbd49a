package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/clocked"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/shed"
)

// queue lets 20 a second pass, one after the other.
func queue(burst int64) weir.Limits {
	return weir.Limits{&weir.Limit{Name: "queue", Algorithm: algorithm.LeakyQueue, Count: 20, Period: time.Second, Burst: burst}}
}

// TestDelay: who may pass later does, and at the right time.
func TestDelay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m, err := httplimit.New(httplimit.Options{Limiter: bubbled(t, queue(10)), MaxWaiting: 3, MaxDelay: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		from := time.Now()
		type result struct {
			code  int
			after time.Duration
			retry string
		}
		results := make(chan result, 6)
		for range 6 {
			go func() {
				w := httptest.NewRecorder()
				m.Handler(http.HandlerFunc(hello)).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
				results <- result{w.Code, time.Since(from), w.Header().Get("Retry-After")}
			}()
		}
		got := map[result]int{}
		for range 6 {
			got[<-results]++
		}
		// One at once, three wait, and the others are refused and give their
		// places back.
		want := map[result]int{{200, 0, ""}: 1, {429, 0, "1"}: 2,
			{200, 50 * time.Millisecond, ""}: 1, {200, 100 * time.Millisecond, ""}: 1, {200, 150 * time.Millisecond, ""}: 1}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v\nwant %v", got, want)
		}
		for range 5 { // one after the other, there is always room to wait
			w := httptest.NewRecorder()
			if m.Handler(http.HandlerFunc(hello)).ServeHTTP(w, httptest.NewRequest("GET", "/", nil)); w.Code != 200 {
				t.Errorf("then: got %d", w.Code)
			}
		}
	})
}

// TestDelayTooLong: who would wait longer than MaxDelay is refused, and leaves
// the queue.
func TestDelayTooLong(t *testing.T) {
	store := clocked.New(t)
	s := &site{t: t, store: store}
	h := s.limited(queue(20), httplimit.Options{MaxDelay: 10 * time.Millisecond}, http.HandlerFunc(hello))
	f := func(status int, retry string) {
		t.Helper()
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil)); w.Code != status || w.Header().Get("Retry-After") != retry {
			t.Errorf("got %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
		}
	}
	f(200, "")
	for range 50 { // each gives its place back, so that the head alone is in the way
		f(429, "1")
	}
	store.Advance(50 * time.Millisecond)
	f(200, "")
}

// TestHangUpWhileWaiting: who leaves the queue gives the place back.
func TestHangUpWhileWaiting(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := &weir.Limit{Name: "queue", Algorithm: algorithm.LeakyQueue, Count: 1, Period: time.Hour, Burst: 1}
		m, err := httplimit.New(httplimit.Options{Limiter: bubbled(t, weir.Limits{l}), MaxDelay: 2 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		h := m.Handler(http.HandlerFunc(hello))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		for range 3 { // there is one place
			ctx, hangUp := context.WithTimeout(t.Context(), time.Minute)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil).WithContext(ctx))
			if w.Body.Len() > 0 || ctx.Err() == nil {
				t.Errorf("answered %d %s", w.Code, w.Body)
			}
			hangUp()
		}
	})
}

// TestWaitingIsNotUnderWay: who is held back takes no room on the node, and
// needs it afterwards.
func TestWaitingIsNotUnderWay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		sh, err := shed.New(shed.Options{InFlight: shed.InFlightOptions{Limit: 1}})
		if err != nil {
			t.Fatal(err)
		}
		m, err := httplimit.New(httplimit.Options{Limiter: bubbled(t, queue(10)), Shed: sh})
		if err != nil {
			t.Fatal(err)
		}
		serve := func(next http.HandlerFunc) int {
			w := httptest.NewRecorder()
			m.Handler(next).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			return w.Code
		}
		serve(hello)
		waited := make(chan int)
		go func() { waited <- serve(hello) }()
		synctest.Wait() // it waits for 50 ms
		var place shed.Slot
		if !sh.Enter(&place, 0) {
			t.Error("who waits takes the room")
		}
		if got := <-waited; got != 503 {
			t.Errorf("without room after the wait: got %d", got)
		}
		place.Leave()
		if got := serve(hello); got != 200 {
			t.Errorf("then: got %d", got)
		}
	})
}
