package hostile

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// raw sends bytes on a connection of its own, from the address from, and returns
// the status of the answer, 0 if there is none.
func (s *node) raw(t *testing.T, from, text string) int {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Minute))
	io.WriteString(c, text)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	return res.StatusCode // its body, which HEAD has not, ends with the connection
}

// TestNobodyNamesAnotherAddress: in front of nobody, no header and no PROXY line
// makes one client two, or makes him another.
func TestNobodyNamesAnotherAddress(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	s := serve(t, "--limit", "1/year by ip using fixed_window", "--upstream", u.URL)
	if code := s.raw(t, "127.0.0.2", "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); code != 200 {
		t.Fatal(code)
	}
	for _, name := range []string{
		"X-Forwarded-For", "x-forwarded-for", "X_Forwarded_For", "X-Forwarded_For", "Forwarded", "X-Real-IP", "True-Client-IP",
		"CF-Connecting-IP", "Fastly-Client-IP", "X-Client-IP", "X-Cluster-Client-IP", "Via", "X-Original-Forwarded-For", "Client-IP",
	} {
		for _, value := range []string{"203.0.113.7", "for=203.0.113.7", "127.0.0.1", "::1", strings.Repeat("203.0.113.7, ", 1500) + "203.0.113.7", "unknown", ""} {
			if code := s.raw(t, "127.0.0.2", "GET / HTTP/1.1\r\nHost: h\r\n"+name+": "+value+"\r\n\r\n"); code != 429 {
				t.Errorf("with %s: %.40s answered %d", name, value, code)
			}
		}
	}
	for _, proxy := range []string{"PROXY TCP4 203.0.113.7 10.0.0.1 1 2\r\n", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xcb\x00\x71\x07\x0a\x00\x00\x01\x00\x01\x00\x02"} {
		if code := s.raw(t, "127.0.0.2", proxy+"GET / HTTP/1.1\r\nHost: h\r\n\r\n"); code == 200 {
			t.Errorf("a PROXY header is believed: %q", proxy)
		}
	}
	if got := u.requests.Load(); got != 1 {
		t.Errorf("the upstream had %d requests, want 1", got)
	}
}

// TestTrustedProxyNamesTheClient: behind a proxy that is listed each client is
// one, whatever he put before the address that the proxy wrote; with the PROXY
// protocol likewise.
func TestTrustedProxyNamesTheClient(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	s := serve(t, "--limit", "1/year by ip using fixed_window", "--upstream", u.URL, "--trusted-proxies", "127.0.0.2")
	f := func(want int, from, headers string) {
		t.Helper()
		if code := s.raw(t, from, "GET / HTTP/1.1\r\nHost: h\r\n"+headers+"\r\n"); code != want {
			t.Errorf("from %s, %.60q: %d, want %d", from, headers, code, want)
		}
	}
	f(200, "127.0.0.2", "X-Forwarded-For: 203.0.113.7\r\n")
	f(429, "127.0.0.2", "X-Forwarded-For: 198.51.100.1, 203.0.113.7\r\n")
	f(429, "127.0.0.2", "X-Forwarded-For: 198.51.100.2\r\nX-Forwarded-For: 203.0.113.7\r\n")
	f(429, "127.0.0.2", "X-Forwarded-For: "+strings.Repeat("1.2.3.4,", 3000)+"203.0.113.7\r\n")
	f(429, "127.0.0.2", "X-Forwarded-For: 203.0.113.7:4711\r\nForwarded: for=198.51.100.3\r\nX-Real-IP: 198.51.100.4\r\n")
	f(200, "127.0.0.2", "X-Forwarded-For: 203.0.113.8\r\n")
	f(200, "127.0.0.3", "X-Forwarded-For: 203.0.113.9\r\n") // a stranger
	f(429, "127.0.0.3", "X-Forwarded-For: 203.0.113.10\r\n")

	p := serve(t, "--limit", "1/year by ip using fixed_window", "--upstream", u.URL, "--proxy-protocol", "127.0.0.2")
	g := func(want int, from, first string) {
		t.Helper()
		if code := p.raw(t, from, first+"GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 198.51.100.1\r\n\r\n"); code != want {
			t.Errorf("from %s, %q: %d, want %d", from, first, code, want)
		}
	}
	g(200, "127.0.0.2", "PROXY TCP4 203.0.113.7 10.0.0.1 1 2\r\n")
	g(429, "127.0.0.2", "PROXY TCP4 203.0.113.7 10.0.0.1 3 2\r\n")
	g(0, "127.0.0.2", "")
	g(400, "127.0.0.3", "PROXY TCP4 203.0.113.9 10.0.0.1 1 2\r\n")
}

