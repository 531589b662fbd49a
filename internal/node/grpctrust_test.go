package node

import (
	"log/slog"
	"net/netip"
	"slices"
	"testing"

	"github.com/weirlimit/weir/internal/config"
)

// In front of an upstream strangers reach the node: over gRPC only trusted peers are
// served, or who has a certificate.
func TestGRPCBesideAnUpstream(t *testing.T) {
	opened := func(change func(*config.Config)) frontend {
		t.Helper()
		c := config.Defaults()
		c.Limits, c.Trust = []string{"3/hour by ip"}, []string{"192.0.2.0/24", "::ffff:203.0.113.0/120"}
		change(c)
		s, err := New(c, Build{}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, f := range s.listeners {
			if f.section == "grpc" {
				return f
			}
		}
		t.Fatal("no gRPC")
		return frontend{}
	}
	guarded, ok := opened(func(c *config.Config) { c.Upstream = "http://127.0.0.1:1" }).serve.(trustingServer)
	if !ok {
		t.Fatal("whoever reaches the node may spend")
	}
	for addr, want := range map[string]bool{"127.0.0.1": false, "::1": false, "192.0.2.7": true, "203.0.113.7": true, "198.51.100.7": false, "2001:db8::1": false} {
		if got := guarded.trusts(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s is trusted: %v", addr, got)
		}
	}
	if _, ok := opened(func(*config.Config) {}).serve.(trustingServer); ok {
		t.Error("a service of decisions turns clients away")
	}
}

// In front of an upstream that nobody may ask by gRPC for, no port is opened that nobody asked
// for.
func TestGRPCForNobody(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*config.Config)
		opens  bool
	}{
		{"service of decisions", func(*config.Config) {}, true},
		{"gateway", func(c *config.Config) { c.Upstream = "http://127.0.0.1:1" }, false},
		{"gateway whose proxies are trusted", func(c *config.Config) { c.Upstream, c.Trust = "http://127.0.0.1:1", []string{"192.0.2.1"} }, true},
		{"gateway with another address", func(c *config.Config) { c.Upstream, c.GRPC.Listen = "http://127.0.0.1:1", "127.0.0.1:8082" }, true},
		{"gateway beside ext_authz", func(c *config.Config) { c.Upstream, c.ExtAuthz.Enabled = "http://127.0.0.1:1", true }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := config.Defaults()
			conf.Limits = []string{"3/hour by ip"}
			c.change(conf)
			s, err := New(conf, Build{}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if opens := slices.ContainsFunc(s.listeners, func(f frontend) bool { return f.section == "grpc" }); opens != c.opens {
				t.Errorf("gRPC is opened: %v", opens)
			}
		})
	}
}
