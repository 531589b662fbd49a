package hostile

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// proxyLine and proxyBytes are headers of the PROXY protocol, of versions 1 and 2.
func proxyLine(client string) string { return "PROXY TCP4 " + client + " 10.0.0.1 4711 443\r\n" }

func proxyBytes(client string) string {
	a := netip.MustParseAddr(client).As4()
	return "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + string(a[:]) + "\x0a\x00\x00\x01\x12\x67\x01\xbb"
}

// TestProxyProtocolAtEveryDoor: behind a balancer of TCP whom the header names is who is
// counted at the gateway, who may use the API, who may ask for a proxy, and whose
// connections are bounded, also over TLS. A connection without a whole header is closed
// and holds up no other, and peers that are not listed, as health checks are, need none.
func TestProxyProtocolAtEveryDoor(t *testing.T) {
	t.Parallel()
	cert, key, _ := servertest.Certificate(t, t.TempDir(), "node")
	u := startUpstream(t)
	s := serve(t, "--limit", "1/year by ip", "--upstream", u.URL, "WEIR_TLS_CERT="+cert, "WEIR_TLS_KEY="+key, "--proxy-protocol", "127.0.0.2",
		"--trust", "198.51.100.1", "--forward-auth", "/auth", "--trusted-proxies", "198.51.100.2",
		"--config", servertest.Config(t, "http: {max_client_connections: 3}"))
	open := func(from, head string) net.Conn {
		t.Helper()
		c := s.dialFrom(t, from)
		if _, err := io.WriteString(c, head); err != nil {
			t.Fatal(err)
		}
		return tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	}
	f := func(want int, from, head, request string) {
		t.Helper()
		c := open(from, head)
		defer c.Close()
		got := 0
		if _, err := io.WriteString(c, request); err == nil {
			if res, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
				got = res.StatusCode
			}
		}
		if got != want {
			t.Errorf("from %s, %.60q, %.40q: %d, want %d", from, head, request, got, want)
		}
	}
	const get, balancer = "GET / HTTP/1.1\r\nHost: h\r\n\r\n", "127.0.0.2"
	f(200, balancer, proxyLine("203.0.113.1"), get)
	f(429, balancer, proxyBytes("203.0.113.1"), get)
	f(200, balancer, proxyBytes("203.0.113.2"), get)
	f(429, balancer, proxyLine("203.0.113.2"), get)
	f(200, "127.0.0.3", "", get) // a health check of another machine, and the client that it is
	f(429, "127.0.0.3", "", get)
	f(200, balancer, "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00", get) // the balancer's own

	check := `{"domain":"weir","descriptors":[{"entries":{"x":"y"}}]}`
	check = fmt.Sprintf("POST /v1/check HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(check), check)
	f(200, balancer, proxyLine("198.51.100.1"), check)
	f(429, balancer, proxyLine("203.0.113.1"), check) // a stranger's request is for the upstream
	asked := "GET /auth HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: h\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /\r\n\r\n"
	f(200, balancer, proxyBytes("198.51.100.2"), asked)
	f(429, balancer, proxyBytes("198.51.100.2"), asked)
	f(400, balancer, proxyBytes("203.0.113.2"), asked)

	before := u.requests.Load()
	for _, head := range []string{
		"", "PROXY TCP4 999.1.1.1 10.0.0.1 1 2\r\n", "PROXY TCP4 " + strings.Repeat("1", 200) + "\r\n", proxyLine("203.0.113.5") + proxyLine("203.0.113.6"),
		"\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x04\x01\x02\x03\x04", "\r\n\r\n\x00\r\nQUIT\n\x31\x11\x00\x0c" + strings.Repeat("\x01", 12),
	} {
		f(0, balancer, head, get)
	}
	if now := u.requests.Load(); now != before {
		t.Errorf("%d requests without a header reached the upstream", now-before)
	}
	half := s.dialFrom(t, balancer) // and goes no further
	if _, err := io.WriteString(half, "PROXY TCP4 203"); err != nil {
		t.Fatal(err)
	}

	first := open(balancer, proxyLine("203.0.113.7"))
	for range 3 {
		c := open(balancer, proxyLine("203.0.113.7"))
		if _, err := io.WriteString(c, get); err != nil {
			t.Fatal(err)
		}
		if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
			t.Errorf("one client's connection: %v", err)
		}
	}
	first.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(io.Discard, first.(*tls.Conn).NetConn()); err != nil {
		t.Errorf("the fourth connection of a client did not replace its first: %v", err)
	}
	f(200, balancer, proxyLine("203.0.113.8"), get)
}

// TestProxyHeadersAreNotLost: a connection that ends since its balancer sends no header, or
// since one sends a header that nobody reads, is counted at its port and told once, with the
// setting.
func TestProxyHeadersAreNotLost(t *testing.T) {
	t.Parallel()
	cert, key, _ := servertest.Certificate(t, t.TempDir(), "node")
	plain := serve(t, "--limit", unlimited, "--grpc", "127.0.0.1:0", "--resp", "127.0.0.1:0")
	listed := serve(t, "--limit", unlimited, "WEIR_TLS_CERT="+cert, "WEIR_TLS_KEY="+key, "--proxy-protocol", "127.0.0.2")
	const get = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
	for _, head := range []string{proxyLine("203.0.113.1"), proxyBytes("203.0.113.1")} {
		for range 5 {
			for _, port := range []string{"http", "admin", "grpc", "resp"} {
				sendPlain("127.0.0.3", plain.Listening(port), head+get)
			}
			sendPlain("127.0.0.3", listed.addr, head+get)
		}
	}
	for _, head := range []string{get, "PROXY TCP4 999.1.1.1 10.0.0.1 1 2\r\n" + get} {
		sendPlain("127.0.0.2", listed.addr, head)
	}
	f := func(s *node, port, reason string, want float64) {
		t.Helper()
		series := fmt.Sprintf("weir_connections_refused_total{listener=%q,reason=%q}", port, reason)
		servertest.Await(t, fmt.Sprintf("%s to be %v", series, want), func() bool { return s.metric(t, series) == want })
	}
	for _, port := range []string{"http", "admin", "grpc", "resp"} {
		f(plain, port, "proxy_unasked", 10)
		f(plain, port, "proxy_missing", 0)
	}
	f(listed, "http", "proxy_unasked", 10)
	f(listed, "http", "proxy_missing", 2)
	for s, lines := range map[*node]map[string]int{
		plain:  {"list its addresses in http.proxy_protocol (--proxy-protocol)": 1, "have the load balancer send no PROXY header to this port": 3},
		listed: {"list its addresses in http.proxy_protocol (--proxy-protocol)": 1, "peers listed in http.proxy_protocol must begin with a PROXY header": 1},
	} {
		for line, want := range lines {
			if n := strings.Count(s.Output(), line); n < 1 || n > want+1 {
				t.Errorf("%q is logged %d times, want %d:\n%s", line, n, want, s.Output())
			}
		}
	}
}