// TestOneRequestManySpellings: a limit on method, host and path is spent by the
// first spelling, and no other spelling of the same, over HTTP/1.1 or HTTP/2,
// gets past it; what cannot be read is 400 and does not reach the upstream.
func TestOneRequestManySpellings(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	s := serve(t, "--upstream", u.URL, "--rules", rules(t, `
domain: api
descriptors:
- key: method
  descriptors:
  - key: host
    descriptors:
    - {key: path, limit: 1/year, algorithm: fixed_window}
`), "--config", rules(t, "routes: [{descriptors: [{entries: [method, host, path]}]}]\n"))
	f := func(want int, method, target, host, more string) {
		t.Helper()
		if code := s.raw(t, "127.0.0.2", method+" "+target+" HTTP/1.1\r\nHost: "+host+"\r\n"+more+"\r\n"); code != want {
			t.Errorf("%s %s, Host %s: %d, want %d", method, target, host, code, want)
		}
	}
	f(200, "GET", "/login", "example.com", "")
	for _, target := range []string{
		"/login", "/login/", "/%6cogin", "/%6Cogin", "/login?x=1", "/login/?", "/log%69%6e", "http://example.com/login", "http://EXAMPLE.com:80/login/",
	} {
		f(429, "GET", target, "example.com", "")
	}
	before := u.requests.Load()
	for _, target := range []string{
		"//login", "/./login", "/a/../login", "/login;x=1", "/login;x=1/", "/..;/login", "/a/%2e%2e/login", "/a/%2E./login", "/%2flogin", "/%5clogin", `/\login`, "/login%2f", "/login//./",
		"///login///", "/..%3b/login", "http://EXAMPLE.com:80//login", "/a/..%2flogin",
	} {
		f(400, "GET", target, "example.com", "")
	}
	for _, host := range []string{"EXAMPLE.com", "example.com.", "example.com:80", "Example.Com.:8443", "example.com:"} {
		f(429, "GET", "/login", host, "")
	}
	f(429, "HEAD", "/login", "example.com", "")
	f(429, "GET", "/login", "example.com", "X-HTTP-Method-Override: DELETE\r\n")
	f(429, "get", "/login", "example.com", "")
	for _, target := range []string{"/%00", "/a%0d%0ab", "/%c0%af", "/%C0%AE%c0%ae/", "/%", "/%zz", "/%ff", "/%ed%a0%80", "/login\x00", "/" + strings.Repeat("a", 9000), "login", "*"} {
		f(400, "GET", target, "example.com", "")
	}
	for _, host := range []string{"a b", "a/b", "a@b", "example..com", "a:80:80", "[::1"} {
		f(400, "GET", "/login", host, "")
	}
	if got := u.requests.Load(); got != before {
		t.Errorf("%d unreadable requests reached the upstream", got-before)
	}
	// Over HTTP/2 :authority is the host.
	for _, authority := range []string{"example.com", "EXAMPLE.com.", "example.com:443"} {
		for _, path := range []string{"/login", "/login/", "/%6cogin"} {
			if got := s.status2(t, request("GET", authority, path)); got != 429 {
				t.Errorf("over HTTP/2, %s%s: %d", authority, path, got)
			}
		}
	}
	f(200, "POST", "/login", "example.com", "Content-Length: 0\r\n")
	f(200, "GET", "/Login", "example.com", "")
	f(200, "GET", "/login", "www.example.com", "")
	if got := s.status2(t, request("GET", "h2.example.com", "/login")); got != 200 {
		t.Errorf("over HTTP/2: %d", got)
	}
}

