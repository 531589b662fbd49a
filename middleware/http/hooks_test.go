package httplimit_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/limits"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/shed"
)

var quiet = log.New(io.Discard, "", 0)

// byTenant limits by a header that an embedder trusts.
func byTenant(r *http.Request, w *weir.Request) {
	w.Descriptors = append(w.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "tenant", Value: r.Header.Get("X-Tenant")}}})
}

func TestOwnKeys(t *testing.T) {
	s := newSite(t, permin(1), httplimit.Options{Descriptors: byTenant}, hello)
	f := func(tenant string, want int) {
		t.Helper()
		r, err := http.NewRequest("GET", s.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Tenant", tenant)
		res, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: got %d, want %d", tenant, res.StatusCode, want)
		}
	}
	f("a", 200)
	f("b", 200)
	f("a", 429)
	if n := s.left(); n != 1 {
		t.Errorf("the address has %d left: it was asked for too", n)
	}
}

// TestOwnKeysBesidePlan: with a plan the hook adds to it.
func TestOwnKeysBesidePlan(t *testing.T) {
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := who.Plan(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, permin(1), httplimit.Options{Identity: who, Plan: plan, Descriptors: byTenant}, hello)
	s.get("/")
	if n := s.left(); n != 0 {
		t.Errorf("the address has %d left, want 0", n)
	}
	if n := left(t, s.lim, ""); n != 0 {
		t.Errorf("the tenant has %d left, want 0", n)
	}
}

func TestOwnCost(t *testing.T) {
	cost := atomic.Int64{}
	s := newSite(t, permin(10), httplimit.Options{
		Cost:    func(*http.Request) int64 { return cost.Load() },
		OnError: func(http.ResponseWriter, *http.Request, error) bool { return true },
	}, hello)
	f := func(n int64, status int, left int64) {
		t.Helper()
		cost.Store(n)
		res, _ := s.get("/")
		if res.StatusCode != status || s.left() != left {
			t.Errorf("cost %d: got %d and %d left, want %d and %d", n, res.StatusCode, s.left(), status, left)
		}
	}
	f(4, 200, 6)
	f(0, 200, 6)
	f(7, 429, 6)
	f(-1, 500, 6) // such as the ContentLength of a chunked body: never for free
	f(weir.MaxCost+1, 500, 6)
	f(6, 200, 0)
}

// TestOwnCostOfADescriptor is not for free either, when it is out of range.
func TestOwnCostOfADescriptor(t *testing.T) {
	costly := func(_ *http.Request, w *weir.Request) {
		w.Descriptors = append(w.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "k", Value: "v"}}, Cost: -1})
	}
	s := newSite(t, permin(10), httplimit.Options{
		Descriptors: costly, OnError: func(http.ResponseWriter, *http.Request, error) bool { return true }}, hello)
	if res, _ := s.get("/"); res.StatusCode != 500 {
		t.Errorf("got %d", res.StatusCode)
	}
	tr := transport(t, s.lim, ok, httplimit.TransportOptions{Descriptors: costly, OnError: func(*http.Request, error) error { return nil }})
	if _, err := send(t, tr, api); !errors.Is(err, weir.ErrCost) {
		t.Errorf("outgoing: got %v", err)
	}
}

func TestSkip(t *testing.T) {
	s := newSite(t, permin(1), httplimit.Options{Skip: func(r *http.Request) bool { return r.URL.Path == "/healthz" }}, hello)
	for range 3 {
		if res, _ := s.get("/healthz"); res.StatusCode != 200 || res.Header.Get("RateLimit") != "" {
			t.Errorf("got %d %v", res.StatusCode, res.Header)
		}
	}
	if n := s.left(); n != 1 {
		t.Errorf("%d left, want 1", n)
	}
}

func TestOwnRefusal(t *testing.T) {
	s := newSite(t, permin(1), httplimit.Options{Refuse: func(w http.ResponseWriter, r *http.Request, why *httplimit.Refusal) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(why.Status)
		fmt.Fprintf(w, "<p>%s of %d: back in %s", why.Decision.Limit.Name, len(why.Ops), why.RetryAfter)
	}}, hello)
	s.get("/")
	res, body := s.get("/")
	const want = `Cache-Control: no-store
Content-Length: 29
Content-Type: text/html
Ratelimit-Policy: "permin";q=1;w=60
Ratelimit: "permin";r=0;t=40
Retry-After: 40
X-Ratelimit-Limit: 1
X-Ratelimit-Remaining: 0
X-Ratelimit-Retry-After: 40`
	if res.StatusCode != 429 || body != "<p>permin of 1: back in 40s" || lines(res.Header) != strings.Replace(want, "29", fmt.Sprint(len(body)), 1) {
		t.Errorf("got %d %q\n%s\nwant\n%s", res.StatusCode, body, lines(res.Header), want)
	}
}

