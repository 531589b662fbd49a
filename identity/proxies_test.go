package identity_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/identitytest"
)

// addressOf returns the client of a request that came from peer.
func addressOf(t testing.TB, r *identity.Resolver, peer, headers string) string {
	t.Helper()
	c := r.Acquire()
	defer c.Release()
	c.SetHTTP(read(t, peer, strings.TrimSuffix("GET / HTTP/1.1\nHost: h\n"+headers, "\n")))
	return c.Address().String()
}

// TestForwardedFor is group 1 of the threats for X-Forwarded-For.
func TestForwardedFor(t *testing.T) {
	r := identitytest.New(t, identity.Options{Proxies: identity.ProxyOptions{
		Trusted: prefixes("10.0.0.0/8", "2001:db8:ffff::/48"), Header: "x-forwarded-for",
	}})
	f := func(want, headers string) {
		t.Helper()
		if got := addressOf(t, r, "10.0.0.1:1", headers); got != want {
			t.Errorf("%q: %s, not %s", headers, got, want)
		}
	}
	f("203.0.113.7", "X-Forwarded-For: 203.0.113.7")
	f("203.0.113.7", "X-Forwarded-For: 198.51.100.1, 203.0.113.7") // the leftmost is the client's own
	f("203.0.113.7", "X-Forwarded-For: 198.51.100.1,203.0.113.7,10.2.3.4 ,\t10.0.0.9")
	f("203.0.113.7", "X-Forwarded-For: 198.51.100.1\nX-Forwarded-For: 203.0.113.7")
	f("203.0.113.7", "x-forwarded-for: 203.0.113.7\nX-FORWARDED-FOR: 10.0.0.2")
	f("2001:db8::1", "X-Forwarded-For: 2001:db8::1, 2001:db8:ffff::7")
	f("2001:db8::1", "X-Forwarded-For: [2001:db8::1]:4711")
	f("2001:db8::1", "X-Forwarded-For: [2001:db8::1]")
	f("2001:db8::1", "X-Forwarded-For: 2001:db8::1%eth0")
	f("203.0.113.7", "X-Forwarded-For: ::ffff:203.0.113.7")
	f("203.0.113.7", "X-Forwarded-For: 203.0.113.7:4711, ::ffff:10.0.0.5")
	f("10.0.0.3", "X-Forwarded-For: 10.0.0.3, 10.0.0.2") // all are trusted: the farthest

	// What is no address ends the walk at the last good hop.
	f("10.0.0.1", "X-Forwarded-For: unknown")
	f("10.0.0.2", "X-Forwarded-For: 203.0.113.7, unknown, 10.0.0.2")
	f("10.0.0.2", "X-Forwarded-For: 203.0.113.7, _gateway, 10.0.0.2")
	f("10.0.0.2", "X-Forwarded-For: 203.0.113.7,, 10.0.0.2")
	f("10.0.0.2", "X-Forwarded-For: 203.0.113.7\nX-Forwarded-For:\nX-Forwarded-For: 10.0.0.2")
	for _, junk := range []string{
		"", ",", "203.0.113.7,", "203.0.113.256", "203.0.113", "203.0.113.7:", "203.0.113.7:http", "203.0.113.7:123456",
		"[203.0.113.7]", "[2001:db8::1", "[2001:db8::1]x", "[2001:db8::1]:", "[]", "2001:db8::1]", "localhost", `"203.0.113.7"`, "203.0.113.7 198.51.100.1",
		"0x7f.1", "for=203.0.113.7", strings.Repeat("1", 5000), "::ffff:203.0.113.7:80:90",
	} {
		f("10.0.0.1", "X-Forwarded-For: "+junk)
	}

	// One header is looked at, in one spelling.
	f("10.0.0.1", "X_Forwarded_For: 203.0.113.7")
	f("10.0.0.1", "X-Forwarded_For: 203.0.113.7\nForwarded: for=203.0.113.7\nX-Real-IP: 203.0.113.7\nCF-Connecting-IP: 203.0.113.7\nTrue-Client-IP: 203.0.113.7")

	// Who is not listed is not believed, and by default nobody is.
	const spoof = "X-Forwarded-For: 203.0.113.7"
	for _, peer := range []string{"192.0.2.1:1", "11.0.0.1:1", "[2001:db8:fffe::1]:1"} {
		want := netip.MustParseAddrPort(peer).Addr().String()
		if got := addressOf(t, r, peer, spoof); got != want {
			t.Errorf("from %s: %s", peer, got)
		}
	}
	if got := addressOf(t, identitytest.New(t, identity.Options{}), "127.0.0.1:1", spoof); got != "127.0.0.1" {
		t.Errorf("by default the client is %s", got)
	}
	if got := addressOf(t, r, "[::ffff:10.0.0.1%eth0]:1", spoof); got != "203.0.113.7" {
		t.Errorf("from a mapped peer: %s", got)
	}
}

