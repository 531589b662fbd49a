package limits

import (
	"net/netip"
	"strings"

	"github.com/weirlimit/weir/internal/address"
	"github.com/weirlimit/weir/internal/pattern"
)

// Values is a list of values: exact, with *, or CIDR prefixes. It is safe for
// concurrent reading; a nil list is empty.
type Values struct {
	texts    pattern.Texts[struct{}]
	prefixes address.Table[struct{}]
}

// Add puts s into the list. It returns what is wrong with s, and whether it is
// nevertheless usable.
func (v *Values) Add(s string) (fault string, usable bool) {
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
	v.texts.AddText(s, struct{}{})
	return "", true
}

// Has reports whether s is in the list.
func (v *Values) Has(s string) bool {
	if v == nil {
		return false
	}
	if _, ok := v.texts.FindText(s); ok {
		return true
	}
	if p, ok := address.Parse(s); ok {
		for range v.prefixes.Holding(p) {
			return true
		}
	}
	return false
}