// TestOwnRefusalForWantOfAPlace: the wait is not as long as a lease lives, since
// nobody knows when the request that holds the place is done.
func TestOwnRefusalForWantOfAPlace(t *testing.T) {
	var why httplimit.Refusal
	var s *site
	s = newSite(t, concurrency(1), httplimit.Options{Refuse: func(w http.ResponseWriter, _ *http.Request, r *httplimit.Refusal) {
		why = *r
		w.WriteHeader(r.Status)
	}}, func(w http.ResponseWriter, r *http.Request) {
		if res, _ := s.get("/"); res.StatusCode != 429 || res.Header.Get("Retry-After") != "1" {
			t.Errorf("beside a request under way: %d, Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
		}
	})
	if res, _ := s.get("/"); res.StatusCode != 200 || why.RetryAfter != time.Second {
		t.Errorf("%d, then told to wait %s, want one second", res.StatusCode, why.RetryAfter)
	}
}

func TestStoreDown(t *testing.T) {
	served := 0
	handler := func(http.ResponseWriter, *http.Request) { served++ }
	s := newSite(t, settled(1, weir.Adjustment{Per: 1}), httplimit.Options{}, handler)
	s.store.Fail = errors.New("disk on fire")
	res, body := s.get("/")
	if res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" || res.Header.Get("Content-Type") != "application/problem+json" ||
		served != 0 || strings.Contains(body, "fire") {
		t.Errorf("got %d %v %s, %d served", res.StatusCode, res.Header, body, served)
	}

	var heard []string
	pass := true
	s = newSite(t, settled(1, weir.Adjustment{Per: 1}), httplimit.Options{
		OnError: func(w http.ResponseWriter, r *http.Request, err error) bool {
			heard = append(heard, err.Error())
			if !pass {
				w.WriteHeader(http.StatusTeapot)
			}
			return pass
		}}, handler)
	s.store.Fail = errors.New("disk on fire")
	if res, _ := s.get("/"); res.StatusCode != 200 || res.Header.Get("RateLimit") != "" || served != 1 {
		t.Errorf("let pass: got %d %v, %d served", res.StatusCode, res.Header, served)
	}
	pass = false
	if res, _ := s.get("/"); res.StatusCode != 418 || served != 1 {
		t.Errorf("not let pass: got %d, %d served", res.StatusCode, served)
	}
	if len(heard) != 2 || heard[0] != "disk on fire" {
		t.Errorf("heard %q", heard)
	}
}

// TestUnreadableIs400: a request without a canonical path, where one is asked.
func TestUnreadableIs400(t *testing.T) {
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := who.Plan([]identity.Descriptor{{Entries: []identity.EntryFrom{{From: "path"}}}})
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, permin(1), httplimit.Options{Identity: who, Plan: plan}, hello)
	res, body := s.get("/a%00b")
	if res.StatusCode != 400 || res.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %d %s", res.StatusCode, body)
	}
	if res, _ := s.get("/a"); res.StatusCode != 200 {
		t.Errorf("got %d", res.StatusCode)
	}
	if _, err := httplimit.New(httplimit.Options{Limiter: s.lim, Plan: plan}); err == nil {
		t.Error("a plan without its resolver is accepted")
	}
}

