package dashboard

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/guesses"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

const token = "an admin token of some length"

// site is a dashboard beside one handler that asks for the token.
type site struct {
	t     *testing.T
	h     http.Handler
	dash  *Dashboard
	clock time.Time
}

func open(t *testing.T, opt Options) *site {
	t.Helper()
	s := &site{t: t, clock: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	opt.Now = func() time.Time { return s.clock }
	d, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/ui/", d)
	mux.HandleFunc("/v1/thing", func(w http.ResponseWriter, r *http.Request) {
		if opt.Token != "" && r.Header.Get("Authorization") != "Bearer "+opt.Token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.Header.Get("Cookie") != "" {
			t.Error("a handler behind Accept sees the session's cookie")
		}
		io.WriteString(w, r.Method)
	})
	s.dash, s.h = d, d.Accept(mux)
	return s
}

// ask sends a request; headers are pairs of name and value.
func (s *site) ask(method, path, body string, headers ...string) *http.Response {
	s.t.Helper()
	r := httptest.NewRequest(method, "http://weir.test"+path, strings.NewReader(body))
	r.RemoteAddr = "192.0.2.7:4711"
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "From" {
			r.RemoteAddr = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.h.ServeHTTP(w, r)
	return w.Result()
}

const form = "application/x-www-form-urlencoded"

func (s *site) login(with string, headers ...string) *http.Response {
	s.t.Helper()
	return s.ask("POST", "/ui/login", url.Values{"token": {with}}.Encode(), append([]string{"Content-Type", form}, headers...)...)
}

// in logs in and returns the cookie and the CSRF value.
func (s *site) in() (cookie, csrf string) {
	s.t.Helper()
	res := s.login(token)
	if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
		s.t.Fatalf("login: %s %v", res.Status, res.Cookies())
	}
	c := res.Cookies()[0]
	cookie = c.Name + "=" + c.Value
	var told struct{ CSRF string }
	if err := json.NewDecoder(s.ask("GET", "/ui/session", "", "Cookie", cookie).Body).Decode(&told); err != nil || told.CSRF == "" {
		s.t.Fatalf("session: %v %+v", err, told)
	}
	return cookie, told.CSRF
}

func (s *site) want(what string, res *http.Response, status int) {
	s.t.Helper()
	if res.StatusCode != status {
		s.t.Errorf("%s: %s, want %d", what, res.Status, status)
	}
}

func TestWithoutTokenThereIsNoLogin(t *testing.T) {
	s := open(t, Options{})
	s.want("page", s.ask("GET", "/ui/rules?from=1h", ""), 200)
	s.want("login", s.ask("GET", "/ui/login", ""), 303)
	s.want("thing", s.ask("POST", "/v1/thing", ""), 200)
	body, _ := io.ReadAll(s.ask("GET", "/ui/session", "").Body)
	if strings.TrimSpace(string(body)) != `{"login":false}` {
		t.Errorf("session: %s", body)
	}
}

func TestLogin(t *testing.T) {
	s := open(t, Options{Token: token})
	res := s.ask("GET", "/ui/rules?from=1h", "")
	s.want("page before the login", res, 303)
	if at := res.Header.Get("Location"); at != "/ui/login?next=%2Fui%2Frules%3Ffrom%3D1h" {
		t.Errorf("led to %s", at)
	}
	s.want("session before the login", s.ask("GET", "/ui/session", ""), 401)
	s.want("thing before the login", s.ask("GET", "/v1/thing", ""), 401)
	res = s.login("wrong")
	s.want("wrong token", res, 401)
	if len(res.Cookies()) != 0 {
		t.Error("a wrong token gets a cookie")
	}
	s.want("no token", s.login(""), 401)

	res = s.login(token)
	s.want("login", res, 303)
	c := res.Cookies()[0]
	if c.Name != "weir_session" || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Path != "/" || c.Domain != "" || c.MaxAge != 12*3600 {
		t.Errorf("cookie: %+v", c)
	}
	if strings.Contains(c.Value, token) {
		t.Error("the cookie holds the token")
	}
	cookie := c.Name + "=" + c.Value
	s.want("page", s.ask("GET", "/ui/", "", "Cookie", cookie), 200)
	s.want("thing", s.ask("GET", "/v1/thing", "", "Cookie", cookie), 200)
	s.want("thing with the bearer token", s.ask("POST", "/v1/thing", "", "Authorization", "Bearer "+token), 200)
	s.want("thing with a wrong bearer token beside the cookie", s.ask("GET", "/v1/thing", "", "Cookie", cookie, "Authorization", "Bearer no"), 401)

	for _, name := range []string{"X-Forwarded-Proto"} {
		c = s.login(token, name, "https").Cookies()[0]
		if c.Name != "__Host-weir_session" || !c.Secure {
			t.Errorf("cookie over TLS: %+v", c)
		}
	}
}

func TestSessionExpiresAndCannotBeForged(t *testing.T) {
	s := open(t, Options{Token: token, Session: time.Hour})
	cookie, _ := s.in()
	name, value, _ := strings.Cut(cookie, "=")
	for i := range value {
		other := byte('A')
		if value[i] == other {
			other = 'B'
		}
		forged := value[:i] + string(other) + value[i+1:]
		s.want("forged", s.ask("GET", "/v1/thing", "", "Cookie", name+"="+forged), 401)
	}
	for _, v := range []string{"", "x", value + "A", value[:len(value)-1], strings.Repeat("A", len(value))} {
		s.want("made up", s.ask("GET", "/v1/thing", "", "Cookie", name+"="+v), 401)
	}
	other := open(t, Options{Token: "another admin token, as long"})
	other.want("of another token", other.ask("GET", "/v1/thing", "", "Cookie", cookie), 401)
	same := open(t, Options{Token: token})
	same.want("of the same token on another node", same.ask("GET", "/v1/thing", "", "Cookie", cookie), 200)

	s.clock = s.clock.Add(time.Hour - time.Second)
	s.want("just before its end", s.ask("GET", "/v1/thing", "", "Cookie", cookie), 200)
	s.clock = s.clock.Add(time.Second)
	s.want("at its end", s.ask("GET", "/v1/thing", "", "Cookie", cookie), 401)
	s.want("page at its end", s.ask("GET", "/ui/", "", "Cookie", cookie), 303)
}

func TestChangesNeedTheHeader(t *testing.T) {
	s := open(t, Options{Token: token})
	cookie, csrf := s.in()
	_, foreign := s.in()
	for _, method := range []string{"POST", "PATCH", "PUT", "DELETE"} {
		s.want(method+" without", s.ask(method, "/v1/thing", "", "Cookie", cookie), 403)
		s.want(method+" with a wrong one", s.ask(method, "/v1/thing", "", "Cookie", cookie, CSRFHeader, "1"), 403)
		s.want(method+" with another session's", s.ask(method, "/v1/thing", "", "Cookie", cookie, CSRFHeader, foreign), 403)
		s.want(method, s.ask(method, "/v1/thing", "", "Cookie", cookie, CSRFHeader, csrf), 200)
		s.want(method+" from another site", s.ask(method, "/v1/thing", "", "Cookie", cookie, CSRFHeader, csrf, "Sec-Fetch-Site", "cross-site"), 401)
		s.want(method+" from another origin", s.ask(method, "/v1/thing", "", "Cookie", cookie, CSRFHeader, csrf, "Origin", "http://weir.test:8080"), 403)
	}
	// Another port of the same host is the same site to a browser.
	s.want("read from another port", s.ask("GET", "/v1/thing", "", "Cookie", cookie, "Sec-Fetch-Site", "same-site"), 401)
	s.want("session from another port", s.ask("GET", "/ui/session", "", "Cookie", cookie, "Sec-Fetch-Site", "same-site"), 401)
	s.want("read from the page", s.ask("GET", "/v1/thing", "", "Cookie", cookie, "Sec-Fetch-Site", "same-origin"), 200)
}

func TestLogout(t *testing.T) {
	s := open(t, Options{Token: token})
	cookie, csrf := s.in()
	s.want("without the header", s.ask("POST", "/ui/logout", "", "Cookie", cookie), 403)
	s.want("still in", s.ask("GET", "/v1/thing", "", "Cookie", cookie), 200)
	res := s.ask("POST", "/ui/logout", "", "Cookie", cookie, CSRFHeader, csrf)
	s.want("logout", res, 204)
	if c := res.Cookies(); len(c) != 1 || c[0].MaxAge >= 0 || c[0].Value != "" {
		t.Errorf("cookie after the logout: %v", c)
	}
	s.want("with the old cookie", s.ask("GET", "/v1/thing", "", "Cookie", cookie), 401)
	s.want("by GET", s.ask("GET", "/ui/logout", ""), 303) // a page like any other: to the login
}

// bound bounds guesses, of one client and of all.
func bound(t *testing.T, each, total int64) *guesses.Bound {
	b, err := guesses.New(each, total, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestLoginIsLimited(t *testing.T) {
	s := open(t, Options{Token: token, Guesses: bound(t, 3, 5)})
	for range 3 {
		s.want("wrong token", s.login("wrong"), 401)
	}
	res := s.login("wrong")
	s.want("the fourth", res, 429)
	if res.Header.Get("Retry-After") == "" || len(res.Cookies()) != 0 {
		t.Errorf("refused with %v", res.Header)
	}
	// IPv6 addresses of one /64 are one client.
	s.want("another address", s.login("wrong", "From", "[2001:db8::1]:1"), 401)
	s.want("a third", s.login("wrong", "From", "[2001:db8:0:1::1]:1"), 401)
	s.want("more than all may", s.login("wrong", "From", "[2001:db8::2]:1"), 429)
	for range 10 { // from the addresses of those who guess, and never too often
		s.want("the right one", s.login(token), 303)
		s.want("the right one", s.login(token, "From", "[2001:db8::2]:1"), 303)
	}

	six := open(t, Options{Token: token, Guesses: bound(t, 1, 0)})
	six.want("first of a /64", six.login("wrong", "From", "[2001:db8::1]:1"), 401)
	six.want("second of a /64", six.login("wrong", "From", "[2001:db8::ffff:2]:1"), 429)
	six.want("another /64", six.login("wrong", "From", "[2001:db8:0:9::2]:1"), 401)
}

func TestLoginFromElsewhere(t *testing.T) {
	s := open(t, Options{Token: token})
	s.want("from another site", s.login(token, "Sec-Fetch-Site", "cross-site"), 403)
	s.want("from another origin", s.login(token, "Origin", "http://evil.test"), 403)
	s.want("too long", s.login(strings.Repeat("x", 20<<10)), 400)
	for _, next := range []string{"http://evil.test/", "//evil.test/ui/", "/\\evil.test", "/ui/../v1/rules", "/v1/rules", "/ui/logout", "/ui/\nx", "", "javascript:alert(1)"} {
		if got := localPath(next); got != "/ui/" {
			t.Errorf("%q leads to %q", next, got)
		}
	}
	for _, next := range []string{"/ui/", "/ui/rules?from=1h&rule=a%20b"} {
		if got := localPath(next); got != next {
			t.Errorf("%q leads to %q", next, got)
		}
	}
	res := s.ask("POST", "/ui/login", url.Values{"token": {token}, "next": {"/ui/rules?from=1h"}}.Encode(), "Content-Type", form)
	if at := res.Header.Get("Location"); at != "/ui/rules?from=1h" {
		t.Errorf("after the login: %s", at)
	}
	body, _ := io.ReadAll(s.ask("GET", "/ui/login?next="+url.QueryEscape(`/ui/"><script>alert(1)</script>`), "").Body)
	if strings.Contains(string(body), "<script>") {
		t.Errorf("a link writes into the login page:\n%s", body)
	}
}

func TestPolicy(t *testing.T) {
	s := open(t, Options{Token: token})
	cookie, _ := s.in()
	for _, path := range []string{"/ui/", "/ui/login", "/ui/session", "/ui/assets/none"} {
		h := s.ask("GET", path, "", "Cookie", cookie).Header
		if csp := h.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; script-src 'self'; style-src 'self';") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", path, csp)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

func TestAssets(t *testing.T) {
	s := open(t, Options{})
	res := s.ask("GET", "/ui/", "")
	index, _ := io.ReadAll(res.Body)
	if res.Header.Get("Cache-Control") != "no-cache" || res.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("page: %v", res.Header)
	}
	s.want("page again", s.ask("GET", "/ui/rules", "", "If-None-Match", res.Header.Get("Etag")), 304)
	s.want("none", s.ask("GET", "/ui/assets/none.js", ""), 404)
	found := 0
	for name := range assets() {
		if !strings.HasPrefix(name, "assets/") || name == "assets/login.css" {
			continue
		}
		found++
		if !strings.Contains(string(index), name) && !strings.HasSuffix(name, ".txt") {
			t.Errorf("the page does not name %s", name)
		}
		plain := s.ask("GET", "/ui/"+name, "")
		zipped := s.ask("GET", "/ui/"+name, "", "Accept-Encoding", "br, gzip;q=0.8")
		if c := plain.Header.Get("Cache-Control"); c != "public, max-age=31536000, immutable" {
			t.Errorf("%s: kept %q", name, c)
		}
		want, _ := io.ReadAll(plain.Body)
		z, err := gzip.NewReader(zipped.Body)
		if err != nil || zipped.Header.Get("Content-Encoding") != "gzip" {
			t.Fatalf("%s: %v %v", name, zipped.Header, err)
		}
		if got, err := io.ReadAll(z); err != nil || string(got) != string(want) {
			t.Errorf("%s: compressed it is another, %v", name, err)
		}
		if never := s.ask("GET", "/ui/"+name, "", "Accept-Encoding", "gzip;q=0"); never.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s is compressed for a client that does not take it", name)
		}
	}
	if found < 2 {
		t.Errorf("%d built files: is dist/ complete?", found)
	}
}

func TestWantsPage(t *testing.T) {
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "application/json": false, "text/html": true,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": true, "text/plain, Text/HTML;q=0.1": true,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept", accept)
		if got := WantsPage(r); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, opt := range []Options{{Token: "short"}, {Session: time.Second}, {Session: 1000 * time.Hour}} {
		if _, err := New(opt); err == nil {
			t.Errorf("%+v is accepted", opt)
		}
	}
}
