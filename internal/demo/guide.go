package demo

import (
	"fmt"
	"strings"
)

// guide says what runs where and what to look at.
type guide struct{ dashboard, gateway, upstream, rules string }

// String returns it for a terminal.
func (g guide) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, `
A gateway with limits, a shop behind it, and made-up clients. The hour before now was
played in advance, as a verdict on a client needs some minutes of what it did.

  dashboard  %s/ui/
  gateway    %s  ->  %s
  limits     %s  (change a number: it applies at once)

Look first at who is throttled, what each is taken for, and why:

  %s/ui/clients

`, g.dashboard, g.gateway, g.upstream, g.rules, g.dashboard)
	for _, c := range [...]struct{ address, does, verdict string }{
		{officeAddress, "24 people in one office", "shared address"},
		{scriptAddress, "a script that does not wait when it is refused", "runaway client"},
		{fmt.Sprintf("198.51.100.%d-%d", guesserFrom, guesserFrom+4), "guess passwords at /login", "abusive"},
		{"2001:db8:5c::/64", "takes every page of the shop", "abusive"},
		{partnerAddress, "a partner at its limit, who waits", "likely legitimate"},
		{"192.0.2.60-65", "came for a sale and left", "likely legitimate"},
		{"192.0.2.10-24", "people who read the shop", "never refused"},
	} {
		fmt.Fprintf(&b, "  %-19s  %-47s  %s\n", c.address, c.does, c.verdict)
	}
	fmt.Fprintf(&b, `
Try it as one more client: the first 10 logins get 200, the others 429.

  curl -s -o /dev/null -w '%%{http_code}\n' -H 'X-Forwarded-For: 192.0.2.99' '%s/login?try=[1-15]'

Ctrl-C ends the demo and removes its files.
`, g.gateway)
	return b.String()
}
