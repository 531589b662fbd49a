package main_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// nginx starts an upstream that answers "up" and returns its URL and how many
// requests it has had.
func nginx(t *testing.T) (url string, requests func() int) {
	t.Helper()
	addr, dir := servertest.Nginx(t, `location / { add_header X-Upstream nginx; return 200 "up\n"; }`)
	return "http://" + addr, func() int {
		log, err := os.ReadFile(filepath.Join(dir, "access.log"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(log), "\n")
	}
}

// statuses counts answers by status.
type statuses struct {
	mu sync.Mutex
	n  map[int]int
}

func (s *statuses) add(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == nil {
		s.n = make(map[int]int)
	}
	s.n[code]++
}

// In front of a real nginx, exactly the limit is forwarded, and nginx never
// sees the rest.
func TestGatewayAdmitsExactly(t *testing.T) {
	upstream, requests := nginx(t)
	n := serve(t, "--limit", "20/hour by ip", "--upstream", upstream)
	var got statuses
	for range 30 {
		code, _ := get(t, n.http+"/a/path?with=query")
		got.add(code)
	}
	if got.n[200] != 20 || got.n[429] != 10 || len(got.n) != 2 {
		t.Errorf("answered %v, want 20 of 200 and 10 of 429", got.n)
	}
	servertest.Await(t, "nginx's log", func() bool { return requests() >= 20 })
	if r := requests(); r != 20 {
		t.Errorf("nginx had %d requests, want 20", r)
	}
}

// The bytes of the header fields, on an answer and on a refusal.
func TestGatewayHeaderBytes(t *testing.T) {
	upstream, _ := nginx(t)
	n := serve(t, "--limit", "2/year by ip using fixed_window", "--upstream", upstream)
	ask := func() (status string, fields map[string]string, body string) {
		t.Helper()
		c, err := net.Dial("tcp", strings.TrimPrefix(n.http, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		raw, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		head, body, _ := strings.Cut(string(raw), "\r\n\r\n")
		lines := strings.Split(head, "\r\n")
		fields = make(map[string]string)
		for _, l := range lines[1:] {
			name, value, _ := strings.Cut(l, ": ")
			if _, twice := fields[name]; twice {
				t.Errorf("%s is sent twice", name)
			}
			fields[name] = value
		}
		return lines[0], fields, body
	}
	is := func(fields map[string]string, name, want string) {
		t.Helper()
		if got := fields[name]; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	const policy = `"2/year by ip using fixed_window"`
	status, fields, body := ask()
	if status != "HTTP/1.1 200 OK" || body != "up\n" {
		t.Errorf("%s, %q", status, body)
	}
	is(fields, "X-Upstream", "nginx")
	is(fields, "Ratelimit-Policy", policy+";q=2;w=31536000")
	is(fields, "X-Ratelimit-Limit", "2")
	is(fields, "X-Ratelimit-Remaining", "1")
	is(fields, "Retry-After", "")
	if !strings.HasPrefix(fields["Ratelimit"], policy+";r=1") {
		t.Errorf("Ratelimit: %q", fields["Ratelimit"])
	}
	ask()
	status, fields, body = ask()
	if status != "HTTP/1.1 429 Too Many Requests" {
		t.Errorf("status %q", status)
	}
	is(fields, "X-Upstream", "")
	is(fields, "Content-Type", "application/problem+json")
	is(fields, "Cache-Control", "no-store")
	is(fields, "Ratelimit-Policy", policy+";q=2;w=31536000")
	is(fields, "X-Ratelimit-Limit", "2")
	is(fields, "X-Ratelimit-Remaining", "0")
	is(fields, "Ratelimit", policy+";r=0;t="+fields["Retry-After"])
	is(fields, "X-Ratelimit-Retry-After", fields["Retry-After"])
	if len(fields["Retry-After"]) == 0 || len(fields["Retry-After"]) > 8 || fields["Retry-After"] == "0" {
		t.Errorf("Retry-After: %q", fields["Retry-After"])
	}
	if !strings.Contains(body, `"title":"Too many requests"`) || !strings.Contains(body, `"status":429`) {
		t.Errorf("body %s", body)
	}
}

// 64 clients at once are admitted exactly the limit, all together.
func TestConcurrentClientsAreAdmittedExactly(t *testing.T) {
	upstream, _ := nginx(t)
	const limit, clients, each = 500, 64, 16
	n := serve(t, "--limit", fmt.Sprintf("%d/hour by ip", limit), "--upstream", upstream)
	var got statuses
	var wg sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	for range clients {
		wg.Go(func() {
			for range each {
				res, err := client.Get(n.http)
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
				got.add(res.StatusCode)
			}
		})
	}
	wg.Wait()
	if got.n[200] != limit || got.n[429] != clients*each-limit || len(got.n) != 2 {
		t.Errorf("answered %v, want %d of 200 and %d of 429", got.n, limit, clients*each-limit)
	}
}

// curl is let through until the limit, and then told when to come back.
func TestGatewayWithCurl(t *testing.T) {
	curl := servertest.Binary(t, "curl")
	upstream, _ := nginx(t)
	n := serve(t, "--limit", "3/hour by ip", "--upstream", upstream)
	want := "200 200 200 429 429 "
	var got string
	for range 5 {
		out, err := exec.Command(curl, "-s", "-o", os.DevNull, "-w", "%{http_code} ", n.http+"/").Output()
		if err != nil {
			t.Fatal(err)
		}
		got += string(out)
	}
	if got != want {
		t.Errorf("curl got %q, want %q", got, want)
	}
	// Over HTTP/2 without encryption it is the same client.
	out, err := exec.Command(curl, "-s", "--http2-prior-knowledge", "-o", os.DevNull, "-w", "%{http_version} %{http_code}", n.http+"/").Output()
	if err != nil || string(out) != "2 429" {
		t.Errorf("over HTTP/2: %q, %v", out, err)
	}
}

// With an upstream the API's paths are the upstream's for everybody who is not
// trusted and has no token, this machine too.
func TestStrangersDoNotReachTheAPI(t *testing.T) {
	const token = "0123456789abcdef"
	upstream, _ := nginx(t)
	ask := func(n *testNode, api bool, fields ...string) {
		t.Helper()
		req, err := http.NewRequest("POST", n.http+"/shouldAllowRequest", strings.NewReader(`{"clientId":"1"}`))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(fields); i += 2 {
			req.Header.Set(fields[i], fields[i+1])
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		want := "up\n"
		if api {
			want = `{"allowed":true}`
		}
		if _, body := read(t, res); body != want {
			t.Errorf("with %q: %q, want %q", fields, body, want)
		}
	}
	n := serve(t, "--limit", "100/hour by ip", "--upstream", upstream, "WEIR_ADMIN_TOKEN="+token)
	ask(n, false)
	ask(n, false, "Authorization", "Bearer 0123456789abcdeF")
	ask(n, true, "Authorization", "Bearer "+token)
	for _, field := range []string{"X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"} {
		ask(n, false, field, "203.0.113.7")
		ask(n, true, field, "203.0.113.7", "Authorization", "Bearer "+token)
	}
	n = serve(t, "--limit", "100/hour by ip", "--upstream", upstream, "--trust", "127.0.0.1")
	ask(n, true)
}

// TestTakeBesideAnUpstream: whoever is not trusted there gets the upstream's answer,
// whatever it is, and weir take says what to do about it.
func TestTakeBesideAnUpstream(t *testing.T) {
	const token = "0123456789abcdef"
	answers := map[string]http.HandlerFunc{
		"200 text": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "<html>") },
		"200 JSON": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "{}") },
		"404":      http.NotFound,
		"401":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusSeeOther) },
	}
	take := func(n *testNode, args ...string) (code int, out string) {
		t.Helper()
		cmd := exec.Command(binary, append([]string{"take", "--http", n.http, "client_id=1"}, args...)...)
		text, err := cmd.CombinedOutput()
		if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(text)
	}
	for name, answer := range answers {
		up := httptest.NewServer(answer)
		defer up.Close()
		n := serve(t, "--limit", "100/hour", "--upstream", up.URL, "WEIR_ADMIN_TOKEN="+token)
		if code, out := take(n); code != 2 || !strings.Contains(out, "--trust 127.0.0.1") || !strings.Contains(out, "--token") {
			t.Errorf("%s: exit status %d\n%s", name, code, out)
		}
		if code, out := take(n, "--token", token); code != 0 || !strings.HasPrefix(out, "allowed by 100/hour") {
			t.Errorf("%s with the token: exit status %d\n%s", name, code, out)
		}
	}
	n := serve(t, "--limit", "1/year using fixed_window", "--upstream", "http://127.0.0.1:1")
	for range 2 { // 502 by the gateway, then 429
		if code, out := take(n); code != 2 || !strings.Contains(out, "--trust 127.0.0.1") {
			t.Errorf("by the gateway: exit status %d\n%s", code, out)
		}
	}
	n = serve(t, "--limit", "100/hour", "--upstream", "http://127.0.0.1:1", "--trust", "127.0.0.1")
	if code, out := take(n); code != 0 {
		t.Errorf("trusted: exit status %d\n%s", code, out)
	}
	if code, out := take(n, "--cost", "101"); code != 1 || strings.Contains(out, "--trust") {
		t.Errorf("refused: exit status %d\n%s", code, out)
	}
}

