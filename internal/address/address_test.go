package address

import (
	"net/netip"
	"testing"
)

func TestParse(t *testing.T) {
	for s, want := range map[string]string{
		"192.0.2.1": "192.0.2.1/32", "::ffff:192.0.2.1": "192.0.2.1/32", "::FFFF:c000:201": "192.0.2.1/32",
		"192.0.2.7/24": "192.0.2.0/24", "::ffff:192.0.2.7/120": "192.0.2.0/24",
		"2001:DB8::1": "2001:db8::1/128", "2001:0db8:0:0::1%eth0": "2001:db8::1/128", "2001:db8::1/64": "2001:db8::/64",
		"": "", "ann": "", "a.b.c": "", "1.2.3.4.5": "", "192.0.2.256": "", "2001:db8::/129": "", "1.2.3": "", "face": "", "/": "", "::1/": "",
	} {
		p, ok := Parse(s)
		if ok != (want != "") || ok && p != netip.MustParsePrefix(want) {
			t.Errorf("%q: %s, %v", s, p, ok)
		}
	}
	if n := testing.AllocsPerRun(100, func() { Parse("a user"); Parse("2001:DB8::1"); Parse("ann@example.com") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
