package fleet

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// stickyLimit is what each client may, so rarely that no window ends in a test.
const stickyLimit = 7

// sticky are clients behind nginx with deploy/nginx/weir-sticky.conf, before nodes
// that each count alone.
type sticky struct {
	nodes []*node
	// start starts a node with further arguments.
	start func(i int, more ...string) *node
	addr  string
	// clients have an address of their own each.
	clients []*http.Client
}

func newSticky(t *testing.T, nodes, clients int) *sticky {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	text := fmt.Sprintf("domain: api\ndescriptors:\n  - {key: remote_address, limit: %d/year, algorithm: fixed_window, consistency: local}\n", stickyLimit)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &sticky{}
	s.start = func(i int, more ...string) *node {
		// Behind each node is an application that tells which one it was.
		app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, i) }))
		t.Cleanup(app.Close)
		return serve(t, "memory:", file, append([]string{"--upstream", app.URL, "--trusted-proxies", "127.0.0.1"}, more...)...)
	}
	var named [3]string
	for i := range nodes {
		n := s.start(i)
		s.nodes = append(s.nodes, n)
		named[i] = strings.TrimPrefix(n.http, "http://")
	}
	conf, err := os.ReadFile("../../deploy/nginx/weir-sticky.conf")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = servertest.NginxServers(t, func(addr string) string {
		out := string(conf)
		for i, to := range append(named[:], addr) {
			from := fmt.Sprintf("server 10.0.0.%d:8080 ", i+1)
			to = "server " + to + " "
			if i == len(named) {
				from, to = "listen 80;", "listen "+addr+";"
			}
			if strings.Count(out, from) != 1 {
				t.Fatalf("weir-sticky.conf has %q %d times", from, strings.Count(out, from))
			}
			out = strings.Replace(out, from, to, 1)
		}
		return out
	})
	for i := range clients {
		from := &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i+1))}
		transport := &http.Transport{DialContext: (&net.Dialer{LocalAddr: from}).DialContext}
		t.Cleanup(transport.CloseIdleConnections)
		s.clients = append(s.clients, &http.Client{Transport: transport, Timeout: 20 * time.Second})
	}
	return s
}

// ask makes so many requests of every client, and returns how many passed and which
// node passed them, -1 for none.
func (s *sticky) ask(t *testing.T, times int) (passed, node []int) {
	t.Helper()
	passed, node = make([]int, len(s.clients)), make([]int, len(s.clients))
	var failed atomic.Int64
	var all sync.WaitGroup
	for i, c := range s.clients {
		node[i] = -1
		all.Go(func() {
			for range times {
				res, err := c.Get("http://" + s.addr + "/")
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				switch at := 0; {
				case err == nil && res.StatusCode == http.StatusTooManyRequests:
				case err == nil && res.StatusCode == http.StatusOK:
					if _, err := fmt.Sscan(string(body), &at); err != nil || node[i] >= 0 && node[i] != at {
						t.Errorf("client %d was on node %d, then on %q", i, node[i], body)
					}
					passed[i]++
					node[i] = at
				default:
					if failed.Add(1) == 1 {
						t.Errorf("client %d: %d %s, %v", i, res.StatusCode, body, err)
					}
				}
			}
		})
	}
	all.Wait()
	return passed, node
}

// Behind a consistent hash each client has one node, which holds the limit alone. When
// a node dies its clients begin anew on the others, once, so they get the limit at most
// once more; nobody else notices.
func TestFamilyStickyNodeDies(t *testing.T) {
	processes(t)
	const clients, dead = 60, 1
	s := newSticky(t, 3, clients)
	first, node := s.ask(t, 2*stickyLimit)
	var share [3]int
	for i := range clients {
		if first[i] != stickyLimit {
			t.Errorf("client %d got %d of %d on one node", i, first[i], stickyLimit)
		}
		share[max(node[i], 0)]++
	}
	t.Logf("clients of each node: %v", share)
	for n, got := range share {
		if got < clients/3/3 {
			t.Errorf("node %d has %d clients of %d", n, got, clients)
		}
	}
	if err := s.nodes[dead].Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	then, moved := s.ask(t, 2*stickyLimit)
	heirs := map[int]int{}
	for i := range clients {
		switch {
		case node[i] != dead && then[i] != 0:
			t.Errorf("client %d of node %d, which lives, got %d more on node %d", i, node[i], then[i], moved[i])
		case node[i] == dead && then[i] != stickyLimit:
			t.Errorf("client %d of the lost node got %d on another, want the limit once, %d", i, then[i], stickyLimit)
		case node[i] == dead:
			heirs[moved[i]]++
		}
	}
	t.Logf("clients of the lost node, by heir: %v", heirs)
	if len(heirs) != 2 || heirs[dead] != 0 {
		t.Errorf("the clients of the lost node went to %v, want both others", heirs)
	}
	// That was once: they have the same node from now on.
	if last, _ := s.ask(t, 2); fmt.Sprint(last) != fmt.Sprint(make([]int, clients)) {
		t.Errorf("later, these still passed: %v", last)
	}
	if !soak {
		return
	}
	// A node that is back has forgotten its clients: they get the limit once more, when
	// nginx tries it again.
	s.start(dead, "--http", strings.TrimPrefix(s.nodes[dead].http, "http://"))
	waitUntil(time.Now().Add(11 * time.Second))
	back, last := s.ask(t, 2*stickyLimit)
	for i := range clients {
		if node[i] != dead && back[i] != 0 || node[i] == dead && (back[i] != stickyLimit || last[i] != dead) {
			t.Errorf("client %d of node %d got %d on node %d when node %d was back", i, node[i], back[i], last[i], dead)
		}
	}
}