// TestForwardedForHops: a fixed number of proxies, of any address.
func TestForwardedForHops(t *testing.T) {
	everyone := prefixes("0.0.0.0/0", "::/0")
	f := func(want string, hops int, headers string) {
		t.Helper()
		r := identitytest.New(t, identity.Options{Proxies: identity.ProxyOptions{Trusted: everyone, Header: "X-Forwarded-For", Hops: hops}})
		if got := addressOf(t, r, "10.0.0.1:1", headers); got != want {
			t.Errorf("%d hops, %q: %s, not %s", hops, headers, got, want)
		}
	}
	f("203.0.113.7", 1, "X-Forwarded-For: 198.51.100.1, 203.0.113.7")
	f("203.0.113.7", 2, "X-Forwarded-For: 198.51.100.1, 203.0.113.7\nX-Forwarded-For: 192.0.2.9")
	f("203.0.113.7", 3, "X-Forwarded-For: 203.0.113.7, 192.0.2.9") // fewer than there should be
	f("192.0.2.9", 2, "X-Forwarded-For: unknown, 192.0.2.9")
	f("10.0.0.1", 2, "")
}

// TestForwarded is group 1 of the threats for RFC 7239.
func TestForwarded(t *testing.T) {
	r := identitytest.New(t, identity.Options{Proxies: identity.ProxyOptions{Trusted: prefixes("10.0.0.0/8"), Header: "Forwarded"}})
	f := func(want, headers string) {
		t.Helper()
		if got := addressOf(t, r, "10.0.0.1:1", headers); got != want {
			t.Errorf("%q: %s, not %s", headers, got, want)
		}
	}
	f("203.0.113.7", "Forwarded: for=203.0.113.7")
	f("203.0.113.7", `Forwarded: For="203.0.113.7:4711";proto=https;by=10.0.0.1`)
	f("2001:db8::1", `Forwarded: by="[::1]:80" ; FOR = "[2001:db8::1]:4711";host="a,b;for=1.2.3.4"`)
	f("2001:db8::1", `Forwarded: for="[2001:db8::1]"`)
	f("203.0.113.7", "Forwarded: for=198.51.100.1, for=203.0.113.7;proto=http, for=10.0.0.2")
	f("203.0.113.7", "Forwarded: for=198.51.100.1\nForwarded: for=203.0.113.7\nForwarded: for=10.0.0.2")
	f("203.0.113.7", `Forwarded: for="20\3.0.113.7"`)
	f("10.0.0.2", "Forwarded: for=203.0.113.7, for=unknown, for=10.0.0.2")
	f("10.0.0.2", "Forwarded: for=203.0.113.7, for=_hidden, for=10.0.0.2")
	f("10.0.0.2", `Forwarded: for=203.0.113.7, for="_hidden:80", for=10.0.0.2`)
	f("10.0.0.2", "Forwarded: for=203.0.113.7, proto=https, for=10.0.0.2")
	f("203.0.113.7", `Forwarded: for=203.0.113.7, for=10.0.0.2;host="a\",b"`)
	// A quote that a client leaves open hides nothing that a proxy wrote.
	f("203.0.113.7", `Forwarded: for="198.51.100.1, for=203.0.113.7`)
	f("203.0.113.7", `Forwarded: for=x;host="\, for=203.0.113.7`)
	for _, junk := range []string{
		"", "for", "for=", `for=""`, `for="`, `for="203.0.113.7`, `for="203.0.113.7\"`, "for=203.0.113.7;for=198.51.100.1", "for=2001:db8::1",
		`for="2001:db8::1"`, "203.0.113.7", "for=203.0.113.7;x", "for=203.0.113.7,", "xfor=203.0.113.7", "for=203.0.113.7;" + strings.Repeat("a=b;", 1000),
	} {
		f("10.0.0.1", "Forwarded: "+junk)
	}
	f("10.0.0.1", "X-Forwarded-For: 203.0.113.7")
	if got := addressOf(t, r, "192.0.2.1:1", "Forwarded: for=203.0.113.7"); got != "192.0.2.1" {
		t.Errorf("a peer that is not listed is believed: %s", got)
	}
}

