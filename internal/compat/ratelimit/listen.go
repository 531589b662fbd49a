package ratelimit

import (
	"cmp"
	"fmt"
	"net"
	"strconv"

	"github.com/weirlimit/weir/internal/compat/envoy/settings"
)

// checkListeners refuses two listeners on one address. As listeners share their
// addresses with other processes, the kernel would give each every other
// connection, of whatever protocol.
func checkListeners(s *settings.Settings) error {
	type endpoint struct{ names, addr string }
	endpoints := []endpoint{
		{"HOST:PORT", net.JoinHostPort(s.Host, strconv.Itoa(s.Port))},
		{"DEBUG_HOST:DEBUG_PORT", net.JoinHostPort(s.DebugHost, strconv.Itoa(s.DebugPort))},
	}
	if s.GRPCUDS == "" {
		endpoints = append(endpoints, endpoint{"GRPC_HOST:GRPC_PORT", net.JoinHostPort(s.GRPCHost, strconv.Itoa(s.GRPCPort))})
	}
	if s.UsePrometheus && !s.DisableStats {
		endpoints = append(endpoints, endpoint{"PROMETHEUS_ADDR", prometheusAddr(s)})
	}
	taken := map[string]string{}
	for _, d := range endpoints {
		addr, ok := canonicalAddress(d.addr)
		if !ok {
			continue
		}
		if other := taken[addr]; other != "" {
			return fmt.Errorf("%s and %s are both %s: give each a port of its own", other, d.names, d.addr)
		}
		taken[addr] = d.names
	}
	return nil
}

// canonicalAddress returns one text for all ways to write an address. It is false for a port
// that the kernel chooses, and for what is no address: that is told when it is to
// be listened on.
func canonicalAddress(addr string) (string, bool) {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil || a.Port == 0 {
		return "", false
	}
	if a.IP.IsUnspecified() {
		a.IP = nil // 0.0.0.0 and :: are one, as Go listens on both
	}
	return a.String(), true
}

// prometheusAddr returns the address of the Prometheus listener.
func prometheusAddr(s *settings.Settings) string { return cmp.Or(s.PrometheusAddr, ":9090") }
