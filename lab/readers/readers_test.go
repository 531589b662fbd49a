package readers

import (
	"slices"
	"testing"

	"github.com/weirlimit/weir/identity"
)

// disagreement says how a server reads a request that passed otherwise than Weir counted
// it, "" where it does not.
func disagreement(c counted, r reading) string {
	if !slices.Contains(c.routes, r.Route) {
		return "another route"
	}
	for _, u := range r.users() {
		if !slices.Contains(c.users, u) {
			return "a user who was not counted"
		}
	}
	for _, a := range r.Accounts {
		if a != "" && identity.Fits(a) && !slices.Contains(c.accounts, a) {
			return "an account that was not counted"
		}
	}
	return ""
}

// TestReadersAgree replays what real servers read: they find what Weir counted.
func TestReadersAgree(t *testing.T) {
	d := openDoors(t)
	all := load(t)
	passed, found := 0, map[string]int{}
	for _, one := range all {
		c, passes := d.ask(one.request)
		if !passes {
			continue
		}
		passed++
		for text, servers := range one.by {
			r := readingOf(t, text)
			if what := disagreement(c, r); what != "" {
				t.Errorf("%q %q is counted by %+v: %v find %s: %s", one.request.target, one.request.fields, c, servers, what, text)
			}
			for _, s := range servers {
				found[s]++
			}
		}
	}
	if passed < len(all)/6 || passed > len(all)*5/6 {
		t.Errorf("%d of %d requests pass: that tries little", passed, len(all))
	}
	for _, r := range ordinary {
		if _, passes := d.ask(r); !passes {
			t.Errorf("%q is refused", r.head())
		}
	}
	t.Logf("%d of %d requests pass; served by %v", passed, len(all), found)
}