func TestSingleAddressHeader(t *testing.T) {
	for _, name := range []string{"X-Real-IP", "CF-Connecting-IP", "True-Client-IP", "Fly-Client-IP"} {
		r := identitytest.New(t, identity.Options{Proxies: identity.ProxyOptions{Trusted: prefixes("10.0.0.0/8"), Header: name}})
		f := func(want, peer, value string) {
			t.Helper()
			if got := addressOf(t, r, peer, name+": "+value+"\nX-Forwarded-For: 198.51.100.1"); got != want {
				t.Errorf("%s %q: %s, not %s", name, value, got, want)
			}
		}
		f("203.0.113.7", "10.0.0.1:1", "203.0.113.7")
		f("2001:db8::1", "10.0.0.1:1", " [2001:db8::1]:80")
		f("10.0.0.1", "10.0.0.1:1", "203.0.113.7, 203.0.113.8")
		f("10.0.0.1", "10.0.0.1:1", "203.0.113.7\n"+name+": 203.0.113.8")
		f("10.0.0.1", "10.0.0.1:1", "unknown")
		f("192.0.2.1", "192.0.2.1:1", "203.0.113.7")
	}
}

// TestManyElements: a header as long as a server takes it, whose elements all
// are trusted, costs no more than a short one.
func TestManyElements(t *testing.T) {
	for _, h := range []struct{ name, element string }{{"X-Forwarded-For", "10.1.2.3"}, {"Forwarded", "for=10.1.2.3"}, {"X-Forwarded-For", ""}, {"Forwarded", `"`}} {
		r := identitytest.New(t, identity.Options{Proxies: identity.ProxyOptions{Trusted: prefixes("10.0.0.0/8"), Header: h.name}})
		lines := []string{strings.Repeat(h.element+",", 10_000) + h.element}
		c := r.Acquire()
		shortest := time.Hour
		for range 5 {
			start := time.Now()
			for range 1000 {
				c.Set(identity.Facts{Peer: netip.MustParseAddr("10.0.0.1"), Header: map[string][]string{canonical(h.name): lines}})
				if a := c.Address(); !a.IsValid() {
					t.Fatal("no address")
				}
			}
			if shortest = min(shortest, time.Since(start)); shortest < time.Second {
				break // on a machine that is busy with others it may take as long
			}
		}
		if shortest > time.Second {
			t.Errorf("%s of 10,000 %q: %s a thousand", h.name, h.element, shortest)
		}
		c.Release()
	}
	// The walk ends after 32 proxies.
	var elements []string
	for i := range 100 {
		elements = append(elements, fmt.Sprintf("10.1.2.%d", i))
	}
	r := identitytest.New(t, identity.Options{Proxies: identity.ProxyOptions{Trusted: prefixes("10.0.0.0/8"), Header: "X-Forwarded-For"}})
	if got := addressOf(t, r, "10.0.0.1:1", "X-Forwarded-For: "+strings.Join(elements, ",")); got != "10.1.2.68" {
		t.Error(got)
	}
}

