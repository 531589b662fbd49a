package config

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/identity"
)

// What an unlimited route says of limits would be ignored: it is an error.
func TestUnlimitedRoute(t *testing.T) {
	f := func(r Route, wrong bool) {
		t.Helper()
		c := Defaults()
		c.Upstream = "http://127.0.0.1:1"
		r.Unlimited = true
		c.Routes = []Route{{Path: "/a"}, r}
		opt, err := c.GatewayOptions()
		if (err != nil) != wrong || wrong && !strings.Contains(err.Error(), "routes[1] is unlimited") {
			t.Errorf("%+v: got %v", r, err)
		}
		if !wrong && !opt.Routes[1].Unlimited {
			t.Errorf("%+v: it is limited", r)
		}
	}
	f(Route{Path: "/b"}, false)
	f(Route{Path: "/b", Cost: 2}, true)
	f(Route{Path: "/b", Priority: Priority{plusOne: 1}}, true)
	f(Route{Path: "/b", Descriptors: []identity.Descriptor{{Entries: []identity.EntryFrom{{From: "remote_address"}}}}}, true)
}