// TestTargetsOfTwoReadings: what one upstream reads as another target than the
// next one does is 400 and charged to nobody, over HTTP/1.1 and HTTP/2, with
// routes and without, in the path and in the query.
func TestTargetsOfTwoReadings(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	with := serve(t, "--upstream", u.URL, "--rules", rules(t, `
domain: api
descriptors:
- {key: path, limit: 1/year, algorithm: fixed_window}
- {key: remote_address, limit: 1/year, algorithm: fixed_window}
`), "--config", rules(t, `
routes:
  - {path: /health/*, unlimited: true}
  - {descriptors: [{entries: [path]}, {entries: [remote_address]}]}
`))
	without := serve(t, "--upstream", u.URL, "--limit", "1/year by ip using fixed_window")
	for _, s := range []*node{with, without} {
		for _, path := range []string{
			"/login HTTP/1.1", "/login x HTTP/1.1", "/login HTTP/1.1/../../../health", "/login ", " /login", "/login\t", "/login?a b", "/login?a=b HTTP/1.1", "/health/ x", "/health/?a ",
			"/login\x0b", "/login\x0c", "/login\u00a0", "/login?\xff", "/login#", "/login#/health", "/login?a#b", "/login\"", "/login?<>", "http://h/login", "//h/login ", "*", "login", "?x",
		} {
			if code := s.status2(t, request("GET", "h", path)); code != 400 && code != 0 {
				t.Errorf("over HTTP/2, %q: %d", path, code)
			}
		}
		fields := func(pairs ...string) (all string) {
			for i := 0; i < len(pairs); i += 2 {
				all += field(pairs[i], pairs[i+1])
			}
			return all
		}
		get := []string{":method", "GET", ":scheme", "http", ":authority", "h", ":path", "/login"}
		for name, text := range map[string]string{
			"no method": fields(get[2:]...), "no scheme": fields(append(get[:2:2], get[4:]...)...), "no path": fields(get[:6]...),
			"two paths": fields(append(get, ":path", "/health/")...), "two authorities": fields(append(get, ":authority", "i")...), "two methods": fields(append(get, ":method", "PUT")...),
			"method": fields(append([]string{":method", "GET /health/"}, get[2:]...)...), "method with a line": fields(append([]string{":method", "GET\r\nX"}, get[2:]...)...),
			"scheme": fields(append(append(get[:2:2], ":scheme", "file"), get[4:]...)...), "another host": fields(append(get, "host", "i")...), "two hosts": fields(append(get, "host", "h", "host", "i")...),
			"userinfo": fields(append(append(get[:4:4], ":authority", "u@h"), get[6:]...)...), "authority with a path": fields(append(append(get[:4:4], ":authority", "h/health/"), get[6:]...)...),
			"late path": fields("x", "y") + fields(get...), "list": fields(append(append(get[:4:4], ":authority", "h, i"), get[6:]...)...), "protocol": fields(append(get, ":protocol", "websocket")...),
			"connect": fields(":method", "CONNECT", ":authority", "h:80"), "length": fields(append(get, "content-length", "1, 2")...), "coding": fields(append(get, "transfer-encoding", "chunked")...),
			"value with a line": fields(append(get, "x", "a\r\ny: b")...), "value with NUL": fields(append(get, "x", "a\x00b")...), "name with a space": fields(append(get, "x y", "a")...), "name in upper case": fields(append(get, "X", "a")...),
		} {
			if code := s.status2(t, text); code != 400 && code != 0 && code != 501 {
				t.Errorf("over HTTP/2, %s: %d", name, code)
			}
		}
		for _, line := range []string{"OPTIONS *", "GET *", "GET /login#x", "GET /login?x#", "GET /caf\xc3\xa9", "GET ftp://h/login", "GET http://u@h/login", "GET http:///login", "GET http:/login", "GET http:login",
			"CONNECT h:80", "CONNECT /login", "GET /\x7f", "GET /a?\x80", "GET \x00/", "G@T /login"} {
			if code := s.raw(t, "127.0.0.2", line+" HTTP/1.1\r\nHost: h\r\n\r\n"); code != 400 {
				t.Errorf("%q: %d", line, code)
			}
		}
		for _, host := range []string{"a, b", "h\r\nHost: i", "u@h", "h:80:80", "h/x", "h x"} {
			if code := s.raw(t, "127.0.0.2", "GET /login HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); code != 400 {
				t.Errorf("Host %q: %d", host, code)
			}
		}
		if got := u.requests.Load(); got != 0 {
			t.Errorf("%d of them reached the upstream", got)
		}
		// Nothing was charged.
		if code := s.raw(t, "127.0.0.2", "GET /login HTTP/1.1\r\nHost: h\r\n\r\n"); code != 200 {
			t.Errorf("the first: %d", code)
		}
		if code := s.status2(t, request("GET", "h", "/login?a[]={b|c}")); code != 429 {
			t.Errorf("the second: %d", code)
		}
		u.requests.Store(0)
	}
	// Where there is no gateway, the same.
	api := serve(t, "--limit", "1/year by ip")
	if code := api.raw(t, "127.0.0.1", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"); code < 400 {
		t.Errorf("OPTIONS *: %d", code)
	}
}