// TestManyTrusted: of overlapping prefixes in any order, each address is found
// that one of them holds, and no other.
func TestManyTrusted(t *testing.T) {
	var ps []netip.Prefix
	for i := range 2000 {
		ps = append(ps, netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(i * 7), byte(i * 13), byte(i * 31), 0}), 8+i*5%25))
		ps = append(ps, netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, byte(i * 3), byte(i * 11), byte(i)}), 20+i*7%109))
	}
	ps = append(ps[1000:], netip.MustParsePrefix("::ffff:250.0.0.0/104"))
	r := identitytest.New(t, identity.Options{Proxies: identity.ProxyOptions{Trusted: ps}})
	for i := range 4000 {
		a := netip.AddrFrom4([4]byte{byte(i), byte(i * 3), byte(i >> 8), byte(i * 5)})
		if i&1 == 1 {
			a = netip.AddrFrom16([16]byte{0x20, 1, byte(i), byte(i >> 6), byte(i * 3)})
		}
		want := a.Is4() && a.As4()[0] == 250
		for _, p := range ps {
			if want = want || p.Contains(a); want {
				break
			}
		}
		if got := r.Trusts(a); got != want {
			t.Fatalf("%s: %t", a, got)
		}
	}
}

func TestAddressKey(t *testing.T) {
	f := func(want, peer string, opt identity.Options, from ...string) {
		t.Helper()
		r := identitytest.New(t, opt)
		var ds []identity.Descriptor
		for _, s := range from {
			ds = append(ds, identity.Descriptor{Entries: []identity.EntryFrom{{Key: "ip", From: s}}})
		}
		p, err := r.Plan(ds)
		if err != nil {
			t.Fatal(err)
		}
		c := r.Acquire()
		defer c.Release()
		var a netip.Addr
		if peer != "" {
			a = netip.MustParseAddr(peer)
		}
		c.Set(identity.Facts{Peer: a})
		var req weir.Request
		if err := p.Fill(&req, c); err != nil || show(&req) != want {
			t.Errorf("%s: %s, not %s (%v)", peer, show(&req), want, err)
		}
	}
	zero := identity.Options{}
	f("ip=203.0.113.7", "203.0.113.7", zero, "remote_address")
	f("ip=203.0.113.7", "::ffff:203.0.113.7", zero, "remote_address")
	f("ip=203.0.113.0/24", "203.0.113.7", identity.Options{IPv4Prefix: 24}, "remote_address")
	f("ip=203.0.113.0/28", "203.0.113.7", zero, "remote_address/28")
	f("ip=2001:db8:1:2::/64", "2001:db8:1:2:3:4:5:6%eth0", zero, "remote_address")
	f("ip=2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6", identity.Options{IPv6Prefix: 128}, "remote_address")
	f("ip=2001:db8:1:2::/64; ip=2001:db8:1::/48", "2001:db8:1:2::1", zero, "remote_address", "remote_address/48")
	f("ip=203.0.113.7; ip=203.0.113.7", "203.0.113.7", zero, "remote_address", "remote_address/48")
	f("ip=unknown; ip=address:unknown", "", zero, "remote_address", "client")
	f("ip=address:2001:db8::/64", "2001:db8::1", zero, "client")
	// One IPv4 address has 65,536 /64s in 6to4, and all that a NAT64 translates
	// are in one.
	f("ip=2002:cb00:7107::/48", "2002:cb00:7107:99::1", zero, "remote_address")
	f("ip=2002:cb00:7107::/48", "2002:cb00:7107:99::1", identity.Options{IPv6Prefix: 128}, "remote_address")
	f("ip=203.0.113.7", "64:ff9b::203.0.113.7", zero, "remote_address")
	f("ip=203.0.113.7", "2001:db8:64::203.0.113.7", identity.Options{NAT64: prefixes("2001:db8:64::/96")}, "remote_address")
	f("ip=2001:db8:64::/64", "2001:db8:64::203.0.113.7", zero, "remote_address")
}

// TestNAT64IsNotTrusted: who comes through a translator is not the proxy whose
// IPv4 address he might embed.
func TestNAT64IsNotTrusted(t *testing.T) {
	r := identitytest.New(t, identity.Options{Proxies: identity.ProxyOptions{Trusted: prefixes("10.0.0.0/8"), Header: "X-Forwarded-For"}})
	if got := addressOf(t, r, "[64:ff9b::10.0.0.1]:1", "X-Forwarded-For: 203.0.113.7"); got != "10.0.0.1" {
		t.Error(got)
	}
}

