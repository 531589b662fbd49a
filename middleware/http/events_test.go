package httplimit_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/limits"
	httplimit "github.com/weirlimit/weir/middleware/http"
	"github.com/weirlimit/weir/store/memory"
)

// told is a service whose decisions are made into events, and what goes to it.
type told struct {
	t      *testing.T
	server *httptest.Server
	events *event.Observer
	queue  *event.Local
	now    atomic.Int64 // the store's clock
	under  sync.WaitGroup
	// entered gets a token for each request to /slow.
	entered chan struct{}
}

const eventsNoon = int64(20_454*86400+12*3600) * 1e6

// newTold serves on a real listener, thirteen requests a minute for each address, which
// a trusted proxy names, as it does the user.
func newTold(t *testing.T, secret string, plain bool) *told {
	s := &told{t: t, queue: event.NewLocal(100), entered: make(chan struct{}, 10)}
	s.now.Store(eventsNoon)
	limit := weir.PerMinute(13, algorithm.FixedWindow)
	var err error
	s.events, err = event.New(event.Options{Queue: s.queue, Secret: []byte(secret), Unhashed: plain, Sample: 1, Limits: func() []limits.Ref {
		return []limits.Ref{{Domain: "api", Rule: "address", Limit: limit}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	store := memory.New(memory.Options{Now: s.now.Load})
	t.Cleanup(func() { store.Close() })
	limiter, err := weir.New(store, weir.Limits{limit}, weir.Options{Observers: []weir.Observer{s.events}})
	if err != nil {
		t.Fatal(err)
	}
	id, err := identity.New(identity.Options{
		Proxies: identity.ProxyOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Header: "X-Real-IP"},
		User:    []string{"header:X-User"}, Tier: []string{"header:X-Tier"},
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := httplimit.New(httplimit.Options{Limiter: limiter, Identity: id, Cost: func(r *http.Request) int64 {
		n, _ := strconv.ParseInt(r.Header.Get("X-Cost"), 10, 64)
		return max(n, 1)
	}})
	if err != nil {
		t.Fatal(err)
	}
	h := m.Handler(http.HandlerFunc(s.handle))
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.under.Add(1)
		defer s.under.Done()
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.server.Close)
	return s
}

// handle answers as the request asks.
func (s *told) handle(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/panic":
		panic(http.ErrAbortHandler)
	case "/slow":
		s.entered <- struct{}{}
		<-r.Context().Done()
	case "/upgrade":
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			s.t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	default:
		if code, err := strconv.Atoi(r.Header.Get("X-Want")); err == nil {
			w.WriteHeader(code)
		}
	}
}

// send sends a request a millisecond after the one before, and returns its status.
func (s *told) send(ctx context.Context, address, method, target string, header ...string) int {
	s.t.Helper()
	s.now.Add(1000)
	r, err := http.NewRequestWithContext(ctx, method, s.server.URL+target, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Host = "API.example:8080"
	r.Header.Set("X-Real-IP", address)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := s.server.Client().Transport.RoundTrip(r)
	if err != nil {
		return 0
	}
	_, _ = bufio.NewReader(res.Body).WriteTo(io.Discard)
	res.Body.Close()
	return res.StatusCode
}

// records ends the service and returns what was told, by address and outcome.
func (s *told) records(name func(*event.Record) string) map[string]*event.Record {
	s.t.Helper()
	s.under.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // what waits is told at once, and all together
	if err := s.events.Run(ctx); err != nil {
		s.t.Fatal(err)
	}
	s.queue.Close()
	out := map[string]*event.Record{}
	if err := s.queue.Receive(context.Background(), func(_ context.Context, batch []event.Event) error {
		for i := range batch {
			text, err := batch[i].Encode()
			if err != nil {
				s.t.Fatal(err)
			}
			e, err := event.Decode(text)
			if err != nil {
				s.t.Fatal(err)
			}
			if r := e.Record; r != nil {
				at := name(r) + " " + r.Outcome
				if out[at] != nil {
					s.t.Errorf("%s is told twice", at)
				}
				out[at] = r
			}
		}
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
	if l := s.events.Loss(); l != (event.Loss{}) {
		s.t.Errorf("lost %+v", l)
	}
	return out
}

const chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"

// Known traffic over a real listener is told as it was sent.
func TestEventsTellWhatWasSent(t *testing.T) {
	s := newTold(t, "0123456789abcdef", true)
	ctx := context.Background()
	// An address with many users, agents and paths; every class of answer.
	const office = "203.0.113.5"
	answers := []int{200, 204, 302, 401, 403, 404, 400, 422, 500, 503}
	for i, want := range answers {
		if got := s.send(ctx, office, "GET", fmt.Sprintf("/a%d/?secret=1", i%4), "X-User", fmt.Sprint("user", i%3), "X-Tier", "gold",
			"User-Agent", []string{"curl/8.5", "python-requests/2.3"}[i%2], "X-Want", fmt.Sprint(want)); got != want {
			t.Fatalf("%d: answered %d, want %d", i, got, want)
		}
	}
	for i := range 4 { // three fit, and the fourth is refused; it comes back at once, twice
		want := 200
		if i == 3 {
			want = 429
		}
		if got := s.send(ctx, office, "HEAD", "/last", "X-User", "user9", "X-Tier", "free", "User-Agent", "curl/8.5"); got != want {
			t.Fatalf("answered %d, want %d", got, want)
		}
	}
	for range 2 {
		s.send(ctx, office, "POST", "/again", "User-Agent", chrome, "X-Cost", "3")
	}
	// Those who get no answer, or another one than HTTP's.
	const odd = "2001:db8:1:2::3"
	s.send(ctx, odd, "POST", "/panic", "User-Agent", "")
	s.send(ctx, odd, "GET", "/upgrade", "User-Agent", "", "Connection", "Upgrade", "Upgrade", "x")
	hangUp, cancel := context.WithCancel(ctx)
	go func() { <-s.entered; cancel() }()
	s.send(hangUp, odd, "GET", "/slow", "User-Agent", "", "X-Cost", "5")

	got := s.records(func(r *event.Record) string { return r.About.Address })
	arrivals := func(costs ...int64) (out []event.Arrival) {
		for i, c := range costs {
			out = append(out, event.Arrival{AtUS: int64(i) * 1000, Cost: c})
		}
		return out
	}
	want := map[string]*event.Record{
		office + " allowed": {
			Count: 13, Decisive: 13, Cost: 13, Least: 0, Every: 1,
			About: &event.About{Address: office, Network: "203.0.113.0/24", Method: "GET", Host: "api.example", Path: "/last", User: "user9", Tier: "free",
				Agent: "curl", Users: 4, Agents: 2, Paths: 5, Addresses: 1},
			Answers:  &event.Answers{Count: 13, OK: 5, Redirect: 1, Denied: 3, ClientError: 2, ServerError: 2},
			Arrivals: arrivals(slices.Repeat([]int64{1}, 13)...),
		},
		office + " refused": {
			Count: 3, Decisive: 3, Cost: 7, Early: 2, RetryMS: 59_986, Every: 1,
			About: &event.About{Address: office, Network: "203.0.113.0/24", Method: "POST", Host: "api.example", Path: "/again",
				Agent: "browser", Users: 1, Agents: 2, Paths: 2, Addresses: 1},
			Arrivals: arrivals(1, 3, 3),
		},
		odd + " allowed": {
			Count: 3, Decisive: 3, Cost: 7, Least: 6, Every: 1,
			About: &event.About{Address: odd, Network: "2001:db8:1::/48", Method: "GET", Host: "api.example", Path: "/slow", Agent: "none",
				Paths: 3, Addresses: 1},
			Answers:  &event.Answers{Count: 3, OK: 1, ClientError: 1, ServerError: 1},
			Arrivals: arrivals(1, 1, 5),
		},
	}
	for at, r := range got {
		w := want[at]
		if w == nil {
			t.Errorf("nobody sent what is told of %s: %+v", at, r)
			continue
		}
		if a := r.Answers; a != nil {
			if a.LongestMS < 1 || a.TotalMS < a.LongestMS || a.TotalMS > a.Count*a.LongestMS {
				t.Errorf("%s: %d ms, the longest %d", at, a.TotalMS, a.LongestMS)
			}
			a.TotalMS, a.LongestMS = 0, 0
		}
		first := map[string]int64{office + " allowed": 1, office + " refused": 14, odd + " allowed": 17}[at] * 1000
		if f := r.First.UnixMicro() - eventsNoon; f != first {
			t.Errorf("%s: the first came after %d µs, want %d", at, f, first)
		}
		if l := r.Last.UnixMicro() - eventsNoon; l != first+(r.Count-1)*1000 {
			t.Errorf("%s: the last came after %d µs", at, l)
		}
		w.LimitRef = event.LimitRef{Name: limits.Name{Domain: "api", Rule: "address", Limit: r.Limit}, Algorithm: "fixed_window", Allowance: 13, PeriodMS: 60_000, Burst: 13}
		w.First, w.Last, w.Key, w.Unhashed, w.Outcome, w.Source = r.First, r.Last, w.About.Address, true, r.Outcome, "store"
		if w.Key == odd {
			w.Key = "2001:db8:1:2::/64" // which is one client
		}
		if !reflect.DeepEqual(r, w) {
			t.Errorf("%s:\ngot  %+v %+v %+v\nwant %+v %+v %+v", at, r, r.About, r.Answers, w, w.About, w.Answers)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d records, want %d", len(got), len(want))
	}
}

// Identities are hashes: the same on every node that has the secret, and others
// under another.
func TestEventsHashIdentities(t *testing.T) {
	told := func(secret string) *event.Record {
		s := newTold(t, secret, false)
		s.send(context.Background(), "203.0.113.5", "GET", "/x", "X-User", "ann", "X-Tier", "gold", "User-Agent", "curl/8")
		for _, r := range s.records(func(r *event.Record) string { return r.Key }) {
			return r
		}
		t.Fatal("nothing was told")
		return nil
	}
	one, same, other := told("0123456789abcdef"), told("0123456789abcdef"), told("fedcba9876543210")
	if one.Key != same.Key || !reflect.DeepEqual(one.About, same.About) {
		t.Errorf("two nodes with one secret tell %+v and %+v", one.About, same.About)
	}
	if one.Key != one.About.Address {
		t.Errorf("the client's key is %s, its address %s: both are of the address", one.Key, one.About.Address)
	}
	for what, pair := range map[string][2]string{
		"key": {one.Key, other.Key}, "address": {one.About.Address, other.About.Address},
		"network": {one.About.Network, other.About.Network}, "user": {one.About.User, other.About.User},
	} {
		if len(pair[0]) != 32 || len(pair[1]) != 32 || pair[0] == pair[1] {
			t.Errorf("%s under two secrets: %q", what, pair)
		}
	}
	if a := one.About; a.Path != "/x" || a.Host != "api.example" || a.Tier != "gold" || a.Agent != "curl" || one.Unhashed {
		t.Errorf("about %+v", a)
	}
}
