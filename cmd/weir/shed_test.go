package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// gate is an upstream that keeps the requests with the query hold until it is
// opened.
type gate struct {
	*httptest.Server
	held atomic.Int64
	open chan struct{}
	once sync.Once
}

func newGate(t *testing.T) *gate {
	g := &gate{open: make(chan struct{})}
	g.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("hold") {
			g.held.Add(1)
			<-g.open
		}
	}))
	t.Cleanup(g.Close)
	t.Cleanup(g.release) // before Close, which waits for who is held
	return g
}

func (g *gate) release() { g.once.Do(func() { close(g.open) }) }

// shedding runs weir shed against n and returns what it says.
func (n *testNode) shedding(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(binary, append([]string{"shed", "--admin", n.admin}, args...)...).CombinedOutput()
	if err != nil {
		t.Errorf("weir shed %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// The configuration of examples/gateway/shop.yaml in a surge: what matters less
// is refused first and told so, what matters is served, and the kill switch
// works while requests are under way.
func TestSurge(t *testing.T) {
	g, who := newGate(t), newIssuer(t)
	file := example(t, "shop.yaml", map[string]string{
		"http://127.0.0.1:3000": g.URL, "http://127.0.0.1:3002/jwks.json": who.URL, "10.0.0.0/8": "127.0.0.1",
	})
	n := serve(t, "--config", file)
	auth := []string{"Authorization", "Bearer " + who.token(t, claims("ann"))}
	is := func(path string, want int) {
		t.Helper()
		if got, body, _ := n.ask(t, path, "203.0.113.1", auth...); got != want {
			t.Errorf("%s: got %d %s, want %d", path, got, body, want)
		}
	}
	var held sync.WaitGroup
	defer held.Wait()
	defer g.release()
	hold := func(path string, more int) {
		t.Helper()
		want := g.held.Load() + int64(more)
		for range more {
			held.Go(func() {
				if code, body, _ := n.ask(t, path+"?hold", "203.0.113.1", auth...); code != 200 {
					t.Errorf("%s, held: %d %s", path, code, body)
				}
			})
		}
		servertest.Await(t, fmt.Sprintf("%d of %s to be held", more, path), func() bool { return g.held.Load() == want || t.Failed() })
	}

	// Of ten places background fills five, sheddable seven, default nine.
	hold("/export/all", 5)
	code, body, h := n.ask(t, "/export/all", "203.0.113.1", auth...)
	if code != 503 || h.Get("Content-Type") != "application/problem+json" || h.Get("Retry-After") != "2" || h.Get("Cache-Control") != "no-store" ||
		!strings.Contains(body, `"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"`) || !strings.Contains(body, `"status":503`) {
		t.Errorf("background at overload: %d %v %s", code, h, body)
	}
	hold("/search", 2)
	is("/search", 503)
	hold("/cart", 2)
	is("/cart", 503)
	is("/health", 200)

	// The surge: whoever floods gets nowhere, and takes no place from who pays.
	stop := make(chan struct{})
	var flood sync.WaitGroup
	var floods statuses
	for i := range 6 {
		flood.Go(func() {
			path := []string{"/export/all", "/search", "/cart"}[i%3]
			for {
				select {
				case <-stop:
					return
				default:
				}
				got, _, _ := n.ask(t, path, fmt.Sprintf("198.51.100.%d", i))
				floods.add(got)
			}
		})
	}
	for range 60 {
		is("/checkout/pay", 200)
	}
	close(stop)
	flood.Wait()
	if floods.n[503] < 20 || len(floods.n) != 1 {
		t.Errorf("the flood was answered %v, want 503 alone", floods.n)
	}
	hold("/checkout/pay", 1)
	is("/checkout/pay", 503)

	// Ten are under way when the switch is thrown, and stay.
	if out := n.shedding(t, "off"); !strings.Contains(out, "load shedding is off") || !strings.Contains(out, "10 under way") {
		t.Errorf("weir shed off said\n%s", out)
	}
	is("/export/all", 200)
	hold("/export/all", 3)
	n.shedding(t, "on")
	is("/export/all", 503)
	if out := n.shedding(t, "in_flight.limit=20"); !strings.Contains(out, "critical    below 20") || !strings.Contains(out, "13 under way") {
		t.Errorf("weir shed in_flight.limit=20 said\n%s", out)
	}
	is("/search", 200) // below 14
	is("/export/all", 503)
	if out := n.shedding(t, "in_flight=shadow"); !strings.Contains(out, "in_flight         shadow") {
		t.Errorf("weir shed in_flight=shadow said\n%s", out)
	}
	is("/export/all", 200)

	g.release()
	held.Wait()
	out := n.shedding(t)
	if !strings.Contains(out, ", 0 under way\n") || !strings.Contains(out, "would have refused 1\n") {
		t.Errorf("at the end:\n%s", out)
	}
	_, text := get(t, n.admin+"/metrics")
	for _, line := range []string{
		`weir_decisions_total{decision="allowed",domain="(shed)",limit="in_flight_critical",rule="in_flight"} 61`,
		`weir_decisions_total{decision="refused",domain="(shed)",limit="in_flight_critical",rule="in_flight"} 1`,
		`weir_decisions_total{decision="shadow_refused",domain="(shed)",limit="in_flight_background",rule="in_flight"} 1`,
		`weir_shed_threshold_requests{class="sheddable"} 14`, `weir_shed_mode{limiter="in_flight",mode="shadow"} 1`,
		"weir_shed_in_flight_requests 0", "weir_shed_shadow_in_flight_requests 0", "weir_shed_active 1",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %s in the metrics", line)
		}
	}
}

// What a user may ask is refused 429, what the fleet has no room for 503, and of
// that a share is kept for what matters.
func TestFleetShare(t *testing.T) {
	n := serve(t, "--upstream", up(t), "--trusted-proxies", "127.0.0.1", "--config", routesOf(t, `
  - {path: /pay, priority: critical}
  - {path: /}
shed:
  user_rate: {limit: 4/hour}
  fleet_share: {limit: 20/hour, headroom: 25%}
`))
	var from int
	spend := func(path string, times int) *statuses {
		var got statuses
		for range times {
			from++
			code, _, _ := n.ask(t, path, fmt.Sprintf("203.0.113.%d", from))
			got.add(code)
		}
		return &got
	}
	for i, want := range []int{200, 200, 200, 200, 429} {
		if code, body, h := n.ask(t, "/", "198.51.100.1"); code != want || code == 429 && (!strings.Contains(body, `"violated-policies":["user_rate"]`) || h.Get("Retry-After") == "") {
			t.Errorf("request %d of one user: %d %v %s, want %d", i+1, code, h, body, want)
		}
	}
	if got := spend("/", 14); got.n[200] != 11 || got.n[503] != 3 {
		t.Errorf("15 are for everything: %v after 4 of them", got.n)
	}
	if got := spend("/elsewhere", 2); got.n[503] != 2 {
		t.Errorf("what no route matches: %v, want it to be default", got.n)
	}
	if got := spend("/pay", 7); got.n[200] != 5 || got.n[503] != 2 {
		t.Errorf("5 are kept for what matters: %v", got.n)
	}
	if code, body, h := n.ask(t, "/", "203.0.113.200"); code != 503 || h.Get("Retry-After") == "" || !strings.Contains(body, `"violated-policies":["fleet_share_default"]`) {
		t.Errorf("a full fleet: %d %v %s", code, h, body)
	}
	// A user above a limit of their own is told that.
	if code, _, _ := n.ask(t, "/", "198.51.100.1"); code != 429 {
		t.Errorf("a greedy user of a full fleet: %d", code)
	}
}

// Nodes that share a store share the fleet's limit and a user's places; what is
// under way each counts alone.
func TestFleetOfTwo(t *testing.T) {
	g := newGate(t)
	store := "redis://" + servertest.Redis(t).Addr + "?timeout=5s"
	var nodes [2]*testNode
	for i := range nodes {
		nodes[i] = serve(t, "--store", store, "--upstream", g.URL, "--trusted-proxies", "127.0.0.1", "--config", routesOf(t, `
  - {path: /pay, priority: critical}
  - {path: /}
shed:
  user_concurrency: {limit: 2}
  fleet_share: {limit: 20/hour, headroom: 50%}
  in_flight: {limit: 100}
`))
	}
	var held sync.WaitGroup
	defer held.Wait()
	defer g.release()
	for i, n := range nodes {
		held.Go(func() {
			if code, body, _ := n.ask(t, "/?hold", "203.0.113.1"); code != 200 {
				t.Errorf("held on node %d: %d %s", i, code, body)
			}
		})
	}
	servertest.Await(t, "a request on each node", func() bool { return g.held.Load() == 2 || t.Failed() })
	for i, n := range nodes {
		if code, body, _ := n.ask(t, "/", "203.0.113.1"); code != 429 || !strings.Contains(body, `"user_concurrency"`) {
			t.Errorf("the third of one user at once, on node %d: %d %s", i, code, body)
		}
		if out := n.shedding(t); !strings.Contains(out, "100, 1 under way") {
			t.Errorf("node %d:\n%s", i, out)
		}
	}
	spend := func(path string, times int) *statuses {
		var got statuses
		for i := range times {
			code, _, _ := nodes[i%2].ask(t, path, fmt.Sprintf("198.51.100.%d", i))
			got.add(code)
		}
		return &got
	}
	if got := spend("/", 12); got.n[200] != 8 || got.n[503] != 4 {
		t.Errorf("10 are for everything, of which 2 are held: %v", got.n)
	}
	if got := spend("/pay", 12); got.n[200] != 10 || got.n[503] != 2 {
		t.Errorf("10 are kept for what matters: %v", got.n)
	}
}

// Load shedding limits every request: one with a misspelt key is an error of weir take
// all the same.
func TestTakeBesideShedding(t *testing.T) {
	dir := t.TempDir()
	rules, conf := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "weir.yaml")
	for path, text := range map[string]string{
		rules: "domain: api\ndescriptors:\n  - {key: api_key, limit: 5/minute}\n  - {key: free, limit: unlimited}\n",
		conf:  "rules: " + rules + "\nshed:\n  fleet_share: {limit: 5000/second}\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := serve(t, "--config", conf)
	for _, c := range []struct {
		status int
		says   string
		args   []string
	}{
		{0, "5/minute", []string{"api_key=k"}},
		{0, "", []string{"free=1"}},
		{2, `did you mean "api_key"?`, []string{"apikey=k"}},
		{2, `did you mean "api"?`, []string{"--domain", "apii", "api_key=k"}},
		{2, "is matched by", []string{"a=1", "+", "b=2"}},
		{0, "allowed", []string{"--allow-unmatched", "apikey=k"}},
	} {
		cmd := exec.Command(binary, append([]string{"take", "--http", n.http}, c.args...)...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != c.status || !strings.Contains(string(out), c.says) {
			t.Errorf("weir take %q: status %d, want %d and %q\n%s", c.args, got, c.status, c.says, out)
		}
	}
}
