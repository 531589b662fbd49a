package gateway

import "testing"

func TestClientOf(t *testing.T) {
	f := func(remote, want string) {
		t.Helper()
		if got := clientOf(remote); got != want {
			t.Errorf("%s: got %s, want %s", remote, got, want)
		}
	}
	f("192.0.2.1:1234", "192.0.2.1")
	f("[::ffff:192.0.2.1]:1234", "192.0.2.1")
	f("[2001:db8:1:2:3:4:5:6]:1234", "2001:db8:1:2::/64")
	f("[2001:db8:1:2:ffff::1]:99", "2001:db8:1:2::/64")
	f("[fe80::1%eth0]:99", "fe80::/64")
	f("[::1]:99", "::/64")
	f("@", "@") // a Unix socket: all behind it are one client
	f("", "")
}
