package main_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// comingFrom is the page whose policies are played on both sides.
var comingFrom = filepath.Join("..", "..", "docs", "how-to", "coming-from.md")

// The policies of docs/how-to/coming-from.md let pass as many of a burst as the limiters
// that they come from, which run beside.
func TestComingFrom(t *testing.T) {
	page, err := os.ReadFile(comingFrom)
	if err != nil {
		t.Fatal(err)
	}
	section := regexp.MustCompile("(?ms)^## ([^\n]*)\n\n```(nginx|haproxy|js)\n(.*?)```\n\n```yaml\n(.*?)```")
	sections := section.FindAllSubmatch(page, -1)
	// But for that of [envoyPolicy].
	if all := bytes.Count(page, []byte("```yaml\n")) - 1; len(sections) != all || all < 5 {
		t.Fatalf("%d of %d policies stand beside one of another limiter", len(sections), all)
	}
	for _, s := range sections {
		title, language, before, after := string(s[1]), string(s[2]), string(s[3]), string(s[4])
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			const burst = 30
			there, here := newHolder(t, burst), newHolder(t, burst)
			other := map[string]func(*testing.T, string, string) string{"nginx": nginxPolicy, "haproxy": haproxyPolicy, "js": expressPolicy}[language](t, before, there.addr())
			n := serve(t, "--rules", servertest.File(t, "rules.yaml", after), "--upstream", here.server.URL)
			passedThere, passedHere := there.burst(t, "http://"+other), here.burst(t, n.http)
			if passedThere != passedHere || passedHere == 0 || passedHere == burst {
				t.Errorf("of %d at once %s lets %d pass, and Weir %d", burst, language, passedThere, passedHere)
			}
		})
	}
}

// A holder is an upstream that answers when all of a burst have had an answer, or have
// reached it.
type holder struct {
	server  *httptest.Server
	size    int64
	settled atomic.Int64 // that have reached it, or were refused
	all     chan struct{}
}

func newHolder(t *testing.T, size int64) *holder {
	h := &holder{size: size, all: make(chan struct{})}
	h.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.settle()
		<-h.all
	}))
	t.Cleanup(h.server.Close)
	return h
}

func (h *holder) addr() string { return strings.TrimPrefix(h.server.URL, "http://") }

func (h *holder) settle() {
	if h.settled.Add(1) == h.size {
		close(h.all)
	}
}

// burst sends the requests of the burst at once, and returns how many passed. All others
// must get a 429.
func (h *holder) burst(t *testing.T, url string) int64 {
	t.Helper()
	var passed atomic.Int64
	var clients sync.WaitGroup
	for range h.size {
		clients.Go(func() {
			res, err := client.Get(url + "/")
			if err != nil {
				t.Error(err)
				h.settle()
				return
			}
			defer res.Body.Close()
			if _, err := io.Copy(io.Discard, res.Body); err != nil {
				t.Error(err)
			}
			switch res.StatusCode {
			case http.StatusOK:
				passed.Add(1)
			case http.StatusTooManyRequests:
				h.settle()
			default:
				t.Errorf("status %d", res.StatusCode)
				h.settle()
			}
		})
	}
	clients.Wait()
	return passed.Load()
}

// nginxPolicy starts nginx with a policy before an upstream, and returns its address. The
// zones are named above the server, as nginx wants them.
func nginxPolicy(t *testing.T, policy, upstream string) string {
	zone := regexp.MustCompile(`(?m)^limit_(?:req|conn)_zone .*$`)
	return servertest.NginxServers(t, func(addr string) string {
		return fmt.Sprintf("%s\nserver { listen %s; location / { %s\nproxy_pass http://%s; } }", strings.Join(zone.FindAllString(policy, -1), "\n"), addr, zone.ReplaceAllString(policy, ""), upstream)
	})
}

// expressPolicy starts an Express application with a policy before an upstream, and returns
// its address.
func expressPolicy(t *testing.T, policy, upstream string) string {
	testNode, script := servertest.Binary(t, "node"), filepath.Join("..", "..", "tools", "express", "policy.js")
	if _, err := os.Stat(filepath.Join(filepath.Dir(script), "node_modules", "express-rate-limit")); err != nil {
		const advice = "express-rate-limit is not there: `make servers` installs it"
		if os.Getenv("WEIR_REQUIRE_SERVERS") == "1" {
			t.Fatal(advice)
		}
		t.Skip(advice)
	}
	file := filepath.Join(t.TempDir(), "policy")
	if err := os.WriteFile(file, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	p := servertest.Start(t, exec.Command(testNode, script, file, "http://"+upstream))
	var port []string
	servertest.Await(t, "Express to listen", func() bool {
		port = regexp.MustCompile(`port (\d+)\n`).FindStringSubmatch(p.Output())
		return port != nil
	})
	return "127.0.0.1:" + port[1]
}

// haproxyPolicy starts HAProxy with a policy before an upstream, and returns its address.
func haproxyPolicy(t *testing.T, policy, upstream string) string {
	return servertest.HAProxy(t, func(addr string) string {
		return fmt.Sprintf("defaults\n    mode http\n    timeout connect 5s\n    timeout client 30s\n    timeout server 30s\nfrontend public\n    bind %s\n%s    default_backend app\nbackend app\n    server app %s\n",
			addr, regexp.MustCompile(`(?m)^`).ReplaceAllString(strings.TrimSuffix(policy, "\n"), "    ")+"\n", upstream)
	})
}