// The seed's rule: a bucket of 1,000 that leaks one a second.
func TestExampleRules(t *testing.T) {
	n := serve(t, "--rules", "../../examples/rules.yaml")
	began := time.Now()
	var allowed, refused atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 150 {
				switch code, body := post(t, n.http+"/shouldAllowRequest", `{"clientId":"123","timestamp":"2023-07-13T07:20:50.52Z"}`); {
				case code == 200 && body == `{"allowed":true}`:
					allowed.Add(1)
				case code == 200 && body == `{"allowed":false}`:
					refused.Add(1)
				default:
					t.Errorf("%d %s", code, body)
				}
			}
		})
	}
	wg.Wait()
	leaked := int64(time.Since(began)/time.Second) + 1
	if a := allowed.Load(); a < 1000 || a > 1000+leaked {
		t.Errorf("%d allowed, want 1000 and at most %d that leaked meanwhile", a, leaked)
	}
	if code, body := post(t, n.http+"/shouldAllowRequest", `{"clientId":"124"}`); code != 200 || body != `{"allowed":true}` {
		t.Errorf("another client: %d %s", code, body)
	}
	// The metrics say the same, by rule.
	_, text := get(t, n.admin+"/metrics")
	for _, want := range []string{
		fmt.Sprintf(`weir_decisions_total{decision="allowed",domain="api",limit="client_id",rule="client_id"} %d`, allowed.Load()+1),
		fmt.Sprintf(`weir_decisions_total{decision="refused",domain="api",limit="client_id",rule="client_id"} %d`, refused.Load()),
		"weir_config_reload_success 1",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %q in the metrics", want)
		}
	}
	if strings.Contains(text, "123") && strings.Contains(text, `"123"`) {
		t.Error("a client's id is in the metrics")
	}
}

