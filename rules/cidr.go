package rules

import (
	"net/netip"
	"strings"

	"github.com/weirlimit/weir/internal/address"
)

// valueSet is a list of values: exact, with *, or CIDR prefixes. It is safe for
// concurrent reading; a nil set is empty.
type valueSet struct {
	texts    byText[struct{}]
	prefixes address.Table[struct{}]
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
			v.prefixes.Put(p, struct{}{})
			if p != p.Masked() {
				return s + " has bits beyond its length, it is read as " + p.Masked().String(), true
			}
			return "", true
		}
	}
	if a, err := netip.ParseAddr(s); err == nil {
		// An address has several spellings.
		v.prefixes.Put(netip.PrefixFrom(a.WithZone(""), a.BitLen()), struct{}{})
	}
	v.texts.add(s, struct{}{})
	return "", true
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
	if p, ok := address.Parse(s); ok {
		for range v.prefixes.Holding(p) {
			return true
		}
	}
	return false
}
