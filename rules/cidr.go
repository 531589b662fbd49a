package rules

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/address"
)

// valueSet is a list of values: exact, with *, or CIDR prefixes. It is safe for
// concurrent reading; a nil set is empty.
type valueSet struct {
	texts    byText[struct{}]
	prefixes map[netip.Prefix]struct{}
	// bits holds the lengths of the prefixes, one list for each family, the
	// shortest first.
	bits4, bits6 []int
}

// add puts s into the set. It returns what is wrong with s, and whether it is
// nevertheless usable.
func (v *valueSet) add(s string) (fault string, usable bool) {
	if host, _, ok := strings.Cut(s, "/"); ok {
		if _, err := netip.ParseAddr(host); err == nil {
			p, err := netip.ParsePrefix(s)
			if err != nil {
				return "bad prefix " + s, false
			}
			v.addPrefix(p)
			if p != p.Masked() {
				return s + " has bits beyond its length, it is read as " + p.Masked().String(), true
			}
			return "", true
		}
	}
	if a, err := netip.ParseAddr(s); err == nil {
		// An address has several spellings.
		v.addPrefix(netip.PrefixFrom(a.WithZone(""), a.BitLen()))
	}
	v.texts.add(s, struct{}{})
	return "", true
}

func (v *valueSet) addPrefix(p netip.Prefix) {
	p = address.Unmap(p).Masked()
	if v.prefixes == nil {
		v.prefixes = map[netip.Prefix]struct{}{}
	}
	v.prefixes[p] = struct{}{}
	bits := &v.bits6
	if p.Addr().Is4() {
		bits = &v.bits4
	}
	if i, found := slices.BinarySearch(*bits, p.Bits()); !found {
		*bits = slices.Insert(*bits, i, p.Bits())
	}
}

// has reports whether s is in the set.
func (v *valueSet) has(s string) bool {
	if v == nil {
		return false
	}
	if _, ok := v.texts.exact[s]; ok {
		return true
	}
	if _, ok := v.texts.wild.find(s); ok {
		return true
	}
	if len(v.prefixes) == 0 {
		return false
	}
	// A front end may name an IPv6 client by its /64: all of it is in a prefix, or it
	// is not in it.
	at, ok := address.Parse(s)
	if !ok {
		return false
	}
	a, bits := at.Addr(), v.bits6
	if a.Is4() {
		bits = v.bits4
	}
	for _, b := range bits {
		p, err := a.Prefix(b)
		if err != nil || b > at.Bits() {
			continue
		}
		if _, ok := v.prefixes[p]; ok {
			return true
		}
	}
	return false
}
