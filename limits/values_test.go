package limits

import (
	"strings"
	"testing"
)

func TestValueSet(t *testing.T) {
	var v Values
	for _, s := range []string{"10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "::ffff:203.0.113.0/120", "exact", "wild-*", "/path/1", "fe80::1"} {
		if fault, usable := v.Add(s); fault != "" || !usable {
			t.Errorf("%s: %s", s, fault)
		}
	}
	for s, want := range map[string]bool{
		"10.255.0.1": true, "11.0.0.1": false, "192.0.2.7": true, "::ffff:192.0.2.7": true, "2001:db8:ffff::": true,
		"2001:0DB8::1": true, "2001:db9::1": false, "203.0.113.9": true, "exact": true, "exact2": false, "wild-": true,
		"/path/1": true, "/path/2": false, "fe80::1%eth0": true, "fe80:0::1": true, "1.2.3": false, "": false,
		"10.0.0.1 ": false, "010.0.0.1": false, strings.Repeat("1", 100): false,
		// A client named by its network: all of it is in, or it is not.
		"2001:db8:1:2::/64": true, "2001:db9:1:2::/64": false, "2001:d00::/24": false, "10.1.0.0/16": true, "10.1.0.0/": false,
	} {
		if got := v.Has(s); got != want {
			t.Errorf("has %q: %t", s, got)
		}
	}
	if fault, usable := v.Add("10.0.0.1/8"); fault == "" || !usable {
		t.Error("bits beyond the length are not told")
	}
	if fault, usable := v.Add("10.0.0.0/33"); fault == "" || usable {
		t.Error("a bad prefix is taken")
	}
}
