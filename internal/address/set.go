package address

import (
	"cmp"
	"net/netip"
	"slices"
)

// Set is a set of addresses: prefixes of which none holds another, in order.
// Lists of thousands, as cloud providers publish them, are searched in halves.
type Set []netip.Prefix

// NewSet returns the set of the addresses of ps.
func NewSet(ps []netip.Prefix) Set {
	all := make(Set, 0, len(ps))
	for _, p := range ps {
		all = append(all, Unmap(p).Masked())
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

// Has reports whether a, which is Bare, is in the set.
func (s Set) Has(a netip.Addr) bool {
	// The last prefix that begins at or before a, if any holds it.
	lo, hi := 0, len(s)
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); s[mid].Addr().Compare(a) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo > 0 && s[lo-1].Contains(a)
}

// Bare returns a as it is compared: not mapped, no zone.
func Bare(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
