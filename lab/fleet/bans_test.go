package fleet

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// A ban over the domain that one node is asked for holds on all that share the store, for
// each rule and for none, while the store is away too, and on a node that starts later;
// another node can lift it.
func TestFamilyDomainBansReachAllNodes(t *testing.T) {
	processes(t)
	redis := servertest.Redis(t)
	file := rules(t, "{key: user, limit: 1000/day}", "{key: ip, limit: 1000/day}")
	nodes := serveMany(t, 2, "redis://"+redis.Addr, file)
	post := func(url, body string) (string, bool) {
		t.Helper()
		res, err := client.Post(url, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text), res.StatusCode == http.StatusOK
	}
	ban := func(n *node, seconds int) bool {
		t.Helper()
		_, ok := post(n.admin+"/v1/admin/ban", fmt.Sprintf(`{"domain":%q,"descriptors":[{"entries":[{"key":"user","value":"ann"}]}],"seconds":%d,"whole_domain":true}`, domain, seconds))
		return ok
	}
	banned := func(n *node, descriptors string) bool {
		t.Helper()
		text, ok := post(n.http+"/v1/check", fmt.Sprintf(`{"domain":%q,"descriptors":[%s]}`, domain, descriptors))
		says := strings.Contains(text, `"banned":true`)
		if !ok || says == strings.Contains(text, `{"allowed":true`) {
			t.Errorf("%s: %s", descriptors, text)
		}
		return says
	}
	ann := []string{`{"entries":{"user":"ann"}}`, `{"entries":{"ip":"192.0.2.1"}},{"entries":{"user":"ann"}}`, `{"entries":{"of no rule":"x","user":"ann"}}`}
	all := func(n *node, want bool) bool {
		t.Helper()
		for _, d := range []string{`{"entries":{"user":"bob"}}`, `{"entries":{"ip":"192.0.2.1"}}`, `{"entries":{"ip":"ann"}}`} {
			if banned(n, d) {
				t.Errorf("%s is banned, and is not ann", d)
			}
		}
		for _, d := range ann {
			if banned(n, d) != want {
				return false
			}
		}
		return true
	}
	if !ban(nodes[0], 3600) {
		t.Fatal("the ban is refused")
	}
	for _, n := range nodes {
		servertest.Await(t, "the ban on each node", func() bool { return all(n, true) })
	}
	late := serve(t, "redis://"+redis.Addr, file)
	servertest.Await(t, "the ban on a node that starts later", func() bool { return all(late, true) })
	redis.Kill(t)
	for _, n := range nodes {
		if !all(n, true) {
			t.Error("the ban does not hold while the store is away")
		}
	}
	redis.Restart(t)
	servertest.Await(t, "the ban to be lifted by another node", func() bool { return ban(nodes[1], 0) })
	for _, n := range append(nodes, late) {
		servertest.Await(t, "the ban to be lifted on each node", func() bool { return all(n, false) })
	}
}
