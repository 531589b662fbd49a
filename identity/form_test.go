package identity_test

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
)

// FuzzEntryForm: the form of an entry's value is what a plan makes of a request
// that was sent so, and a form has the form of itself.
func FuzzEntryForm(f *testing.F) {
	f.Add("/a/../b//c;x=1", "geT", "Example.COM:80", uint32(0x0a000001), uint64(0))
	f.Add("/%6cogin", "HEAD", "[::1]:8080", uint32(7), uint64(0x20010db800000001))
	f.Add("/"+strings.Repeat("x", 2000), "PATCH", "a.b.", uint32(0xffffffff), uint64(0x2002010203040506))
	var whos []*identity.Resolver
	for _, opt := range []identity.Options{{}, {IPv4Prefix: 24, IPv6Prefix: 48, Paths: identity.PathOptions{IgnoreCase: true}}} {
		who, err := identity.New(opt)
		if err != nil {
			f.Fatal(err)
		}
		whos = append(whos, who)
	}
	entries := []identity.EntryFrom{{From: "path"}, {From: "method"}, {From: "host"}, {From: "remote_address"}, {From: "remote_address/28"}}
	f.Fuzz(func(t *testing.T, path, method, host string, v4 uint32, v6 uint64) {
		if !strings.HasPrefix(path, "/") || method == "" || host == "" {
			return // an absolute form has a host of its own; the rest may be left out
		}
		var a4 [4]byte
		binary.BigEndian.PutUint32(a4[:], v4)
		peer := netip.AddrFrom4(a4)
		if v6 != 0 {
			var a16 [16]byte
			binary.BigEndian.PutUint64(a16[:], v6)
			copy(a16[12:], a4[:])
			peer = netip.AddrFrom16(a16)
		}
		for _, who := range whos {
			plan, err := who.Plan([]identity.Descriptor{{Entries: entries}})
			if err != nil {
				t.Fatal(err)
			}
			c := who.Acquire()
			c.Set(identity.Facts{Peer: peer, Method: method, Host: host, Path: path})
			var req weir.Request
			filled := plan.Fill(&req, c)
			for i, value := range []string{path, method, host, peer.String(), peer.String()} {
				key := entries[i].From
				form, err := who.EntryForm(key, value)
				if filled != nil {
					continue // one of them has no form
				}
				if got := req.Descriptors[0].Entries[i]; err != nil || form != got.Value || got.Key != key {
					t.Fatalf("%s %q: form %q, %v; the plan writes %+v", key, value, form, err, got)
				}
				if again, err := who.EntryForm(key, form); (err != nil || again != form) && !strings.HasPrefix(form, "sha256:") {
					t.Fatalf("%s %q: the form %q has the form %q, %v", key, value, form, again, err)
				}
			}
			c.Release()
		}
	})
}
