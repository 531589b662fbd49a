package identity

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// maxHops bounds how many proxies are walked over. Who has more of them trusts
// a network, not proxies.
const maxHops = 32

// proxies finds the client behind trusted ones. Immutable.
type proxies struct {
	trusted trust
	unix    bool
	header  string // canonical name
	form    form
	hops    int
}

// trust is a set of addresses: prefixes of which none holds another, in order.
// Lists of thousands, as cloud providers publish them, are searched in halves.
type trust []netip.Prefix

func newTrust(ps []netip.Prefix) trust {
	all := make(trust, 0, len(ps))
	for _, p := range ps {
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		all = append(all, p.Masked())
	}
	// Of those that begin at one address the widest comes first.
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), a.Bits()-b.Bits())
	})
	kept := all[:0]
	for _, p := range all {
		if n := len(kept); n == 0 || !kept[n-1].Contains(p.Addr()) {
			kept = append(kept, p)
		}
	}
	return kept
}

// has reports whether a, unmapped and without a zone, is in the set.
func (t trust) has(a netip.Addr) bool {
	// The last prefix that begins at or before a, if any holds it.
	lo, hi := 0, len(t)
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); t[mid].Addr().Compare(a) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo > 0 && t[lo-1].Contains(a)
}

// believes reports whether the headers of a peer are believed.
func (p *proxies) believes(peer netip.Addr) bool {
	if !peer.IsValid() {
		return p.unix
	}
	return p.trusted.has(peer)
}

// client returns the client behind a peer that is believed. lines are those of
// the header, in order.
func (p *proxies) client(peer netip.Addr, lines []string) netip.Addr {
	switch p.form {
	case formList:
		return p.walk(peer, lines, cutElement, parseNode)
	case formForwarded:
		return p.walk(peer, lines, cutForwarded, forwardedFor)
	case formSingle:
		// On two lines one of them is the client's own: neither is taken.
		if len(lines) == 1 {
			if a, ok := parseNode(trimSpace(lines[0])); ok {
				return a
			}
		}
	}
	return peer
}

// walk goes through the elements from the last, which the nearest proxy wrote,
// and ends at the first address that is not trusted: all that stands before it
// is hearsay. It ends at the last good address at what is none. What it does
// not come to it does not read.
func (p *proxies) walk(peer netip.Addr, lines []string, cut func(string) (rest, last string), parse func(string) (netip.Addr, bool)) netip.Addr {
	at, left := peer, maxHops
	if p.hops > 0 {
		left = p.hops
	}
	for i := len(lines) - 1; i >= 0; i-- {
		line := lines[i]
		for more := true; more; {
			rest, last := cut(line)
			more = len(rest)+len(last) < len(line)
			line = rest
			a, ok := parse(trimSpace(last))
			if !ok {
				return at
			}
			at = a
			if left--; left == 0 || p.hops == 0 && !p.trusted.has(at) {
				return at
			}
		}
	}
	return at
}

// cutElement cuts the last element off a list. Without a comma, all of it is
// the last element.
func cutElement(line string) (rest, last string) {
	if i := strings.LastIndexByte(line, ','); i >= 0 {
		return line[:i], line[i+1:]
	}
	return "", line
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
		if end < 0 || !isPort(s[end+1:]) {
			return netip.Addr{}, false
		}
		s = s[1:end]
		if strings.IndexByte(s, ':') < 0 {
			return netip.Addr{}, false
		}
	} else if i := strings.IndexByte(s, ':'); i >= 0 && strings.IndexByte(s[i+1:], ':') < 0 {
		if !isPort(s[i:]) {
			return netip.Addr{}, false
		}
		s = s[:i]
	}
	return parseAddr(s)
}

// parseAddr reads a plain address. The parser of netip allocates an error for
// what is none; what a stranger sends often is none.
func parseAddr(s string) (netip.Addr, bool) {
	if s == "" || !isHex(s[0]) && s[0] != ':' {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, false
	}
	return bare(a), true
}

// bare returns a as it is compared: not mapped, no zone.
func bare(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// isPort reports whether s is empty, or a colon and a port.
func isPort(s string) bool {
	if s == "" {
		return true
	}
	if s[0] != ':' || len(s) < 2 || len(s) > 6 {
		return false
	}
	for i := 1; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

// trimSpace cuts the white space of HTTP: spaces and tabs.
func trimSpace(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}
