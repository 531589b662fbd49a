package limits_test

import (
	"testing"

	"github.com/weirlimit/weir"
)

// Who stands on both lists of a domain is denied, whichever entry comes first.
func TestDenyComesBeforeAllow(t *testing.T) {
	s := parse(t, `domain: d
allow:
  ip: [10.0.0.0/8]
deny:
  user: [mallory]
descriptors:
  - {key: ip, limit: 5/s}
`)
	f := func(want int, descriptors ...string) {
		t.Helper()
		denied := 0
		for _, o := range s.Match(nil, request("d", descriptors...)) {
			if o.Role == weir.Deny {
				denied++
			}
		}
		if denied != want {
			t.Errorf("%q: denied by %d ops, want %d", descriptors, denied, want)
		}
	}
	f(0, "ip=10.0.0.1", "user=ann")
	f(1, "ip=10.0.0.1", "user=mallory")
	f(1, "ip=10.0.0.1 user=mallory")
	f(1, "user=mallory", "ip=10.0.0.1")
}
