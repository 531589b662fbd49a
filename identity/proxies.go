package identity

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/address"
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
		all = append(all, address.Unmap(p).Masked())
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
