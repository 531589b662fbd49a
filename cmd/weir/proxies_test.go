package main_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// proxyFile is one of the files of deploy/, and how to run it.
type proxyFile struct {
	name string
	// start runs it as it is, but for addresses.
	start func(t *testing.T, weir, app string) (addr string)
	// open: it lets requests through when Weir does not answer.
	open bool
}

// patient makes a proxy wait for longer than its file says: where Weir is there,
// a machine that is busy with other tests is not to be taken for its absence.
type patient bool

// deployed returns a file of deploy/ with each text replaced, which must be there
// as often as it is said.
func deployed(t *testing.T, name string, wait patient, replace ...any) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	out := string(text)
	for i := 0; i < len(replace); i += 3 {
		from, to, times := replace[i].(string), replace[i+1].(string), replace[i+2].(int)
		if got := strings.Count(out, from); got != times {
			t.Fatalf("deploy/%s has %q %d times, want %d", name, from, got, times)
		}
		out = strings.ReplaceAll(out, from, to)
	}
	if wait {
		longer := strings.NewReplacer("200ms", "20s", "500ms", "20s").Replace(out)
		if longer == out {
			t.Fatalf("deploy/%s bounds no wait", name)
		}
		out = longer
	}
	return out
}

func nginxFile(name string, open bool, wait patient) proxyFile {
	return proxyFile{"nginx/" + name, func(t *testing.T, weir, app string) string {
		return servertest.NginxServers(t, func(addr string) string {
			return deployed(t, "nginx/"+name, wait, "server 127.0.0.1:8080;", "server "+weir+";", 1, "server 127.0.0.1:3000;", "server "+app+";", 1, "listen 80;", "listen "+addr+";", 1)
		})
	}, open}
}

func caddyFile(name string, open bool, wait patient) proxyFile {
	return proxyFile{"caddy/" + name, func(t *testing.T, weir, app string) string {
		return servertest.Caddy(t, func(addr string) string {
			replace := []any{"reverse_proxy 127.0.0.1:8080", "reverse_proxy " + weir, 1, "reverse_proxy 127.0.0.1:3000", "reverse_proxy " + app, 1,
				"\n:80 {", "\n:" + port(addr) + " {", 1}
			if open {
				replace = append(replace, "127.0.0.1:8079", fmt.Sprintf("127.0.0.1:%d", servertest.FreePort(t)), 2)
			}
			return deployed(t, "caddy/"+name, wait, replace...)
		})
	}, open}
}

func haproxyFile(open bool, wait patient) proxyFile {
	word := map[bool]string{true: "open", false: "closed"}[open]
	return proxyFile{"haproxy/haproxy.cfg " + word, func(t *testing.T, weir, app string) string {
		lua, err := filepath.Abs("../../deploy/haproxy/weir.lua")
		if err != nil {
			t.Fatal(err)
		}
		return servertest.HAProxy(t, func(addr string) string {
			return deployed(t, "haproxy/haproxy.cfg", wait, "/etc/haproxy/weir.lua", lua, 1, "server weir 127.0.0.1:8080", "server weir "+weir, 1,
				"abns@weir", "abns@weir"+port(addr), 2, "WEIR_FAIL   closed", "WEIR_FAIL "+word, 1, "server app 127.0.0.1:3000", "server app "+app, 1, "bind :80", "bind "+addr, 1)
		})
	}, open}
}

func port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

func proxyFiles(wait patient) []proxyFile {
	return []proxyFile{
		nginxFile("weir-fail-closed.conf", false, wait), nginxFile("weir-fail-open.conf", true, wait),
		caddyFile("Caddyfile", false, wait), caddyFile("Caddyfile.fail-open", true, wait),
		haproxyFile(false, wait), haproxyFile(true, wait),
	}
}

// behind starts an application whose address it returns, and how many requests
// it has had.
func behind(t *testing.T) (addr string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if code := r.URL.Query().Get("code"); code != "" {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(map[string]int{"401": 401, "403": 403, "429": 429, "500": 500}[code])
		}
		fmt.Fprintf(w, "app %s %s %d", r.Method, r.URL.Path, len(body))
	}))
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://"), requests
}

// through sends a request and returns the answer, whose body it has read.
func through(t *testing.T, method, url, body string, fields ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	code, text := read(t, res)
	if code != res.StatusCode {
		t.Fatal("impossible")
	}
	return res, text
}

// asked starts a node that proxies on this machine may ask.
func asked(t *testing.T, args ...string) (*testNode, string) {
	t.Helper()
	n := serve(t, append([]string{"--forward-auth", "/auth", "--trusted-proxies", "127.0.0.1"}, args...)...)
	return n, strings.TrimPrefix(n.http, "http://")
}