func TestUnixSocket(t *testing.T) {
	f := func(want string, trust bool) {
		t.Helper()
		r := identitytest.New(t, identity.Options{Proxies: identity.ProxyOptions{Unix: trust, Trusted: prefixes("10.0.0.0/8"), Header: "X-Forwarded-For"}})
		for _, peer := range []string{"@", ""} {
			if got := addressOf(t, r, peer, "X-Forwarded-For: 203.0.113.7"); got != want {
				t.Errorf("%q: %s, not %s", peer, got, want)
			}
		}
	}
	f("203.0.113.7", true)
	f("invalid IP", false)
}

// TestProxyOptions: a header that could never be believed, or be read in two
// ways, is a mistake to be told.
func TestProxyOptions(t *testing.T) {
	f := func(want string, o identity.ProxyOptions) {
		t.Helper()
		if _, err := identity.New(identity.Options{Proxies: o}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	ten := prefixes("10.0.0.0/8")
	f("never trusted", identity.ProxyOptions{Header: "X-Forwarded-For"})
	f("not the name of a header", identity.ProxyOptions{Trusted: ten, Header: "X-Forwarded-For, Forwarded"})
	f("unknown form", identity.ProxyOptions{Trusted: ten, Header: "X", Form: "both"})
	f("set header too", identity.ProxyOptions{Trusted: ten, Hops: 2})
	f("hops must be", identity.ProxyOptions{Trusted: ten, Header: "Forwarded", Hops: -1})
	f("no hops to count", identity.ProxyOptions{Trusted: ten, Header: "X-Real-IP", Hops: 2})
	for _, o := range []identity.Options{{IPv4Prefix: 23}, {IPv4Prefix: 33}, {IPv6Prefix: 47}, {IPv6Prefix: 129}, {NAT64: prefixes("64:ff9b:1::/48")}, {NAT64: prefixes("10.0.0.0/8")}} {
		if _, err := identity.New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

func FuzzForwardedFor(f *testing.F) {
	for _, s := range []string{"203.0.113.7", "1.2.3.4, 10.0.0.1", "[2001:db8::1]:80,\n10.0.0.2", "unknown", ",,,\n,", "::ffff:1.2.3.4%x"} {
		f.Add(s, 0)
	}
	fuzzHeader(f, "X-Forwarded-For")
}

func FuzzForwarded(f *testing.F) {
	for _, s := range []string{`for="[2001:db8::1]:80";by=x`, `for=1.2.3.4, for=10.0.0.1`, `for="\"", for=10.0.0.2`, `for=_x;a="b,c"`, `"""\\\",,;;==`} {
		f.Add(s, 0)
	}
	fuzzHeader(f, "Forwarded")
}

// fuzzHeader: whatever a client puts before it, what the proxy wrote last
// counts; and the answer is an address that stands there, or the peer.
func fuzzHeader(f *testing.F, name string) {
	own := "203.0.113.77"
	if name == "Forwarded" {
		own = "for=" + own
	}
	f.Fuzz(func(t *testing.T, text string, hops int) {
		o := identity.ProxyOptions{Trusted: prefixes("10.0.0.0/8"), Header: name, Hops: hops & 3}
		r := identitytest.New(t, identity.Options{Proxies: o})
		c := r.Acquire()
		defer c.Release()
		peer := netip.MustParseAddr("10.0.0.1")
		lines := strings.Split(text, "\n")
		c.Set(identity.Facts{Peer: peer, Header: map[string][]string{name: lines}})
		if a := c.Address(); !a.IsValid() || a.Is4In6() || a.Zone() != "" {
			t.Fatalf("%q: %s", text, a)
		}
		if o.Hops > 1 {
			return
		}
		lines[len(lines)-1] += "," + own
		c.Set(identity.Facts{Peer: peer, Header: map[string][]string{name: lines}})
		if a := c.Address(); a.String() != "203.0.113.77" {
			t.Fatalf("%q: %s", lines, a)
		}
		c.Set(identity.Facts{Peer: netip.MustParseAddr("192.0.2.1"), Header: map[string][]string{name: lines}})
		if a := c.Address(); a.String() != "192.0.2.1" {
			t.Fatalf("a stranger is believed: %s", a)
		}
	})
}
