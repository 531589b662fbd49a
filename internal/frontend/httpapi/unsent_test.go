package httpapi_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/testing/clocked"
	"github.com/weirlimit/weir/internal/testing/identitytest"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/rules"
)

const byAddress = `domain: api
descriptors:
  - {key: remote_address, limit: 1/hour}
  - {key: path, limit: 1/hour}
  - {key: method, limit: 1/hour}
`

// serveByAddress serves the rules of byAddress for a gateway that names clients as who
// does.
func serveByAddress(t *testing.T, who *identity.Resolver) *server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(byAddress), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := rules.Load([]string{file}, rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return serveRules(t, clocked.New(t), set, httpapi.Options{AdminToken: token, EntryForm: who.EntryForm})
}

// TestFamilyChangesReachTheClient: whatever address, range, path or method an operator
// names, in whatever spelling, for whatever widths of addresses: what is done to it holds
// for the client's own requests, or the answer warns that no front end is reached; what is
// taken back by the same name holds no more.
func TestFamilyChangesReachTheClient(t *testing.T) {
	n := 60
	if os.Getenv("WEIR_SOAK") == "1" {
		n = 1000
	}
	seed, seen := seeds.Of(t), map[bool]int{}
	for i := range n {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		who, err := identity.New(identity.Options{IPv4Prefix: []int{24, 28, 32, 0}[r.IntN(4)], IPv6Prefix: []int{48, 56, 64, 128, 0}[r.IntN(5)]})
		if err != nil {
			t.Fatal(err)
		}
		srv := serveByAddress(t, who)
		facts := identity.Facts{Peer: anyAddress(r), Method: []string{"get", "GET", "HEAD", "post"}[r.IntN(4)], Path: []string{"/a", "/a/", "/%61/", "/%61"}[r.IntN(4)], Host: "x"}
		key := []string{"remote_address", "remote_address", "path", "method"}[r.IntN(4)]
		named := map[string]string{"remote_address": spelling(r, facts.Peer), "path": facts.Path, "method": facts.Method}[key]
		c := &changed{t: t, srv: srv, key: key, entries: []weir.Entry{identitytest.EntryOf(t, who, key, facts)}, action: []string{"ban", "ban over the domain", "allow", "override"}[r.IntN(4)]}
		sure := true // that it holds
		if key == "remote_address" && r.IntN(2) == 0 {
			a := facts.Peer
			p := netip.PrefixFrom(a, r.IntN(a.BitLen())+1)
			if a.Is6() && p.Bits() < 96 && strings.Contains(c.entries[0].Value, ".") {
				p = netip.PrefixFrom(a, 96) // else it holds for clients of IPv6, and none of IPv4
			}
			if r.IntN(2) == 0 {
				p = p.Masked() // else it has bits beyond its length
			}
			named, sure = p.String(), false
		}
		what := fmt.Sprintf("case %d: %s %s %s, which front ends write as %s", i, c.action, key, named, c.entries[0].Value)
		warned := c.change(named, false)
		seen[warned]++
		if warned && sure {
			t.Fatalf("%s: it was warned of", what)
		}
		if holds := c.holds(); holds == warned {
			t.Fatalf("%s: holds: %v, warned of: %v", what, holds, warned)
		}
		if c.change(named, true); !warned && c.holds() {
			t.Fatalf("%s: it holds when it was taken back", what)
		}
	}
	if seen[true] < n/20 || seen[false] < n/2 {
		t.Errorf("of %d changes %d did not hold", n, seen[true])
	}
}

// TestUnsentValues: what no front end sends under any name is said so.
func TestUnsentValues(t *testing.T) {
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	srv := serveByAddress(t, who)
	for _, value := range []string{"192.0.2.0/24", "2001:db8::/48", "192.0.2"} {
		for action, more := range map[string]string{"ban": `,"seconds":60`, "allow": `,"seconds":60`, "override": `,"rate":"5/hour"`, "inspect": "", "reset": ""} {
			body := fmt.Sprintf(`{"descriptors":[{"entries":[{"key":"remote_address","value":%q}]}]%s}`, value, more)
			if res, text := exchange(t, "POST", srv.URL, "/v1/admin/"+action, body, bearer); res.StatusCode != 200 || strings.Count(text, "write no remote_address") != 1 {
				t.Errorf("%s %s: %d %s", action, value, res.StatusCode, text)
			}
		}
	}
}

// changed is something that an operator does to the client of some entries.
type changed struct {
	t           *testing.T
	srv         *server
	key, action string
	entries     []weir.Entry
}

// change does it to a name of the client, or takes it back, and reports whether the answer
// warns that no front end is reached.
func (c *changed) change(name string, isBack bool) bool {
	c.t.Helper()
	path, more := c.action, `,"seconds":3600`
	if isBack {
		more = `,"seconds":0`
	}
	switch {
	case c.action == "override" && isBack:
		more = `,"rate":"none"`
	case c.action == "override":
		more = `,"rate":"7/hour"`
	case c.action == "ban over the domain":
		path, more = "ban", more+`,"whole_domain":true`
	}
	body := fmt.Sprintf(`{"descriptors":[{"entries":[{"key":%q,"value":%q}]}]%s}`, c.key, name, more)
	res, text := exchange(c.t, "POST", c.srv.URL, "/v1/admin/"+path, body, bearer)
	var a struct {
		Warnings []string `json:"warnings"`
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil || res.StatusCode != 200 {
		c.t.Fatalf("%s: %d %s", body, res.StatusCode, text)
	}
	return len(a.Warnings) > 0
}

// holds reports whether what was done holds for the client.
func (c *changed) holds() bool {
	c.t.Helper()
	r := ask("api", c.entries)
	d, err := c.srv.lim.Decide(c.t.Context(), r)
	if err != nil {
		c.t.Fatal(err)
	}
	switch c.action {
	case "allow":
		for range 3 {
			if d, err = c.srv.lim.Decide(c.t.Context(), ask("api", c.entries)); err != nil {
				c.t.Fatal(err)
			}
		}
		return d.Allowed()
	case "override":
		return d.Limit.Count == 7
	}
	return !d.Allowed()
}

func anyAddress(r *rand.Rand) netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[8:], r.Uint64())
	switch r.IntN(4) {
	case 0:
		return netip.AddrFrom4([4]byte(b[12:]))
	case 1:
		copy(b[:], []byte{0x20, 0x02}) // 6to4
	case 2:
		copy(b[:], []byte{0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0}) // NAT64
	default:
		copy(b[:], []byte{0x20, 0x01, 0x0d, 0xb8})
	}
	return netip.AddrFrom16(b)
}

// spelling returns one of those of an address.
func spelling(r *rand.Rand, a netip.Addr) string {
	switch r.IntN(4) {
	case 0:
		return strings.ToUpper(a.String())
	case 1:
		return a.StringExpanded()
	case 2:
		if a.Is4() {
			return "::ffff:" + a.String()
		}
	}
	return a.String()
}
