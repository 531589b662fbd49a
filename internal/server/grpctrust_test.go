package server

import (
	"log/slog"
	"net/netip"
	"testing"
)

// In front of an upstream strangers reach the node: over gRPC only trusted peers are
// served, or who has a certificate.
func TestGRPCBesideAnUpstream(t *testing.T) {
	opened := func(change func(*Config)) frontend {
		t.Helper()
		c := Defaults()
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
	guarded, ok := opened(func(c *Config) { c.Upstream = "http://127.0.0.1:1" }).serve.(trustingServer)
	if !ok {
		t.Fatal("whoever reaches the node may spend")
	}
	for addr, want := range map[string]bool{"127.0.0.1": false, "::1": false, "192.0.2.7": true, "203.0.113.7": true, "198.51.100.7": false, "2001:db8::1": false} {
		if got := guarded.trusts(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s is trusted: %v", addr, got)
		}
	}
	if _, ok := opened(func(*Config) {}).serve.(trustingServer); ok {
		t.Error("a service of decisions turns clients away")
	}
}
