package identity_test

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/identitytest"
)

func tell(f weir.Facts) string {
	return fmt.Sprintf("%s %s %s %s %q %q %q", f.Address(), f.Method(), f.Host(), f.Path(), f.User(), f.Tier(), f.Agent())
}

func TestTold(t *testing.T) {
	r := identitytest.New(t, identity.Options{
		Proxies: identity.ProxyOptions{Trusted: prefixes("10.0.0.0/8"), Header: "X-Forwarded-For"},
		User:    []string{"header:X-User"}, Tier: []string{"header:X-Tier"},
	})
	f := func(peer, request, want string) {
		t.Helper()
		c := r.Acquire()
		defer c.Release()
		c.SetHTTP(read(t, peer, request))
		if got := tell(c.Facts()); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		c.User()
		c.Tier()
		if got := tell(c.Facts()); got != want {
			t.Errorf("once all is found out %s\nwant %s", got, want)
		}
	}
	const request = "HEAD /a/%62/?x=1 HTTP/1.1\nHost: Example.com:80\nX-Forwarded-For: 203.0.113.7\nX-User: u1\nX-Tier:  gold \nUser-Agent: curl/8"
	f("10.0.0.1:99", request, `203.0.113.7 GET example.com /a/b "u1" "gold" "curl/8"`)
	f("192.0.2.1:99", request, `192.0.2.1 GET example.com /a/b "" "" "curl/8"`) // nobody whom we believe
	f("[2001:db8::1]:99", "GET / HTTP/1.1\nHost: a", `2001:db8::1 GET a / "" "" ""`)
	f("@", "GET / HTTP/1.1\nHost: a", `invalid IP GET a / "" "" ""`)
	c := r.Acquire()
	defer c.Release()
	c.Set(identity.Facts{Method: "GET", Host: "a", Path: "/%zz"})
	if got, want := tell(c.Facts()), `invalid IP GET a  "" "" ""`; got != want {
		t.Errorf("of a path that cannot be read got %s, want %s", got, want)
	}
}

// To be told of, no key is looked up and no token verified that no descriptor asks
// for; what was found out is told.
func TestToldLooksNothingUp(t *testing.T) {
	file := identitytest.Keys(t, "keys.yaml", fmt.Sprintf("- {sha256: %q, user: acme, tier: gold}\n", identitytest.Digest("k1")))
	r := identitytest.New(t, identity.Options{
		APIKey: identity.APIKeyOptions{From: []string{"header:X-Key"}}, Keys: file,
		User: []string{"api_key"}, Tier: []string{"keys"},
	})
	c := r.Acquire()
	defer c.Release()
	c.SetHTTP(read(t, "192.0.2.1:99", "GET / HTTP/1.1\nHost: a\nX-Key: "+"k1"))
	f := c.Facts()
	if f.User() != "" || f.Tier() != "" {
		t.Errorf("found out for the sake of being told: %s", tell(f))
	}
	if user := c.User(); user == "" || f.User() != user {
		t.Errorf("the user is %q, told %q", user, f.User())
	}
	if tier := f.Tier(); tier == "" || tier != c.Tier() {
		t.Errorf("the tier is %q, told %q: its key is known", c.Tier(), tier)
	}
}
