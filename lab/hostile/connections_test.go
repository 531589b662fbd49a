package hostile

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// places is how many connections a node of these tests has.
const places = 32

// startSwitching answers "up\n", reads the body at /read first, changes the protocol
// at /switch, where nothing is said unless the client asks /switch?tick, and answers
// at /wait when release is sent to, after arrived.
func startSwitching(t *testing.T) (url string, arrived, release chan struct{}) {
	arrived, release = make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/read":
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
		case "/wait":
			select {
			case arrived <- struct{}{}:
				select {
				case <-release:
				case <-r.Context().Done():
				}
			case <-r.Context().Done():
			}
		case "/switch":
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if _, err := io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); err != nil {
				return
			}
			if r.URL.RawQuery != "tick" {
				_, _ = io.Copy(io.Discard, c)
				return
			}
			for range 40 {
				if _, err := io.WriteString(c, "."); err != nil {
					return
				}
				<-time.After(100 * time.Millisecond)
			}
			return
		}
		fmt.Fprint(w, "up\n")
	}))
	t.Cleanup(s.Close)
	return s.URL, arrived, release
}

// as begins a connection as one of a client whom a load balancer names.
func as(client string) string {
	if strings.Contains(client, ":") {
		return "PROXY TCP6 " + client + " 2001:db8::1 4711 80\r\n"
	}
	return "PROXY TCP4 " + client + " 198.51.100.1 4711 80\r\n"
}

const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"

// holds are ways to hold a connection: what is said first, and then again and again.
var holds = map[string]struct{ first, again string }{
	"says nothing":             {"", ""},
	"slow headers":             {"GET / HTTP/1.1\r\nHost: h\r\n", "X-More: 1\r\n"},
	"slow bodies":              {"POST /read HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n", "x"},
	"idle after a request":     {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", ""},
	"a request now and then":   {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\n\r\n"},
	"HTTP/2 without streams":   {preface + frame(frameSettings, 0, 0, ""), frame(framePing, 0, 0, "12345678")},
	"HTTP/2 with a stream":     {preface + frame(frameSettings, 0, 0, "") + frame(frameHeaders, endHeaders, 1, request("POST", "h", "/read")), frame(frameData, 0, 1, "x")},
	"WebSockets":               {"GET /switch HTTP/1.1\r\nHost: h\r\n" + upgrade, ""},
	"WebSockets that say much": {"GET /switch HTTP/1.1\r\nHost: h\r\n" + upgrade, "0123456789"},
}

// hold keeps as many connections open as there are places, of the clients in turn,
// and opens each anew that the node closes, until stop is closed.
func (s *node) hold(t *testing.T, clients []string, first, again string, stop chan struct{}) *sync.WaitGroup {
	var all, opened sync.WaitGroup
	for i := range places {
		opened.Add(1)
		all.Go(func() {
			begun := sync.OnceFunc(opened.Done)
			defer begun()
			for {
				s.holdOne(as(clients[i%len(clients)])+first, again, begun, stop)
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		})
	}
	opened.Wait()
	return &all
}

// holdOne holds one connection until the node closes it.
func (s *node) holdOne(first, again string, begun func(), stop chan struct{}) {
	c, err := s.try()
	if err != nil {
		return
	}
	defer c.Close()
	_, err = io.WriteString(c, first)
	begun()
	b := make([]byte, 4096)
	for err == nil {
		select {
		case <-stop:
			return
		default:
		}
		if err = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err == nil {
			if _, err = c.Read(b); errors.Is(err, os.ErrDeadlineExceeded) {
				_, err = io.WriteString(c, again)
			}
		}
	}
}

// askAs asks once on a connection of its own, as a client.
func (s *node) askAs(client, path string) error { return s.askOver(client, path, nil) }

// askOver is askAs, over TLS unless conf is nil.
func (s *node) askOver(client, path string, conf *tls.Config) error {
	c, err := s.try()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, as(client)); err != nil {
		return err
	}
	if conf != nil {
		c = tls.Client(c, conf)
	}
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && string(body) != "up\n" {
		err = fmt.Errorf("answered %d %q", res.StatusCode, body)
	}
	return err
}

// serveMany starts a node of few places, behind a load balancer that names clients.
func serveMany(t *testing.T, upstream string, args ...string) *node {
	return serve(t, append([]string{"--limit", unlimited, "--upstream", upstream, "--proxy-protocol", "127.0.0.0/8",
		"--config", servertest.Config(t, "http: {max_connections: %v, read_header_timeout: 1m}", places)}, args...)...)
}

// TestFamilyNobodyTakesAllConnections: a client that opens as many connections as
// there are, in whatever way it holds them, keeps nobody else out.
func TestFamilyNobodyTakesAllConnections(t *testing.T) {
	up, _, _ := startSwitching(t)
	block := make([]string, 20)
	for i := range block {
		block[i] = fmt.Sprintf("2001:db8:1:2::%x", i+1)
	}
	for name, h := range holds {
		for kind, clients := range map[string][]string{"IPv4": {"192.0.2.1"}, "IPv6": block} {
			if kind == "IPv6" && name != "slow bodies" && !soak {
				continue
			}
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				s := serveMany(t, up)
				stop := make(chan struct{})
				all := s.hold(t, clients, h.first, h.again, stop)
				for i := range n(5, 100) {
					if err := s.askAs("203.0.113.7", "/"); err != nil {
						t.Errorf("another client, request %d: %v", i, err)
						break
					}
				}
				if refused, closed := s.metric(t, `weir_connections_refused_total{listener="http",reason="client"}`),
					s.metric(t, `weir_connections_closed_total{listener="http",reason="client"}`); refused+closed == 0 {
					t.Error("a client with all connections, and none was refused or closed")
				}
				close(stop)
				all.Wait()
			})
		}
	}
}

