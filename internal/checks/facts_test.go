package checks

import (
	"testing"

	"github.com/weirlimit/weir"
)

func TestFacts(t *testing.T) {
	f := func(want string, entries ...string) {
		t.Helper()
		r := &weir.Request{Descriptors: make([]weir.Descriptor, 2)}
		for i := 0; i < len(entries); i += 2 {
			d := &r.Descriptors[i/2%2]
			d.Entries = append(d.Entries, weir.Entry{Key: entries[i], Value: entries[i+1]})
		}
		told := Facts(r)
		addr := ""
		if a := told.Address(); a.IsValid() {
			addr = a.String()
		}
		if got := addr + " " + told.Method() + " " + told.Host() + " " + told.Path() + " " + told.User() + " " + told.Tier() + " " + told.Agent(); got != want {
			t.Errorf("%q: got %q, want %q", entries, got, want)
		}
	}
	f("      ")
	f("      ", "client_id", "42")
	f("203.0.113.7 POST a.example /x ann gold curl/8", "remote_address", "::ffff:203.0.113.7", "method", "POST", "host", "a.example", "path", "/x?secret=1",
		"user", "ann", "tier", "gold", "user_agent", "curl/8")
	f("fe80::1      ", "remote_address", "fe80::1%eth0", "remote_address", "192.0.2.1")
	f("      ", "remote_address", "somebody")
}
