package identity_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/rules"
	"github.com/weirlimit/weir/store/memory"
)

// limiter returns a limiter with rules on an embedded store.
func limiter(text string) *weir.Limiter {
	set, err := rules.Parse("rules.yaml", []byte(text), rules.Options{})
	if err != nil {
		panic(err)
	}
	l, err := weir.New(memory.New(memory.Options{}), set, weir.Options{})
	if err != nil {
		panic(err)
	}
	return l
}

// pass returns whether a request passes.
func pass(l *weir.Limiter, r *identity.Resolver, p *identity.Plan, f identity.Facts) bool {
	c := r.Acquire()
	defer c.Release()
	c.Set(f)
	req := l.Acquire()
	defer l.Recycle(req)
	req.Domain = "api"
	if err := p.Fill(req, c); err != nil {
		panic(err)
	}
	d, err := l.Decide(context.Background(), req)
	if err != nil {
		panic(err)
	}
	return d.Allowed()
}

// A customer has at least a /64 of IPv6, and often a /48 of 65,536 of them: a
// limit on each /64, and a coarser one above them.
func ExampleResolver_Plan_prefixes() {
	l := limiter(`
domain: api
descriptors:
- {key: remote_address, limit: 5/hour}
- {key: remote_address/48, limit: 20/hour}
`)
	r, err := identity.New(identity.Options{})
	if err != nil {
		panic(err)
	}
	p, err := r.Plan([]identity.Descriptor{
		{Entries: []identity.EntryFrom{{From: "remote_address"}}},
		{Entries: []identity.EntryFrom{{From: "remote_address/48"}}},
	})
	if err != nil {
		panic(err)
	}
	count := func(what, first string, step int) {
		a := netip.MustParseAddr(first).As16()
		passed := 0
		for i := range 1000 {
			a[step], a[step+1] = byte(i>>8), byte(i)
			if pass(l, r, p, identity.Facts{Peer: netip.AddrFrom16(a)}) {
				passed++
			}
		}
		fmt.Printf("%s: %d of 1000\n", what, passed)
	}
	count("one /64, an address each", "2001:db8:1:1::", 14)
	count("one /48, a /64 each", "2001:db8:2::", 6)
	count("a /48 each", "2001:db9::", 4)
	// Output:
	// one /64, an address each: 5 of 1000
	// one /48, a /64 each: 20 of 1000
	// a /48 each: 1000 of 1000
}

// Many users behind one address: who is logged in is limited as a user, and
// only strangers share the limit of the address.
func ExampleDescriptor_unless() {
	l := limiter(`
domain: api
descriptors:
- {key: remote_address, limit: 10/hour}
- {key: user, limit: 5/hour}
`)
	r, err := identity.New(identity.Options{
		Proxies: identity.ProxyOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Header: "X-Forwarded-For"},
		User:    []string{"header:X-User"},
	})
	if err != nil {
		panic(err)
	}
	p, err := r.Plan([]identity.Descriptor{
		{Entries: []identity.EntryFrom{{From: "remote_address"}}, Unless: "user"},
		{Entries: []identity.EntryFrom{{From: "user"}}},
	})
	if err != nil {
		panic(err)
	}
	count := func(what, peer string, user func(i int) string) {
		passed := 0
		for i := range 300 {
			h := http.Header{"X-Forwarded-For": {"203.0.113.7"}}
			if u := user(i); u != "" {
				h.Set("X-User", u)
			}
			if pass(l, r, p, identity.Facts{Peer: netip.MustParseAddr(peer), Header: h}) {
				passed++
			}
		}
		fmt.Printf("%s: %d of 300\n", what, passed)
	}
	count("100 users in one school", "10.0.0.1", func(i int) string { return fmt.Sprint("pupil", i%100) })
	count("1 of them goes on", "10.0.0.1", func(int) string { return "pupil7" })
	count("strangers in the school", "10.0.0.1", func(int) string { return "" })
	count("a stranger who names users", "198.51.100.9", func(i int) string { return fmt.Sprint("pupil", i) })
	// Output:
	// 100 users in one school: 300 of 300
	// 1 of them goes on: 2 of 300
	// strangers in the school: 10 of 300
	// a stranger who names users: 10 of 300
}
