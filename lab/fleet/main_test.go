// Package fleet proves, with real processes of the command on real servers, that
// nodes which share a store hold one limit together, whatever becomes of the
// store, of the network and of the nodes.
package fleet

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// command is the path of the built command. Set once by TestMain.
var command string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	flag.Parse()
	// Most of these tests wait for servers.
	if err := flag.Set("test.parallel", "4"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	path, clean, err := servertest.Command()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer clean()
	command = path
	return m.Run()
}

// soak reports whether the long forms are asked for.
var soak = os.Getenv("WEIR_SOAK") == "1"

// processes says that a test does all with processes of the command, of which the
// race detector sees nothing: it is left out of the brief run that is made for it.
func processes(t *testing.T) {
	t.Helper()
	t.Parallel()
	if testing.Short() {
		t.Skip("nothing of it runs in this process")
	}
}

// domain is that of all rules here.
const domain = "fleet"

// rules writes a file of descriptors, one line each, and returns its path.
func rules(t *testing.T, descriptors ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, path, descriptors...)
	return path
}

// write replaces a file of rules in one step.
func write(t *testing.T, path string, descriptors ...string) {
	t.Helper()
	text := "domain: " + domain + "\ndescriptors:\n  - " + strings.Join(descriptors, "\n  - ") + "\n"
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// node is a running `weir serve`.
type node struct {
	*servertest.Process
	// http and admin are base URLs, grpc is an address.
	http, admin, grpc string
}

// serve starts a node on free ports.
func serve(t *testing.T, store, rules string, more ...string) *node {
	t.Helper()
	args := append([]string{"serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-format", "json", "--store", store, "--rules", rules}, more...)
	cmd := exec.Command(command, args...)
	// A port of its own, whatever else is served by default.
	cmd.Env = append(os.Environ(), "WEIR_GRPC=127.0.0.1:0")
	n := &node{Process: servertest.Serve(t, cmd, "http", "admin", "grpc")}
	n.http, n.admin, n.grpc = n.URL("http"), n.URL("admin"), n.Listening("grpc")
	// Nothing is asked of it any more: it need not wait for its connections. One
	// that has ended already cannot be killed.
	t.Cleanup(func() { _ = n.Signal(syscall.SIGKILL) })
	return n
}

// serveMany starts n nodes on one store, which know how many they are.
func serveMany(t *testing.T, n int, store, rules string) []*node {
	t.Helper()
	nodes := make([]*node, n)
	for i := range nodes {
		nodes[i] = serve(t, store, rules, "--store-nodes", strconv.Itoa(n))
	}
	return nodes
}

// metric returns one value of /metrics, with its labels in the name.
func (n *node) metric(t *testing.T, name string) float64 {
	t.Helper()
	res, err := client.Get(n.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	v, ok := servertest.Sample(t, servertest.Body(t, res), name)
	if !ok {
		t.Fatalf("no metric %s", name)
	}
	return v
}

// client asks nodes. It gives up after a time that no decision takes.
var client = &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// asked is what came of requests. Safe for concurrent use.
type asked struct {
	allowed, refused, degraded atomic.Int64
	// waits is how long each request took.
	mu    sync.Mutex
	waits []time.Duration
}

// took notes how long requests took.
func (a *asked) took(d ...time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waits = append(a.waits, d...)
}

// quantile returns how long the part q of the requests took at most.
func (a *asked) quantile(q float64) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waits) == 0 {
		return 0
	}
	slices.Sort(a.waits)
	return a.waits[int(q*float64(len(a.waits)-1))]
}

// longest returns how long the slowest request took.
func (a *asked) longest() time.Duration { return a.quantile(1) }

func (a *asked) all() int64 { return a.allowed.Load() + a.refused.Load() }

// add adds what came of other requests.
func (a *asked) add(b *asked) *asked {
	a.allowed.Add(b.allowed.Load())
	a.refused.Add(b.refused.Load())
	a.degraded.Add(b.degraded.Load())
	b.mu.Lock()
	waits := slices.Clone(b.waits)
	b.mu.Unlock()
	a.took(waits...)
	return a
}

// ask makes one request of so many checks of a key to a node. Every check must be
// answered.
func (a *asked) ask(t *testing.T, n *node, key string, checks int) {
	a.askFor(t, n, key, "k", checks)
}

// askFor is ask for one of the clients that are limited under a key.
func (a *asked) askFor(t *testing.T, n *node, key, value string, checks int) {
	one := fmt.Sprintf(`{"domain":%q,"descriptors":[{"entries":[{"key":%q,"value":%q}]}]}`, domain, key, value)
	path, body := "/v1/check", one
	switch {
	case strings.HasSuffix(key, "concurrency"):
		path = "/v1/acquire"
	case checks > 1:
		body = `{"checks":[` + strings.Repeat(one+",", checks-1) + one + `]}`
	}
	begin := time.Now()
	res, err := client.Post(n.http+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	text := string(data)
	if err != nil || res.StatusCode != 200 {
		t.Errorf("%s: %d %s, %v", key, res.StatusCode, text, err)
		return
	}
	a.took(time.Since(begin))
	allowed, refused := strings.Count(text, `{"allowed":true`), strings.Count(text, `{"allowed":false`)
	if allowed+refused != checks {
		t.Errorf("%s: %d of %d checks were answered: %s", key, allowed+refused, checks, text)
	}
	a.allowed.Add(int64(allowed))
	a.refused.Add(int64(refused))
	a.degraded.Add(int64(strings.Count(text, `"degraded":true`)))
}

// offer makes n checks of a key, asked of the nodes in turn by several clients at
// once, so many in each request.
func offer(t *testing.T, nodes []*node, key string, n, checks int) *asked {
	t.Helper()
	if strings.HasSuffix(key, "concurrency") {
		checks = 1
	}
	a := new(asked)
	var next atomic.Int64
	var clients sync.WaitGroup
	for range max(8, 2*len(nodes)) {
		clients.Go(func() {
			for !t.Failed() {
				i := int(next.Add(1))
				if i*checks > n {
					return
				}
				a.ask(t, nodes[i%len(nodes)], key, checks)
			}
		})
	}
	clients.Wait()
	return a
}

// waitUntil waits for an instant.
func waitUntil(at time.Time) { <-time.After(time.Until(at)) }
