package forwardauth_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/identity"
)

// FuzzQuestion: whatever a proxy and its client send, the question is about the
// one request that the proxy set, or it is not answered.
func FuzzQuestion(f *testing.F) {
	f.Add("/auth", "POST", "/login?x=1", "shop.example", "", "", "")
	f.Add("/auth:deny=403&domain=a%2fb", "GET", "//a/../login;x", "shop.example:80", "", "", "")
	f.Add("/auth/login?fail=open", "GET", "/harmless", "", "/other", "", "")
	f.Add("/auth?x=1", "GET", "/?x=1", "h", "", "", "")
	f.Add("/auth:from=original", "GET", "/", "", "", "https://u@h:1/login?q", "POST")
	f.Add("/auth*", "", "", "", "", "", "")
	f.Add("http://weir/auth:cost=0", "G T", "*", "[::1]:1", "/%zz", "http://", "PUT")
	f.Fuzz(func(t *testing.T, target, method, uri, host, origURI, origURL, origMethod string) {
		d := open(t, weir.PerHour(10, algorithm.FixedWindow))
		var fields []string
		for name, value := range map[string]string{"X-Forwarded-Method": method, "X-Forwarded-Uri": uri, "X-Forwarded-Host": host,
			"X-Original-Uri": origURI, "X-Original-Url": origURL, "X-Original-Method": origMethod} {
			if value != "" {
				fields = append(fields, name, value)
			}
		}
		rec := d.ask("10.1.2.3", "GET", target, fields...)
		if stranger := d.askAgain("192.0.2.1", target, fields); stranger.Code != 400 && stranger.Code != 404 {
			t.Errorf("a stranger gets %d", stranger.Code)
		}
		if rec.Code >= 300 && rec.Code < 400 || rec.Code == 200 && rec.Body.Len() > 0 {
			t.Errorf("%d %v %s", rec.Code, rec.Header(), rec.Body)
		}
		if rec.Code != 200 && rec.Code != 429 {
			return
		}
		if len(d.rules.asked) != 1 {
			t.Fatalf("asked %q", d.rules.asked)
		}
		// Of one kind of fields, at the prefix itself: exactly that request.
		if target != "/auth" || origURI != "" || origURL != "" || uri == "" || uri[0] != '/' {
			return
		}
		path, _, _ := strings.Cut(uri, "?")
		want, err := identity.Canonical(path, identity.PathOptions{})
		if err != nil || !strings.HasSuffix(d.rules.asked[0], " path="+want) {
			// Values that are too long are hashed.
			if len(want) < 100 {
				t.Errorf("asked %q for %q, %q, %v", d.rules.asked, uri, want, err)
			}
		}
	})
}

// askAgain is ask, once more.
func (d *door) askAgain(peer, target string, fields []string) *httptest.ResponseRecorder {
	was := d.rules.asked
	defer func() { d.rules.asked = was }()
	return d.ask(peer, "GET", target, fields...)
}
