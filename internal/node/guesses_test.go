package node

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weirlimit/weir/internal/guesses"
)

// TestFamilyGuesses: wrong tokens of an address are answered ten times a minute,
// however they are sent; whoever has none, or the right one, is not limited.
func TestFamilyGuesses(t *testing.T) {
	const token = "0123456789abcdef"
	bound, err := guesses.New(0, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer bound.Close()
	h := guardAdmin(token, bound, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	ask := func(remote, authorization string) int {
		r := httptest.NewRequest("GET", "http://node.example/metrics", nil)
		r.RemoteAddr = remote
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") == "" {
			t.Error("429 without Retry-After")
		}
		return w.Code
	}
	for range 100 {
		if got := ask("10.0.0.1:1", ""); got != http.StatusUnauthorized {
			t.Fatalf("no token: %d", got)
		}
	}
	unauthorized := 0
	for i := range 1500 {
		switch got := ask("10.0.0.1:1", []string{"Bearer wrong", "Basic " + token, "bearer " + token + "0"}[i%3]); got {
		case http.StatusUnauthorized:
			unauthorized++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("a wrong token: %d", got)
		}
	}
	if unauthorized > guesses.Each+1 {
		t.Errorf("%d of 1500 guesses were answered, want %d", unauthorized, guesses.Each)
	}
	if got := ask("10.0.0.1:1", "Bearer "+token); got != http.StatusNoContent {
		t.Errorf("the right token from the same address: %d", got)
	}
	if got := ask("[2001:db8::1]:1", "Bearer wrong"); got != http.StatusUnauthorized {
		t.Errorf("another address: %d", got)
	}
	for range 20 {
		ask("[2001:db8::2]:1", "Bearer wrong")
	}
	if got := ask("[2001:db8::3]:1", "Bearer wrong"); got != http.StatusTooManyRequests {
		t.Errorf("another address of the same /64: %d", got)
	}
	if bound.Count() < 1500 {
		t.Errorf("%d counted", bound.Count())
	}
}

// TestFamilyLocalOnly: a listener without a token answers programs of this machine,
// and neither proxies nor pages.
func TestFamilyLocalOnly(t *testing.T) {
	h := guardAdmin("", nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	f := func(want int, path, host string, major, minor int, header ...string) {
		t.Helper()
		r := httptest.NewRequest("GET", "http://"+host+path, nil)
		r.ProtoMajor, r.ProtoMinor = major, minor
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s %s HTTP/%d.%d %q: %d, want %d", path, host, major, minor, header, w.Code, want)
		}
	}
	f(204, "/metrics", "localhost:6070", 1, 1)
	f(204, "/metrics", "127.0.0.1:6070", 2, 0)
	f(403, "/metrics", "evil.example", 1, 1)
	f(403, "/metrics", "127.0.0.1", 1, 0)
	for _, name := range []string{
		"X-Forwarded-For", "X-Real-Ip", "Forwarded", "Via", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Server", "X-Forwarded",
		"Forwarded-For", "Client-IP", "X-Client-IP", "X-Cluster-Client-IP", "X-Original-Forwarded-For", "True-Client-IP", "CF-Connecting-IP", "Fastly-Client-IP",
		"Fly-Client-IP", "X-Azure-ClientIP", "X-Envoy-External-Address", "CDN-Loop", "x-forwarded-for",
	} {
		f(403, "/metrics", "127.0.0.1", 1, 1, name, "x")
	}
	f(403, "/debug/pprof/profile", "localhost", 1, 1, "Sec-Fetch-Site", "cross-site")
	f(403, "/debug/pprof/profile", "localhost", 1, 1, "Sec-Fetch-Site", "same-site") // of another port
	f(204, "/debug/pprof/profile", "localhost", 1, 1, "Sec-Fetch-Site", "none")
	f(403, "/metrics", "localhost", 1, 1, "Sec-Fetch-Site", "cross-site")
	f(204, "/ui/", "localhost", 1, 1, "Sec-Fetch-Site", "cross-site")
	f(204, "/metrics", "localhost", 1, 1, "Sec-Fetch-Site", "same-origin")
}