// The files of deploy/, in the proxies themselves: what is allowed reaches the
// application whole, the rest is 429 with all that tells when to come back.
func TestProxyFiles(t *testing.T) {
	for _, f := range proxyFiles(true) {
		t.Run(strings.NewReplacer("/", "_", " ", "_").Replace(f.name), func(t *testing.T) {
			t.Parallel()
			app, requests := behind(t)
			_, weir := asked(t, "--limit", "6/year by ip using fixed_window")
			url := "http://" + f.start(t, weir, app)
			told := func(res *http.Response, left string) {
				t.Helper()
				const policy = `"6/year by ip using fixed_window";q=6;w=31536000`
				if got := res.Header.Get("RateLimit-Policy"); got != policy {
					t.Errorf("RateLimit-Policy is %q, want %q", got, policy)
				}
				if got := res.Header.Get("RateLimit"); !strings.HasPrefix(got, `"6/year by ip using fixed_window";r=`+left+";t=") {
					t.Errorf("RateLimit is %q, want r=%s", got, left)
				}
			}
			res, body := through(t, "POST", url+"/a/b?c=d", strings.Repeat("x", 100_000))
			if res.StatusCode != 200 || body != "app POST /a/b 100000" {
				t.Errorf("%d %q", res.StatusCode, body)
			}
			told(res, "5")
			// The application's own refusals stay its own.
			for i, code := range []int{401, 403, 429, 500} {
				res, body = through(t, "GET", fmt.Sprintf("%s/?code=%d", url, code), "")
				if res.StatusCode != code || body != "app GET / 0" || res.Header.Get("Retry-After") != "" {
					t.Errorf("%d of the application: %d %q %v", code, res.StatusCode, body, res.Header)
				}
				told(res, fmt.Sprint(4-i))
			}
			res, _ = through(t, "HEAD", url+"/", "")
			if res.StatusCode != 200 {
				t.Errorf("HEAD: %d", res.StatusCode)
			}
			told(res, "0")
			for _, method := range []string{"GET", "POST", "HEAD"} {
				res, body = through(t, method, url+"/x", "body", "X-Forwarded-For", "203.0.113.9", "X-Real-IP", "203.0.113.9", "Forwarded", "for=203.0.113.9")
				if res.StatusCode != 429 || strings.HasPrefix(body, "app") {
					t.Errorf("the seventh: %d %q", res.StatusCode, body)
				}
				if secs := res.Header.Get("Retry-After"); secs == "" || secs == "0" {
					t.Errorf("Retry-After is %q", secs)
				}
				if ct := res.Header.Get("Content-Type"); ct != "application/problem+json" || method != "HEAD" && !strings.Contains(body, `"status":429`) {
					t.Errorf("%s: %s", ct, body)
				}
				told(res, "0")
			}
			if got := requests.Load(); got != 6 {
				t.Errorf("the application had %d requests, want 6", got)
			}
			if res.Header.Get("Location") != "" {
				t.Errorf("a redirect: %v", res.Header)
			}
		})
	}
}

// Without a limiter requests go through or not, as the file says, and nobody
// waits for it.
func TestProxyFilesWithoutLimiter(t *testing.T) {
	silent := servertest.Listen(t) // accepts, in the kernel, and says nothing
	for _, f := range proxyFiles(false) {
		// Nobody takes port 1 meanwhile, as another test may take a free one.
		for what, weir := range map[string]string{"down": "127.0.0.1:1", "slow": silent.Addr().String()} {
			t.Run(strings.NewReplacer("/", "_", " ", "_").Replace(f.name)+"_"+what, func(t *testing.T) {
				t.Parallel()
				app, requests := behind(t)
				url := "http://" + f.start(t, weir, app)
				for i := range 3 {
					var res *http.Response
					var body string
					var took time.Duration
					// On a busy machine even the part of a proxy that always says yes may
					// be late.
					servertest.Await(t, "an answer", func() bool {
						began := time.Now()
						res, body = through(t, "POST", url+"/a", "body")
						took = time.Since(began)
						return !f.open || res.StatusCode < 500
					})
					switch {
					case f.open && (res.StatusCode != 200 || body != "app POST /a 4"):
						t.Errorf("open: %d %q", res.StatusCode, body)
					case !f.open && (res.StatusCode < 500 || strings.HasPrefix(body, "app")):
						t.Errorf("closed: %d %q", res.StatusCode, body)
					}
					if took > 45*time.Second {
						t.Errorf("request %d waited %s for a limiter that is %s", i, took, what)
					}
					t.Logf("request %d: %d after %s", i, res.StatusCode, took.Round(time.Millisecond))
				}
				if got, want := requests.Load(), map[bool]int64{true: 3, false: 0}[f.open]; got != want {
					t.Errorf("the application had %d requests, want %d", got, want)
				}
			})
		}
	}
}
