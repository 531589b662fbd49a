package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/testing/clocked"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

// settled is a limit of 1000 an hour with a settlement of its own.
func settled(name string, s weir.Adjustment) *weir.Limit {
	l := weir.PerHour(1000, algorithm.FixedWindow)
	l.Name, l.Adjustment = name, &s
	return l
}

// codes is a set of statuses, each with all to the next hundred if it ends in
// two zeros.
func codes(list ...int) (c weir.Codes) {
	for _, n := range list {
		last := n
		if n > 0 && n%100 == 0 {
			last += 99
		}
		c.Add(n, last)
	}
	return c
}

// TestSettlement: each limit counts what it says of the answer, whatever
// protocol it comes over.
func TestSettlement(t *testing.T) {
	names := []string{"all", "failures", "fair", "kilobytes", "tokens"}
	limits := weir.Limits{
		settled("all", weir.Adjustment{}),
		settled("failures", weir.Adjustment{CountOn: codes(401, 403)}),
		settled("fair", weir.Adjustment{RefundOn: codes(500, weir.NoAnswer)}),
		settled("kilobytes", weir.Adjustment{Per: 1000}),
		settled("tokens", weir.Adjustment{Header: "X-Tokens"}),
	}
	limits[0].Adjustment = nil
	lim, err := weir.New(clocked.New(t), limits, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	talk := chat(t, ended)
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/talk" {
			talk(w, r)
			return
		}
		q := r.URL.Query()
		if v := q.Get("tokens"); v != "" {
			w.Header().Set("X-Tokens", v)
		}
		if q.Has("trailer") {
			w.Header().Set("Trailer", "X-Tokens")
			defer w.Header().Set("X-Tokens", q.Get("trailer"))
		}
		if code, err := strconv.Atoi(q.Get("code")); err == nil {
			w.WriteHeader(code)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if r.URL.Path == "/hang" {
			<-r.Context().Done()
		}
		if n, err := strconv.Atoi(q.Get("bytes")); err == nil {
			_, _ = io.WriteString(w, strings.Repeat("x", n))
		}
		if q.Has("die") {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}), false)
	upstream, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Options{
		Limits: httplimit.Options{Limiter: lim}, Default: gateway.Forward{Upstream: upstream, MaxBody: 100},
		Routes: []gateway.Route{{Route: identity.Route{Path: "/hang"}, Forward: gateway.Forward{HeaderTimeout: 50 * time.Millisecond}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := start(t, g, false)
	// spent is what each limit has counted so far, in the order of names.
	spent := func() (n [5]int64) {
		t.Helper()
		req := lim.Acquire()
		defer lim.Recycle(req)
		req.Domain, req.Verb = "api", weir.Peek
		req.Descriptors = []weir.Descriptor{{Entries: []weir.Entry{{Key: "remote_address", Value: "127.0.0.1"}}}}
		if _, err := lim.Decide(context.Background(), req); err != nil {
			t.Fatal(err)
		}
		for _, op := range req.Ops() {
			for i, name := range names {
				if op.Limit.Name == name {
					n[i] = 1000 - op.Decision.Remaining
				}
			}
		}
		return n
	}
	var before [5]int64
	now := func(what string, all, failures, fair, kilobytes, tokens int64) {
		t.Helper()
		want := [5]int64{all, failures, fair, kilobytes, tokens}
		for i := range want {
			want[i] += before[i]
		}
		// The answer can be here before it is settled.
		got := spent()
		for deadline := time.Now().Add(5 * time.Second); got != want; got = spent() {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v counted %v, want %v", what, names, got, want)
			}
		}
		before = want
	}
	f := func(query string, all, failures, fair, kilobytes, tokens int64) {
		t.Helper()
		for _, protocol := range []string{"HTTP/1.1", "h2c"} {
			res, err := speaking(t, protocol).Get(srv.URL + "/" + query)
			if err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			} else if !strings.Contains(query, "die") {
				t.Fatal(err)
			}
			now(fmt.Sprint(query, " over ", protocol), all, failures, fair, kilobytes, tokens)
		}
	}
	f("?code=200", 1, 0, 1, 0, 1)
	f("?code=401", 1, 1, 1, 0, 1)
	f("?code=500", 1, 0, 0, 0, 1)
	f("?bytes=1", 1, 0, 1, 1, 1)
	f("?bytes=5001", 1, 0, 1, 6, 1)
	f("?tokens=7", 1, 0, 1, 0, 7)
	f("?tokens=0", 1, 0, 1, 0, 0)
	f("?tokens=-1", 1, 0, 1, 0, 1)
	f("?tokens=many", 1, 0, 1, 0, 1)
	f("?trailer=9&bytes=10", 1, 0, 1, 1, 9)
	f("?bytes=2000&die", 1, 0, 0, 2, 1)

	f("hang", 1, 0, 0, 0, 1)
	// What the client does wrong is not the upstream's failure.
	res, err := http.Post(srv.URL, "text/plain", io.MultiReader(strings.NewReader(strings.Repeat("x", 200))))
	if err != nil || res.StatusCode != 413 {
		t.Errorf("too much: %v, %v", res, err)
	}
	res.Body.Close()
	now("too much", 1, 0, 1, 0, 1)

	// A WebSocket's bytes are those of its frames to the client.
	ws, res := dialWebSocket(t, srv, "/talk")
	if ws == nil {
		t.Fatalf("refused: %d", res.StatusCode)
	}
	if err := ws.write(wsText, strings.Repeat("x", 3000)); err != nil {
		t.Fatal(err)
	}
	if err := ws.write(wsClose, ""); err != nil {
		t.Fatal(err)
	}
	for op := byte(0); op != wsClose; {
		if op, _, err = ws.read(); err != nil {
			t.Fatal(err)
		}
	}
	ws.Close()
	<-ended
	now("a WebSocket", 1, 0, 1, 4, 1)
}

// TestFamilyStatedCostIsTold: the fields of a response that states its cost tell what remains
// after that cost, and what they told is what the limit has left.
func TestFamilyStatedCostIsTold(t *testing.T) {
	lim, err := weir.New(clocked.New(t), weir.Limits{settled("tokens", weir.Adjustment{Header: "X-Tokens"})}, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	up := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["X-Tokens"] = r.URL.Query()["tokens"]
	}), false)
	g := forwardTo(t, lim, up.URL)
	srv, left := start(t, g, false), int64(1000)
	for _, tokens := range []string{"100", "1", "", "x", "-5", "0", "250", "9223372036854775807"} {
		res, err := http.Get(srv.URL + "/?tokens=" + tokens)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		n, err := strconv.ParseInt(tokens, 10, 64)
		if err != nil || n < 0 {
			n = 1 // nothing that is a cost: what was estimated
		}
		left = max(left-min(n, weir.MaxCost), 0)
		if want := fmt.Sprintf(`"tokens";r=%d;`, left); !strings.HasPrefix(res.Header.Get("Ratelimit"), want) {
			t.Errorf("a response of %s tokens says %q, not %q", tokens, res.Header.Get("Ratelimit"), want)
		}
	}
}
