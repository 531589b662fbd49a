package rules_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/rules"
)

// TestExamples: every example loads without a warning, each on its own, and
// the requests in their comments meet what the comments say.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	if _, errs := rules.Check([]string{"../examples"}, rules.Options{}); len(errs) > 0 {
		t.Errorf("all together: %s", errs)
	}
	sets := map[string]*limits.Set{}
	for _, file := range files {
		set, errs := rules.Check([]string{file}, rules.Options{})
		if len(errs) > 0 {
			t.Errorf("%s", errs)
		}
		sets[strings.TrimSuffix(filepath.Base(file), ".yaml")] = set
	}
	f := func(example, domain, want string, descriptors ...string) {
		t.Helper()
		var got []string
		for _, o := range sets[example].Match(nil, request(domain, descriptors...)) {
			got = append(got, opName(o.Role)+o.Limit.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v: got %s, want %s", example, descriptors, strings.Join(got, " "), want)
		}
	}
	f("rules", "api", "client_id", "client_id=123")
	f("auth", "auth", "auth_type login", "auth_type=login")
	f("public-api", "public-api", "client_id of plan free shadow:remote_address", "client_id=x plan=free", "remote_address=203.0.113.7")
	f("public-api", "public-api", "client_id per minute of plan pro pro_daily", "client_id=x plan=pro")
	f("public-api", "public-api", "client_id of acme", "client_id=acme plan=pro")
	f("public-api", "public-api", "", "client_id=x plan=enterprise")
	f("public-api", "public-api", "deny:deny remote_address", "client_id=x", "remote_address=198.51.100.1")
	f("public-api", "public-api", "", "client_id=x", "remote_address=10.9.9.9")
	f("login", "login", "logins ban:address_minute ban address_minute address_hour account",
		"auth_type=login", "remote_address=203.0.113.7", "account=alice")
	f("login", "login", "logins known_device", "auth_type=login", "known_device=alice")
	f("flash-sale", "shop", "buyer own:buyer pool:shop", "buyer=1")
	f("flash-sale", "shop", "provider", "provider=p")
	f("llm-tokens", "llm", "tokens requests model", "api_key=k1", "model=m")
	f("llm-tokens", "llm", "team_tokens team_requests", "api_key=k1 plan=team")
	f("llm-tokens", "llm", "in_flight", "in_flight=k1")
	f("llm-tokens", "llm", "in_flight of plan team", "in_flight=k1 plan=team")
	if l := sets["rules"].Limits()[0]; l.Count != 1 || l.Period.Seconds() != 1 || l.Burst != 1000 || l.Algorithm.Name() != "leaky_bucket" {
		t.Errorf("examples/rules.yaml: %+v", l)
	}
}
