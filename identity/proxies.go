package identity

import (
	"net/netip"
	"strings"

	"github.com/weirlimit/weir/internal/address"
)

// maxHops bounds how many proxies are walked over. Who has more of them trusts
// a network, not proxies.
const maxHops = 32

// proxies finds the client behind trusted ones. Immutable.
type proxies struct {
	trusted address.Set
	unix    bool
	header  string // canonical name
	form    form
	hops    int
}

// believes reports whether the headers of a peer are believed.
func (p *proxies) believes(peer netip.Addr) bool {
	if !peer.IsValid() {
		return p.unix
	}
	return p.trusted.Has(peer)
}

// findClient returns the client behind a peer that is believed. lines are those of
// the header, in order.
func (p *proxies) findClient(peer netip.Addr, lines []string) netip.Addr {
	switch p.form {
	case formList:
		return p.walkElements(peer, lines, cutElement, parseNode)
	case formForwarded:
		return p.walkElements(peer, lines, cutForwarded, forwardedFor)
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

// walkElements goes through the elements from the last, which the nearest proxy wrote,
// and ends at the first address that is not trusted: all that stands before it
// is hearsay. It ends at the last good address at what is none. What it does
// not come to it does not read.
func (p *proxies) walkElements(peer netip.Addr, lines []string, cut func(string) (rest, last string), parse func(string) (netip.Addr, bool)) netip.Addr {
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
			if left--; left == 0 || p.hops == 0 && !p.trusted.Has(at) {
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