// TestEnterWithAnothersCaller: a front end that knows the caller passes it.
func TestEnterWithAnothersCaller(t *testing.T) {
	s := newSite(t, permin(5), httplimit.Options{}, hello)
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := who.Plan([]identity.Descriptor{{Entries: []identity.EntryFrom{{From: "header:X-Key"}}}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(httplimit.Options{Limiter: s.lim, Identity: who})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Key", "k")
	c := who.Acquire()
	defer c.Release()
	c.SetHTTP(r)
	w := httptest.NewRecorder()
	v := m.Enter(w, r, c, plan, 3)
	if v == nil {
		t.Fatalf("refused: %d %s", w.Code, w.Body)
	}
	if v.Unsettled() || v.Decision().Remaining != 2 {
		t.Errorf("unsettled %v, %d remain", v.Unsettled(), v.Decision().Remaining)
	}
	h := http.Header{"Ratelimit": {`"app";r=0;t=9`}, "X-Ratelimit-Remaining": {"0"}}
	v.Header(h)
	v.Leave(200, nil, 0)
	if got := strings.Join(h["Ratelimit"], ", "); got != `"app";r=0;t=9, "permin";r=2;t=40` || h.Get("X-Ratelimit-Remaining") != "0" {
		t.Errorf("an upstream's stricter fields became %v", h)
	}
	if n := left(t, s.lim, "k"); n != 2 {
		t.Errorf("%d left, want 2", n)
	}
	if c.Address().IsValid() != true {
		t.Error("the caller was released by another than its owner")
	}
}

// TestShed: no room on this node is 503, and nobody is charged for it.
func TestShed(t *testing.T) {
	sh, err := shed.New(shed.Options{InFlight: shed.InFlightOptions{Limit: 1, RetryAfter: 7 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	started, release := make(chan struct{}), make(chan struct{})
	s := newSite(t, permin(9), httplimit.Options{Shed: sh}, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hold":
			close(started)
			<-release
		case "/panic":
			panic(http.ErrAbortHandler)
		}
	})
	held := make(chan struct{})
	go func() {
		defer close(held)
		s.get("/hold")
	}()
	<-started
	res, body := s.get("/")
	if res.StatusCode != 503 || res.Header.Get("Retry-After") != "7" || !strings.Contains(body, "temporary-reduced-capacity") {
		t.Errorf("got %d %v %s", res.StatusCode, res.Header, body)
	}
	if n := s.left(); n != 8 {
		t.Errorf("%d left, want 8", n)
	}
	close(release)
	<-held
	free := func() bool { res, _ := s.get("/"); return res.StatusCode == 200 }
	until(t, free)
	if res, err := s.Client().Get(s.URL + "/panic"); err == nil {
		res.Body.Close()
		t.Error("answered")
	}
	until(t, func() bool { // not by a visit that still has a place
		var place shed.Slot
		defer place.Leave()
		return sh.Enter(&place, shed.Critical)
	})
}

// TestBusyInOwnWords: the header fields are those of every refusal.
func TestBusyInOwnWords(t *testing.T) {
	sh, err := shed.New(shed.Options{InFlight: shed.InFlightOptions{Limit: 1, RetryAfter: 7 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	words, err := answer.New(answer.Options{Jitter: 100, Rand: func(n int64) int64 { return n - 1 }})
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, permin(9), httplimit.Options{Shed: sh, Answer: words, Refuse: func(w http.ResponseWriter, _ *http.Request, why *httplimit.Refusal) {
		w.WriteHeader(why.Status)
	}}, hello)
	var place shed.Slot
	if !sh.Enter(&place, shed.Critical) {
		t.Fatal("no place")
	}
	defer place.Leave()
	res, _ := s.get("/")
	if h := res.Header; res.StatusCode != 503 || h.Get("Retry-After") != "14" || h.Get("X-RateLimit-Retry-After") != "14" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("got %d %v, want 503, and 14 seconds: 7, and as much again by chance", res.StatusCode, h)
	}
}

// TestRefusalThatBreaksOff: an embedder may drop the connection, and takes no
// place with it.
func TestRefusalThatBreaksOff(t *testing.T) {
	sh, err := shed.New(shed.Options{InFlight: shed.InFlightOptions{Limit: 1}})
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, permin(1), httplimit.Options{Shed: sh, Refuse: func(http.ResponseWriter, *http.Request, *httplimit.Refusal) {
		panic(http.ErrAbortHandler)
	}}, hello)
	s.get("/")
	for range 3 {
		if res, err := s.Client().Get(s.URL); err == nil {
			res.Body.Close()
			t.Errorf("answered %d", res.StatusCode)
		}
	}
	until(t, func() bool {
		var place shed.Slot
		defer place.Leave()
		return sh.Enter(&place, shed.Critical)
	})
}

// TestFleetShareIs503: a refusal for the service's sake, by a limit on the
// store.
func TestFleetShareIs503(t *testing.T) {
	sh, err := shed.New(shed.Options{FleetShare: shed.FleetOptions{Limit: shed.Rate{Count: 10, Period: time.Minute}}})
	if err != nil {
		t.Fatal(err)
	}
	priority := atomic.Int64{}
	priority.Store(int64(shed.Background))
	var own *httplimit.Refusal
	s := newSite(t, limits.NewSet(sh.Layer()), httplimit.Options{
		Shed:        sh,
		Descriptors: func(_ *http.Request, w *weir.Request) { w.Priority = int(priority.Load()) },
		Refuse: func(w http.ResponseWriter, _ *http.Request, why *httplimit.Refusal) {
			c := *why
			own = &c
			w.WriteHeader(why.Status)
		},
	}, hello)
	for i := range 9 {
		if res, _ := s.get("/"); (res.StatusCode == 200) != (i < 8) {
			t.Errorf("request %d: got %d", i, res.StatusCode)
		}
	}
	if own == nil || own.Status != 503 || own.RetryAfter <= 0 {
		t.Errorf("the refusal was %+v", own)
	}
	priority.Store(int64(shed.Critical))
	if res, _ := s.get("/"); res.StatusCode != 200 {
		t.Errorf("a critical request got %d", res.StatusCode)
	}
}

// TestNested: a limit for all and another around one route; the stricter one is
// told.
func TestNested(t *testing.T) {
	s := newSite(t, permin(100), httplimit.Options{}, nil)
	inner := &site{t: t, store: s.store}
	costly := weir.PerMinute(3, algorithm.FixedWindow)
	costly.Name = "costly"
	mux := http.NewServeMux()
	mux.HandleFunc("GET /cheap", hello)
	mux.Handle("GET /costly", inner.limited(weir.Limits{costly}, httplimit.Options{}, http.HandlerFunc(hello)))
	s.Config.Handler = s.limited(permin(100), httplimit.Options{}, mux)
	f := func(path, left, lists string) {
		t.Helper()
		res, _ := s.get(path)
		if got := strings.Join(res.Header.Values("RateLimit"), ", "); res.Header.Get("X-RateLimit-Remaining") != left || got != lists {
			t.Errorf("%s: got %s left, %s", path, res.Header.Get("X-RateLimit-Remaining"), got)
		}
	}
	f("/cheap", "99", `"permin";r=99;t=40`)
	f("/costly", "2", `"permin";r=98;t=40, "costly";r=2;t=40`)
}
