package identity_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/identitytest"
)

// lists are rules that list their keys, a list a text with commas, by domain.
type lists map[string][]weir.KeyList

func (l lists) Match(dst []weir.Op, _ *weir.Request) []weir.Op { return dst }

func (l lists) KeyLists(domain string) []weir.KeyList { return l[domain] }

func (lists) Exempts(*weir.Request) bool { return false }

func (lists) Misspelt(*weir.Request) string { return "" }

func keyLists(texts ...string) []weir.KeyList {
	var all []weir.KeyList
	for _, t := range texts {
		all = append(all, weir.KeyList{Keys: strings.Split(t, ",")})
	}
	return all
}

// A plan of rules asks by the lists that have sources, follows them, and always has the
// client's address.
func TestRulePlan(t *testing.T) {
	r := identitytest.New(t, identity.Options{})
	rules := lists{"api": keyLists("path,remote_address", "method", "client_id", "user", "path,tenant", "header:X-A", "value:x", "param:id", "route")}
	p := r.RulePlan(rules, 2)
	ask := func(domain, want string) {
		t.Helper()
		c := r.Acquire()
		defer c.Release()
		c.Set(identity.Facts{Peer: netip.MustParseAddr("192.0.2.1"), Method: "GET", Path: "/x", Header: http.Header{}})
		req := weir.Request{Domain: domain}
		if err := p.Fill(&req, c); err != nil {
			t.Fatal(err)
		}
		if got := show(&req); got != want || req.Priority != 2 {
			t.Errorf("%s: got %q with priority %d, want %q", domain, got, req.Priority, want)
		}
	}
	address := "remote_address=192.0.2.1"
	ask("api", address+"; path=/x,remote_address=192.0.2.1; method=GET")
	ask("other", address)
	rules["api"] = keyLists("remote_address", "path")
	ask("api", address+"; path=/x")
	ask("api", address+"; path=/x")
	rules["api"], rules["other"] = nil, keyLists("method")
	ask("api", address)
	ask("other", address+"; method=GET")
	if p.Evadable() {
		t.Error("a plan with the address is evadable")
	}
	if got := fill(t, r.RulePlan(weir.Limits{}, 0), acquire(r)); got != address {
		t.Errorf("rules that list nothing are asked by %q", got)
	}
	for key, want := range map[string]string{"path": "", "client_id": "unknown source", "pth": `did you mean "path"?`,
		"user": "identity.user", "value:x": "is a value", "param:id": "belongs to no route", "route": "belongs to none"} {
		err := r.Unknown(key)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", key, err, want)
		}
	}
}

// acquire returns a caller of a request that is GET /x.
func acquire(r *identity.Resolver) *identity.Caller {
	c := r.Acquire()
	c.Set(identity.Facts{Peer: netip.MustParseAddr("192.0.2.1"), Method: "GET", Path: "/x", Header: http.Header{}})
	return c
}

// Of a connection only the peer is known: nothing else is made up.
func TestRulePlanOfConnection(t *testing.T) {
	r := identitytest.New(t, identity.Options{})
	p := r.RulePlan(lists{"api": keyLists("path", "host,remote_address", "remote_address/24", "client")}, 0)
	c := r.Acquire()
	defer c.Release()
	c.Set(identity.Facts{Peer: netip.MustParseAddr("192.0.2.1")})
	req := weir.Request{Domain: "api"}
	if err := p.FillConnection(&req, c); err != nil {
		t.Fatal(err)
	}
	if got, want := show(&req), "remote_address=192.0.2.1; remote_address/24=192.0.2.0/24; client=address:192.0.2.1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A list of more keys than a descriptor has is not asked, and stops nothing.
func TestRulePlanOfLongLists(t *testing.T) {
	r := identitytest.New(t, identity.Options{})
	long := strings.TrimSuffix(strings.Repeat("path,", identity.MaxRuleKeys), ",")
	p := r.RulePlan(lists{"api": keyLists(long+",method", long)}, 0)
	c := acquire(r)
	defer c.Release()
	req := weir.Request{Domain: "api"}
	if err := p.Fill(&req, c); err != nil {
		t.Fatal(err)
	}
	if n := len(req.Descriptors); n != 2 || len(req.Descriptors[1].Entries) != identity.MaxRuleKeys {
		t.Errorf("%d descriptors: %q", n, show(&req))
	}
}