// A hard-coded guard against a slow client at the real listener.
func TestSlowHeadersAreCut(t *testing.T) {
	n := serve(t, "--limit", "10/hour", "--config", servertest.Config(t, "http: {read_header_timeout: 100ms}"))
	c, err := net.Dial("tcp", strings.TrimPrefix(n.http, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: h\r\nX-Slow: ")
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(c).ReadByte(); err != io.EOF {
		t.Errorf("the connection is %v, want closed", err)
	}
}

// A body that trickles in is given up after --http-read-timeout, with a reason,
// and counts nothing.
func TestSlowBodiesAreCut(t *testing.T) {
	n := serve(t, "--limit", "10/hour", "--config", servertest.Config(t, "http: {read_timeout: 100ms}"))
	c, err := net.Dial("tcp", strings.TrimPrefix(n.http, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "POST /shouldAllowRequest HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{")
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if code, body := read(t, res); code != 408 || !strings.Contains(body, "did not arrive in time") {
		t.Errorf("%d %s", code, body)
	}
}

// What the README's first screen shows is what is sent, by the command that it
// shows.
func TestReadmeShowsWhatIsSent(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, screen, _ := strings.Cut(string(readme), "curl -i localhost:8080/anything")
	_, screen, _ = strings.Cut(screen, "\n")
	shown, _, _ := strings.Cut(screen, "\n\n")
	upstream, _ := nginx(t)
	n := serve(t, "--limit", "100/minute by ip", "--upstream", upstream)
	c, err := net.Dial("tcp", strings.TrimPrefix(n.http, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /anything HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	sent, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(shown, "\n")
	if len(lines) < 3 {
		t.Fatalf("the README shows %q", shown)
	}
	for _, line := range lines {
		if line = strings.TrimSpace(line); !strings.Contains(string(sent), line+"\r\n") {
			t.Errorf("the README shows %q, sent was\n%s", line, sent)
		}
	}
	var last int
	for range 100 {
		last, _ = get(t, n.http+"/anything")
	}
	if last != 429 {
		t.Errorf("the 101st is answered %d", last)
	}
}

// Behind a load balancer that speaks the PROXY protocol the client is whom its
// header names, for the limits and for the upstream; a connection without the
// header is none of its, and is closed.
func TestProxyProtocol(t *testing.T) {
	addr, _ := servertest.Nginx(t, `location / { return 200 "$http_x_forwarded_for\n"; }`)
	n := serve(t, "--limit", "2/hour by ip", "--upstream", "http://"+addr, "--proxy-protocol", "127.0.0.0/8")
	ask := func(first string) (int, string) {
		t.Helper()
		c, err := net.Dial("tcp", strings.TrimPrefix(n.http, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "%sGET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 192.0.2.9\r\nConnection: close\r\n\r\n", first)
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0, ""
		}
		return read(t, res)
	}
	header := func(client string) string {
		if strings.Contains(client, ":") {
			return "PROXY TCP6 " + client + " ::1 4711 80\r\n"
		}
		return "PROXY TCP4 " + client + " 127.0.0.1 4711 80\r\n"
	}
	f := func(first string, code int, body string) {
		t.Helper()
		if gotCode, got := ask(first); gotCode != code || code == 200 && got != body+"\n" {
			t.Errorf("%q: got %d %q, want %d %q", first, gotCode, got, code, body)
		}
	}
	f(header("203.0.113.7"), 200, "203.0.113.7")
	f(header("203.0.113.7"), 200, "203.0.113.7")
	f(header("203.0.113.7"), 429, "")
	f(header("203.0.113.8"), 200, "203.0.113.8")
	f(header("2001:db8::1"), 200, "2001:db8::1")
	f(header("2001:db8::2"), 200, "2001:db8::2") // the same /64
	f(header("2001:db8::3"), 429, "")
	f("", 0, "")
	f("PROXY TCP4 203.0.113.9\r\n", 0, "")

	// From a peer that is not listed no header is read.
	n = serve(t, "--limit", "2/hour by ip", "--upstream", "http://"+addr, "--proxy-protocol", "192.0.2.1")
	f(header("203.0.113.7"), 400, "")
	f("", 200, "127.0.0.1")
}

// A limit in words by ip counts whom trusted proxies name.
func TestLimitByClientBehindProxies(t *testing.T) {
	addr, _ := servertest.Nginx(t, `location / { return 200 "$http_x_forwarded_for\n"; }`)
	n := serve(t, "--limit", "2/hour by ip", "--upstream", "http://"+addr, "--trusted-proxies", "127.0.0.1,10.0.0.0/8", "--config", servertest.Config(t, "identity: {ipv6_prefix: 48}"))
	f := func(forwarded string, code int, body string) {
		t.Helper()
		req, err := http.NewRequest("GET", n.http, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", forwarded)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if gotCode, got := read(t, res); gotCode != code || code == 200 && got != body+"\n" {
			t.Errorf("%q: got %d %q, want %d %q", forwarded, gotCode, got, code, body)
		}
	}
	f("203.0.113.7", 200, "203.0.113.7, 127.0.0.1")
	f("198.51.100.1, 203.0.113.7, 10.1.1.1", 200, "198.51.100.1, 203.0.113.7, 10.1.1.1, 127.0.0.1")
	f("203.0.113.7", 429, "")
	f("203.0.113.8", 200, "203.0.113.8, 127.0.0.1")
	f("2001:db8:0:1::1", 200, "2001:db8:0:1::1, 127.0.0.1")
	f("2001:db8:0:2::1", 200, "2001:db8:0:2::1, 127.0.0.1")
	f("2001:db8:0:3::1", 429, "")
	// The API is for clients that are trusted, not for whoever comes through the
	// proxy.
	req, err := http.NewRequest("POST", n.http+"/shouldAllowRequest", strings.NewReader(`{"clientId":"1"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Forwarded-For", "203.0.113.9")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, body := read(t, res); strings.Contains(body, "allowed") {
		t.Errorf("a stranger reached the API through the proxy: %s", body)
	}
}

// An upstream with TLS is asked over HTTP/2, if its certificate is good.
func TestTLSUpstream(t *testing.T) {
	cert, _, pair := servertest.Certificate(t, t.TempDir(), "upstream")
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }))
	up.EnableHTTP2 = true
	up.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	up.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshakes that fail
	up.StartTLS()
	defer up.Close()
	n := serve(t, "--limit", "10/hour", "--upstream", up.URL)
	if code, body := get(t, n.http); code != 502 || !strings.Contains(body, `"status":502`) {
		t.Errorf("a certificate of nobody: %d %s", code, body)
	}
	t.Setenv("SSL_CERT_FILE", cert)
	n = serve(t, "--limit", "10/hour", "--upstream", up.URL)
	if code, body := get(t, n.http); code != 200 || body != "HTTP/2.0" {
		t.Errorf("got %d %s", code, body)
	}
}
