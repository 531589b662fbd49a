package identity_test

import (
	"net/http"
	"net/netip"
	"slices"
	"testing"

	"github.com/weirlimit/weir/identity"
)

// TestClean: an upstream gets nothing by which a client poses as another.
func TestClean(t *testing.T) {
	r := newResolver(t, identity.Options{
		Proxies: identity.ProxyOptions{Trusted: prefixes("10.0.0.0/8"), Header: "X-My-Client"}, User: []string{"header:X-User-Id"}, Tier: []string{"header:X-Plan"},
	})
	sent := []string{
		"Accept", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-My-Client", "X-User-Id", "X-Plan", "X-Real-Ip", "X_custom",
		"X_forwarded_for", "X-Forwarded_for", "X_my_client", "X_user_id", "X_user-Id", "X_plan", "X-Original-Url",
	}
	f := func(peer string, want ...string) {
		t.Helper()
		c := r.Acquire()
		defer c.Release()
		h := http.Header{}
		for _, name := range sent {
			h[name] = []string{"x"}
		}
		c.Set(identity.Facts{Peer: netip.MustParseAddr(peer), Header: h})
		c.Clean(h)
		var left []string
		for name := range h {
			left = append(left, name)
		}
		slices.Sort(left)
		slices.Sort(want)
		if !slices.Equal(left, want) {
			t.Errorf("from %s: %q", peer, left)
		}
	}
	f("192.0.2.1", "Accept", "X_custom")
	f("10.0.0.1", "Accept", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-My-Client", "X-User-Id", "X-Plan", "X-Real-Ip", "X_custom", "X-Original-Url")
}
