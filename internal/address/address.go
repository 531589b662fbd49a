// Package address reads IP addresses and prefixes, which have several spellings.
package address

import (
	"net/netip"
	"strings"
)

// Parse returns the address that s spells as a prefix of all its bits, or the prefix
// that it spells: without a zone, without bits beyond its length, and an IPv4 address
// in IPv6 form as IPv4. It reports false if s is neither. It does not allocate for
// what does not look like an address. Safe for concurrent use.
func Parse(s string) (netip.Prefix, bool) {
	host, _, masked := strings.Cut(s, "/")
	if !looksLikeAddress(host) {
		return netip.Prefix{}, false
	}
	if masked {
		p, err := netip.ParsePrefix(s)
		return Unmap(p).Masked(), err == nil
	}
	a, err := netip.ParseAddr(s)
	a = a.Unmap().WithZone("")
	return netip.PrefixFrom(a, a.BitLen()), err == nil
}

// Unmap returns a prefix of IPv4 addresses in IPv6 form as one of IPv4, and others as
// they are.
func Unmap(p netip.Prefix) netip.Prefix {
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p
}

// looksLikeAddress reports whether s may be an address. The parser allocates an error
// for what is none, and most values are none.
func looksLikeAddress(s string) bool {
	if len(s) > 64 {
		return false
	}
	dots, colons := 0, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '.':
			dots++
		case c == ':':
			colons++
		case c == '%':
			return colons > 1
		case c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f':
		default:
			return false
		}
	}
	return colons > 1 || dots == 3
}
