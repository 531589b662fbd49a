package identity

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/weirlimit/weir/internal/address"
)

// Widths of an address that may name a client, and what they are by default.
const (
	minIPv4, maxIPv4, ipv4Prefix = 24, 32, 32
	minIPv6, maxIPv6, ipv6Prefix = 48, 128, 64
)

// width is how many bits of an address are looked at.
type width struct{ v4, v6 int }

// newWidth returns the widths for the given numbers of bits, 0 for the default.
func newWidth(v4, v6 int) (width, error) {
	w := width{cmp.Or(v4, ipv4Prefix), cmp.Or(v6, ipv6Prefix)}
	if w.v4 < minIPv4 || w.v4 > maxIPv4 {
		return w, fmt.Errorf("an IPv4 prefix has %d to %d bits, not %d: a shorter one is too many people", minIPv4, maxIPv4, w.v4)
	}
	if w.v6 < minIPv6 || w.v6 > maxIPv6 {
		return w, fmt.Errorf("an IPv6 prefix has %d to %d bits, not %d: a shorter one is too many people", minIPv6, maxIPv6, w.v6)
	}
	return w, nil
}

var (
	// sixToFour holds 2002:V4ADDR::/48: who has one IPv4 address has 65,536 /64s
	// there. Source: RFC 3056 §2.
	sixToFour = netip.MustParsePrefix("2002::/16")
	// nat64 is the well-known prefix of RFC 6052 §2.1.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

// nat64Prefixes checks the prefixes of own translators.
func nat64Prefixes(ps []netip.Prefix) ([]netip.Prefix, error) {
	all := []netip.Prefix{nat64}
	for _, p := range ps {
		if p.Bits() != 96 || p.Addr().Is4() || p.Addr().Is4In6() {
			return nil, fmt.Errorf("nat64: %s is not an IPv6 prefix of 96 bits", p)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

// translated returns the IPv4 address that a embeds, if it is one of the given
// translators', else a.
func translated(a netip.Addr, translators []netip.Prefix) netip.Addr {
	if !a.Is6() {
		return a
	}
	for _, p := range translators {
		if p.Contains(a) {
			b := a.As16()
			return netip.AddrFrom4([4]byte(b[12:]))
		}
	}
	return a
}

// AppendClient appends the text that stands for the client of an address where
// nothing else is configured: the address itself, 2001:db8::/64 for one of IPv6,
// and the IPv4 address that one of 64:ff9b::/96 embeds.
func AppendClient(dst []byte, a netip.Addr) []byte {
	a = translated(a.Unmap().WithZone(""), []netip.Prefix{nat64})
	return width{ipv4Prefix, ipv6Prefix}.appendTo(dst, a)
}

// appendTo appends the client that a is one of: 203.0.113.7, 203.0.113.0/24,
// 2001:db8::/64. All addresses of a client give the same text.
func (w width) appendTo(b []byte, a netip.Addr) []byte {
	if !a.IsValid() {
		// On a socket without addresses all are one client: none escapes.
		return append(b, "unknown"...)
	}
	bits, all := w.v6, maxIPv6
	switch {
	case a.Is4():
		bits, all = w.v4, maxIPv4
	case bits > 48 && sixToFour.Contains(a):
		bits = 48
	}
	if bits == all {
		return a.AppendTo(b)
	}
	p, err := a.Prefix(bits)
	if err != nil {
		panic("identity: no prefix of " + a.String())
	}
	return p.AppendTo(b)
}

// parseNode reads an address with or without a port: 192.0.2.1, 192.0.2.1:80,
// 2001:db8::1, [2001:db8::1], [2001:db8::1]:80.
func parseNode(s string) (netip.Addr, bool) {
	// The longest: brackets, an address with an embedded IPv4 one, a zone, a port.
	if s == "" || len(s) > 80 {
		return netip.Addr{}, false
	}
	if s[0] == '[' {
		end := strings.IndexByte(s, ']')
		if end < 0 || !isPortSuffix(s[end+1:]) {
			return netip.Addr{}, false
		}
		s = s[1:end]
		if strings.IndexByte(s, ':') < 0 {
			return netip.Addr{}, false
		}
	} else if i := strings.IndexByte(s, ':'); i >= 0 && strings.IndexByte(s[i+1:], ':') < 0 {
		if !isPortSuffix(s[i:]) {
			return netip.Addr{}, false
		}
		s = s[:i]
	}
	return parseAddr(s)
}

// parseAddr reads a plain address. The parser of netip allocates an error for
// what is none; what a stranger sends often is none.
func parseAddr(s string) (netip.Addr, bool) {
	if s == "" || !isHexDigit(s[0]) && s[0] != ':' {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, false
	}
	return address.Bare(a), true
}

// isPortSuffix reports whether s is empty, or a colon and a port.
func isPortSuffix(s string) bool {
	return s == "" || s[0] == ':' && len(s) >= 2 && len(s) <= 6 && digitBytes.hasAll(s[1:])
}