// TestFamilyHandshakesTakeNoPlaces: handshakes that do not end, of one client or of
// many, keep nobody else out. Where many open all connections anew all the time, one
// who has not asked yet may have to try again.
func TestFamilyHandshakesTakeNoPlaces(t *testing.T) {
	up, _, _ := startSwitching(t)
	cert, key, _ := servertest.Certificate(t, t.TempDir(), "weir")
	many := make([]string, 8)
	for i := range many {
		many[i] = fmt.Sprintf("2001:db8:%d::1", i+1)
	}
	for name, first := range map[string]string{
		"says nothing":        "",
		"half a handshake":    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"no handshake at all": "GET / HTTP/1.1\r\nHost: h\r\n",
	} {
		for kind, clients := range map[string][]string{"one": {"192.0.2.1"}, "many": many} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				s := serveMany(t, up, "WEIR_TLS_CERT="+cert, "WEIR_TLS_KEY="+key)
				stop := make(chan struct{})
				all := s.hold(t, clients, first, "", stop)
				for i := range n(5, 100) {
					var err error
					for range map[string]int{"one": 1, "many": 20}[kind] {
						if err = s.askOver("203.0.113.7", "/", &tls.Config{InsecureSkipVerify: true}); err == nil {
							break
						}
					}
					if err != nil {
						t.Errorf("another client, request %d: %v", i, err)
						break
					}
				}
				close(stop)
				all.Wait()
			})
		}
	}
}

// TestFamilyIdleConnectionsMakeRoom: where all places are taken by clients that stay
// within their shares, the connection that is idle for longest is closed for a new
// one, and none that has a request under way.
func TestFamilyIdleConnectionsMakeRoom(t *testing.T) {
	up, arrived, release := startSwitching(t)
	clients := make([]string, 8)
	for i := range clients {
		clients[i] = fmt.Sprintf("192.0.2.%d", i+1)
	}
	for _, name := range []string{"says nothing", "slow headers", "idle after a request", "HTTP/2 without streams"} {
		t.Run(name, func(t *testing.T) {
			s := serveMany(t, up)
			waits := make(chan error, 1)
			go func() { waits <- s.askAs("203.0.113.8", "/wait") }()
			select {
			case <-arrived:
			case err := <-waits:
				t.Fatalf("the request that is to wait ended with %v", err)
			}
			stop := make(chan struct{})
			all := s.hold(t, clients, holds[name].first, holds[name].again, stop)
			for i := range n(5, 100) {
				if err := s.askAs("203.0.113.7", "/"); err != nil {
					t.Errorf("another client, request %d: %v", i, err)
					break
				}
			}
			if s.metric(t, `weir_connections_closed_total{listener="http",reason="full"}`) == 0 {
				t.Error("all places are taken, and no idle connection was closed")
			}
			select {
			case err := <-waits:
				t.Errorf("the request under way ended with %v", err)
			default:
			}
			close(stop)
			all.Wait()
			select {
			case release <- struct{}{}:
			case <-time.After(time.Minute):
				t.Fatal("the upstream has lost the request under way")
			}
			if err := <-waits; err != nil {
				t.Errorf("the request under way: %v", err)
			}
		})
	}
}

// TestFamilyQuietUpgrades: an upgraded connection is closed when nothing moves on it,
// and not while something does, in either direction.
func TestFamilyQuietUpgrades(t *testing.T) {
	up, _, _ := startSwitching(t)
	s := serveMany(t, up, "--config", servertest.Config(t, "http: {max_connections: %v, read_header_timeout: 1m, idle_timeout: 1s}", places))
	begin := func(path string) net.Conn {
		c := s.dial(t)
		if _, err := io.WriteString(c, as("192.0.2.1")+"GET "+path+" HTTP/1.1\r\nHost: h\r\n"+upgrade); err != nil {
			t.Fatal(err)
		}
		return c
	}
	began := time.Now()
	quiet, heard, speaks := begin("/switch"), begin("/switch?tick"), begin("/switch")
	ended := make(chan string, 1)
	go func() {
		said, err := closed(quiet)
		if err != nil {
			t.Error(err)
		}
		ended <- said
	}()
	got := make(chan int, 1)
	go func() {
		said, _ := closed(heard)
		_, ticks, _ := strings.Cut(said, "\r\n\r\n")
		got <- len(ticks)
	}()
	for range 30 {
		if _, err := io.WriteString(speaks, "x"); err != nil {
			t.Fatalf("after %s, a connection whose client speaks: %v", time.Since(began), err)
		}
		<-time.After(100 * time.Millisecond)
	}
	speaks.Close()
	if said := <-ended; !strings.Contains(said, "101 Switching") {
		t.Errorf("the quiet connection was answered %q", said)
	}
	if ticks := <-got; ticks != 40 {
		t.Errorf("%d of 40 bytes of the upstream came", ticks)
	}
	if n := s.metric(t, `weir_connections_closed_total{listener="http",reason="idle"}`); n != 1 {
		t.Errorf("%g quiet connections were closed, want 1", n)
	}
}
