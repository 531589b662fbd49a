package checks

import (
	"net/netip"
	"strings"

	"github.com/weirlimit/weir"
)

// Facts returns what the entries of r say about its client, by their keys:
// remote_address, method, host, path, user, tier and user_agent, in whichever
// descriptor. They are the words of whoever asks. It holds as long as the entries
// do.
func Facts(r *weir.Request) weir.Facts { return (*asked)(r) }

// asked is a request as weir.Facts.
type asked weir.Request

func (a *asked) entry(key string) string {
	for i := range a.Descriptors {
		for _, e := range a.Descriptors[i].Entries {
			if e.Key == key {
				return e.Value
			}
		}
	}
	return ""
}

// Address implements weir.Facts.
func (a *asked) Address() netip.Addr {
	if text, _, _ := strings.Cut(a.entry("remote_address"), "%"); text != "" {
		if addr, err := netip.ParseAddr(text); err == nil {
			return addr.Unmap()
		}
	}
	return netip.Addr{}
}

// Method implements weir.Facts.
func (a *asked) Method() string { return a.entry("method") }

// Host implements weir.Facts.
func (a *asked) Host() string { return a.entry("host") }

// Path implements weir.Facts.
func (a *asked) Path() string {
	path, _, _ := strings.Cut(a.entry("path"), "?")
	return path
}

// User implements weir.Facts.
func (a *asked) User() string { return a.entry("user") }

// Tier implements weir.Facts.
func (a *asked) Tier() string { return a.entry("tier") }

// Agent implements weir.Facts.
func (a *asked) Agent() string { return a.entry("user_agent") }

var _ weir.Facts = (*asked)(nil)