// status2 returns the status of one request over HTTP/2, 0 if it is reset.
func (s *node) status2(t *testing.T, fields string) int {
	t.Helper()
	c, err := s.h2()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, frame(frameHeaders, endStream|endHeaders, 1, fields))
	for {
		var head [9]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			t.Fatal(err)
		}
		if head[3] == frameReset || head[3] == frameGoAway {
			return 0
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(c, payload); err != nil {
			t.Fatal(err)
		}
		if head[3] != frameHeaders || len(payload) == 0 {
			continue
		}
		switch payload[0] { // :status is the first field
		case 0x88:
			return 200
		case 0x8c:
			return 400
		}
		if payload[0]&0xc0 == 0x40 && len(payload) > 5 && payload[1] == 3 { // a literal of three bytes
			code, err := strconv.Atoi(string(payload[2:5]))
			if err != nil {
				t.Fatal(err)
			}
			return code
		}
		t.Fatalf("status % x", payload[:min(8, len(payload))])
	}
}

// TestSmuggling: no way to write the length of a body makes one request two to
// the upstream that were one to the limits.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	s := serve(t, "--limit", unlimited, "--upstream", u.URL)
	const inner = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
	texts := map[string]string{
		"both":         "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"two lengths":  "Content-Length: 0\r\nContent-Length: 37\r\n\r\n",
		"list":         "Content-Length: 0, 37\r\n\r\n",
		"plus":         "Content-Length: +0\r\n\r\n",
		"hex":          "Content-Length: 0x0\r\n\r\n",
		"space":        "Content-Length : 0\r\n\r\n",
		"te case":      "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"te list":      "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
		"te twice":     "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"te fold":      "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
		"te tab":       "Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
		"bare lf":      "X: y\nContent-Length: 0\r\n\r\n",
		"bare cr":      "X: y\rContent-Length: 0\r\n\r\n",
		"nul":          "X: y\x00\r\nContent-Length: 0\r\n\r\n",
		"chunk size":   "Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
		"chunk huge":   "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
		"chunk lf":     "Transfer-Encoding: chunked\r\n\r\n1\nx\n0\n\n",
		"early answer": "Content-Length: 100\r\n\r\nx",
		"http/1.0 te":  "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"upgrade h2c":  "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 0\r\n\r\n",
	}
	done := make(chan struct{})
	for name, text := range texts {
		go func() {
			defer func() { done <- struct{}{} }()
			c, err := s.try()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			version := "HTTP/1.1"
			if strings.HasPrefix(name, "http/1.0") {
				version = "HTTP/1.0"
			}
			io.WriteString(c, fmt.Sprintf("POST /%s %s\r\nHost: h\r\n%s%s", url.PathEscape(name), version, text, inner))
			c.SetReadDeadline(time.Now().Add(time.Second))
			closed(c)
		}()
	}
	for range texts {
		<-done
	}
	reached, counted := u.requests.Load(), int64(s.decisions(t))
	if reached > counted || reached == 0 {
		t.Errorf("%d requests reached the upstream, %d were counted", reached, counted)
	}
}

// decisions returns how many the node has made.
func (s *node) decisions(t *testing.T) (total float64) {
	t.Helper()
	_, _, body := get(t, "http://"+s.admin+"/metrics")
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, "weir_decisions_total{") {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	return total
}
