package rules_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/identity"
	seeding "github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/rules"
)

// warned returns the warnings of a file with one rule of that key and value, by
// the forms of the default resolver.
func warned(t *testing.T, key, value string) string {
	t.Helper()
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "r.yaml")
	write(t, file, fmt.Sprintf("domain: d\ndescriptors:\n  - {key: %q, value: %q, limit: 1/s, share_threshold: %t}\n",
		key, value, strings.Contains(value, "*")))
	set, errs := rules.Check([]string{file}, rules.Options{EntryForm: who.EntryForm})
	if set == nil {
		t.Fatalf("%s=%q: %s", key, value, errs)
	}
	return errs.Error()
}

// TestFamilyNeverMatches: a rule for a value that front ends never write is
// warned of, and one for a value that they do write is not.
func TestFamilyNeverMatches(t *testing.T) {
	f := func(want bool, key string, values ...string) {
		t.Helper()
		for _, v := range values {
			if got := warned(t, key, v); (got != "") != want {
				t.Errorf("%s=%q: warned: %t, want %t: %s", key, v, got != "", want, got)
			}
		}
	}
	f(false, "path", "/", "/login", "/a/b.json", "/v1/*", "*", "*.php", "/a/~x", "/%C3%A9", "/a=b,c", "/x.*")
	f(true, "path", "login", "/login/", "//login", "/a/./b", "/a/../b", "/%6cogin", "/%c3%a9", "/é", "/a;v=1", "/a\\\\b", "/a b", "/a?b", "/a*/",
		"/users/{id}", "/users/:id", "/<id>", "^/a", "/a$", "/a/[a-z]+", "/(a|b)", "/a/.*", "/a.+", "http://h/a", "/a#b")
	f(false, "method", "GET", "POST", "PATCH", "P*", "PROPFIND")
	f(true, "method", "get", "Post", "HEAD", "GET,POST", "GET|POST", "GET ", "ANY THING")
	f(false, "host", "example.com", "*.example.com", "localhost", "10.0.0.1", "unknown", "a_b.example")
	f(true, "host", "Example.com", "example.com:443", "example.com.", "https://example.com", "example.com/x", "*.Example.com", "ex ample.com")
	f(false, "remote_address", "10.0.0.1", "10.0.0.*", "2001:db8::/64", "unknown")
	f(true, "remote_address", "10.0.0", "10.0.0.0/8", "10.0.0.1/32", "2001:db8::1", "2001:db8::/32", "2001:DB8::/64", "::ffff:10.0.0.1", "localhost",
		"010.0.0.1", "10.0.0.256", "2001:db8::1/64")
	f(false, "remote_address/24", "10.0.0.0/24")
	f(true, "remote_address/24", "10.0.0.1", "10.0.0.0/16", "10.0.0")
	f(false, "header:X-Tenant", "acme", "a b", "v1.*", "Acme")
	f(true, "header:X-Tenant", " acme", "{acme}", "^acme")
	f(false, "user", "ann@example.com", "a.b*", "$ann", "v1.*", "bob+tag@example.com", "auth0|7", "*.*")
	f(true, "user", ".*@example.com", "(ann|bob)", "ann-.*", "^ann", "a\\.b", "{id}", "[a-z]+", "ann ", ".*")
	f(true, "tier", "^pro", "{tier}", " pro")
	f(true, "query:q", "a.+", "{q}", "\\d")
	f(false, "cookie:sid", "s1", "a=b", "s*")
	f(true, "cookie:sid", "\"s1\"", "s1;t=2", " s1", "^s1")
	f(false, "client", "user:ann", "api_key:*", "address:10.0.0.1", "*", "u*", "user:*", "*ann")
	f(true, "client", "ann", "10.0.0.1", "users:ann", "ann*", "user")
	f(false, "remote_address", "10.*", "2001:db8:*", "*")
	f(true, "remote_address", "2001:DB8:*", "10.0.0.x*", "10.0.*-10.1.*", "10.0.0.1-10.0.0.9", "10.0.0.1,10.0.0.2", "10.0.0.1:80", "10.0.0.0/255.0.0.0")
	f(false, "api_key", "k1") // where keys come from is not known
}

// TestFamilyNeverMatchesInLists: in allow and deny lists, overrides and the names of
// tiers a value or a key that no request has is warned of as in a rule.
func TestFamilyNeverMatchesInLists(t *testing.T) {
	who, err := identity.New(identity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := func(want bool, text string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "r.yaml")
		write(t, file, text)
		set, errs := rules.Check([]string{file}, rules.Options{EntryForm: who.EntryForm})
		if set == nil || (len(errs) > 0) != want {
			t.Errorf("%swarned: %t, want %t: %s", text, len(errs) > 0, want, errs)
		}
	}
	for key, values := range map[string][2][]string{
		"remote_address":    {{"10.0.0.1"}, {"10.0.0", "10.0.0.256", "2001:DB8:*", "localhost"}},
		"remote_address/24": {{"10.0.0.0/24"}, {"10.0.0"}},
		"path":              {{"/login"}, {"login", "/users/{id}", "^/a", "/Login/", "/a?b"}},
		"method":            {{"GET"}, {"get", "GET|POST", "HEAD"}},
		"host":              {{"a.example"}, {"A.example", "a.example:80", "https://a.example"}},
		"client":            {{"user:ann"}, {"ann"}},
		"user":              {{"ann"}, {"^ann", ".*@a.example"}},
		"cookie:sid":        {{"s1"}, {"s1;"}},
		"header:X-Plan":     {{"pro"}, {"(pro|free)"}},
	} {
		for i, all := range values {
			for _, v := range all {
				f(i == 1, fmt.Sprintf("domain: d\ndeny: {%q: [%q]}\ndescriptors: [{key: user, limit: 1/s}]\n", key, v))
				f(i == 1, fmt.Sprintf("domain: d\nallow: {%q: [%q]}\ndescriptors: [{key: user, limit: 1/s}]\n", key, v))
				f(i == 1, fmt.Sprintf("domain: d\ndescriptors: [{key: %q, limit: 1/s, deny: [%q]}]\n", key, v))
				f(i == 1, fmt.Sprintf("domain: d\ndescriptors: [{key: %q, limit: 1/s, allow: [%q]}]\n", key, v))
				f(i == 1, fmt.Sprintf("domain: d\ndescriptors: [{key: %q, limit: 1/s, overrides: {%q: 9/s}}]\n", key, v))
				f(i == 1, fmt.Sprintf("domain: d\ndescriptors: [{key: tenant, limit: 1/s, tiers: {by: %q, limits: {%q: 9/s}}}]\n", key, v))
				f(i == 1, fmt.Sprintf("domain: d\ndescriptors: [{key: tenant, descriptors: [{key: %q, value: %q, limit: 1/s, share_threshold: %t}]}]\n", key, v, strings.Contains(v, "*")))
			}
		}
	}
	for _, key := range []string{"ip", "teir", "headers:X-A", "header:", "cookie", "remote_address/200", "header:X(A", "path/method"} {
		f(true, fmt.Sprintf("domain: d\ndeny: {%q: [v]}\ndescriptors: [{key: user, limit: 1/s}]\n", key))
		f(true, fmt.Sprintf("domain: d\nallow: {%q: [v]}\ndescriptors: [{key: user, limit: 1/s}]\n", key))
		f(true, fmt.Sprintf("domain: d\ndescriptors: [{key: user, limit: 1/s, tiers: {by: %q, limits: {v: 9/s}}}]\n", key))
		f(true, fmt.Sprintf("domain: d\ndescriptors: [{key: user, descriptors: [{key: %q, limit: 1/s}]}]\n", key))
	}
}

// Where API keys are configured, a rule for a key as it is sent is warned of: it is
// counted by what stands for it.
func TestAPIKeysAreNotNamedAsSent(t *testing.T) {
	who, err := identity.New(identity.Options{APIKey: identity.APIKeyOptions{From: []string{"header:X-API-Key"}}})
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]bool{"k1": true, strings.Repeat("0a", 16): false, strings.Repeat("0A", 16): true, "0a*": false} {
		file := filepath.Join(t.TempDir(), "r.yaml")
		write(t, file, fmt.Sprintf("domain: d\ndescriptors: [{key: api_key, limit: 1/s, overrides: {%q: 9/s}}]\n", value))
		set, errs := rules.Check([]string{file}, rules.Options{EntryForm: who.EntryForm})
		if set == nil || (len(errs) > 0) != want {
			t.Errorf("%q: warned: %t, want %t: %s", value, len(errs) > 0, want, errs)
		}
	}
}

// TestFamilyNearMisses: a key that is nearly a source, by a letter, by case, by
// punctuation or by another word for it, is warned of with the source; a key of
// one's own is not.
func TestFamilyNearMisses(t *testing.T) {
	f := func(key, want string) {
		t.Helper()
		got := warned(t, key, "v")
		if key == "path" || strings.HasSuffix(want, "path") || strings.HasSuffix(want, "remote_address") {
			got = warned(t, key, "/v")
		}
		if want == "" && strings.Contains(got, "by itself") || want != "" && !strings.Contains(got, fmt.Sprintf("did you mean %q", want)) {
			t.Errorf("%s: want %q: %s", key, want, got)
		}
	}
	for _, source := range []string{"remote_address", "user", "api_key", "tier", "client_id", "method", "path", "host", "header:X-A", "cookie:a", "query:a"} {
		f(source, "")
	}
	f("ip", "remote_address")
	f("clientid", "client_id")
	f("clientId", "client_id")
	f("client-id", "client_id")
	f("apikey", "api_key")
	f("API_KEY", "api_key")
	f("users", "user")
	f("User", "user")
	f("paht", "path")
	f("methd", "method")
	f("hots", "host")
	f("url", "path")
	f("headers:X-A", "header:X-A")
	f("Header:X-A", "header:X-A")
	f("header.X-A", "header:X-A")
	f("cokie:a", "cookie:a")
	f("ip/24", "remote_address/24")
	// Another word for a source is not one that it is a letter away from, which no
	// request may have.
	for _, ip := range []string{"client_ip", "clientIP", "client-ip", "real_ip", "x-real-ip", "x-forwarded-for", "X_Forwarded_For", "forwarded_for", "user_ip",
		"src_ip", "peer_address", "remote_ip", "ip_addr"} {
		f(ip, "remote_address")
	}
	f("client_ip/24", "remote_address/24")
	f("claim:sub", "jwt:sub")
	f("claims:sub", "jwt:sub")
	f("request_uri", "path")
	f("request_method", "method")
	f("header", "header:NAME")
	f("Cookie", "cookie:NAME")
	f("query:", "query:NAME")
	f("ost", "host")
	f("ser", "user")
	f("ath", "path")
	f("xpath", "path")
	f("tuser", "user")
	for _, own := range []string{"tenant", "plan", "cost", "post", "region", "order", "k", "id", "x:y", "svc/method", "tenant.id", "user.id", "a.b.c", "a.b/c", "-.inf"} {
		f(own, "")
	}
	for _, key := range []string{"path/method", "method,path", "path+method", "path method", "user|api_key", "remote_address/33x", "remote_address/0",
		"remote_address/user", "header:X A", "cookie:a(b"} {
		if got := warned(t, key, "v"); !strings.Contains(got, "is not one entry") && !strings.Contains(got, "no front end sends") {
			t.Errorf("%s: %s", key, got)
		}
	}
	// Any one letter left out, changed, doubled or swapped.
	r := rand.New(rand.NewPCG(1, 2))
	for _, source := range []string{"remote_address", "api_key", "client_id", "method"} {
		for range 50 {
			i := 1 + r.IntN(len(source)-1)
			b := []byte(source)
			switch r.IntN(4) {
			case 0:
				b = append(b[:i], b[i+1:]...)
			case 1:
				b[i] = 'z'
			case 2:
				b = append(b[:i], append([]byte{b[i]}, b[i:]...)...)
			case 3:
				b[i], b[i-1] = b[i-1], b[i]
			}
			if string(b) != source {
				f(string(b), source)
			}
		}
	}
}

// TestFamilyOddKeys: keys of any signs are read, as keys and in lists.
func TestFamilyOddKeys(t *testing.T) {
	r := rand.New(rand.NewPCG(seeding.Of(t), 3))
	parts := []string{"remote_address", "user", "header", "path", "a", "b", "1", ".", "/", ":", "-", "_", " ", "=", "#", "[", "é"}
	for range 2000 {
		key := ""
		for range 1 + r.IntN(6) {
			key += parts[r.IntN(len(parts))]
		}
		file := fmt.Appendf(nil, "domain: d\ndeny: {%q: [x]}\ndescriptors:\n  - {key: %q, limit: 1/hour}\n", key, key)
		if _, err := rules.Parse("api.yaml", file, rules.Options{}); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// TestFamilySuggestionsNeverWeaken: a mode that others know by another word is
// never answered by one that does something else: who wants to watch is not told
// to enforce, who wants to enforce is not told to watch.
func TestFamilySuggestionsNeverWeaken(t *testing.T) {
	f := func(setting, want string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "r.yaml")
		write(t, file, "domain: d\ndescriptors:\n  - {key: k, limit: 10/s, "+setting+"}\n")
		_, errs := rules.Check([]string{file}, rules.Options{})
		if text := errs.Error(); !strings.Contains(text, want) {
			t.Errorf("%s: want %q: %s", setting, want, text)
		}
	}
	for _, watch := range []string{"warn", "log", "monitor", "observe", "report", "audit", "dry_run", "dryrun", "dry-run", "Warn"} {
		f("mode: "+watch, `did you mean "shadow"`)
	}
	for _, enforce := range []string{"enforce", "block", "reject", "strict"} {
		f("mode: "+enforce, `did you mean "hard"`)
	}
	f("mode: hrad", `did you mean "hard"`)
	f("mode: shadwo", `did you mean "shadow"`)
	f("mode: sort", "did you mean \"soft\"")
	f("mode: nothing", "choose one of")
	f("mode: card", `did you mean "hard"`)
	f("mode: wart", "choose one of")
	f("soft: 10%", "write mode: soft, exceed: 10%")
	f("soft: 25%", "write mode: soft, exceed: 25%")
	f("soft: true", "write mode: soft, exceed: 10%")
	f("shadow: true", "write mode: shadow")
	f("dry_run: true", "write mode: shadow")
	f("hard: true", "write mode: hard")
	f("elastic: true", "write mode: elastic")
	f("on_store_error: open", `did you mean "allow"`)
	f("on_store_error: fail_open", `did you mean "allow"`)
	f("on_store_error: closed", `did you mean "deny"`)
	f("on_store_error: fail-closed", `did you mean "deny"`)
	for _, everywhere := range []string{"global", "shared", "strong", "exact", "Global"} {
		f("consistency: "+everywhere, `did you mean "strict"`)
		f("consistency: {mode: "+everywhere+"}", `did you mean "strict"`)
	}
	f("consistency: node", `did you mean "local"`)
	f("consistency: eventually", `did you mean "eventual"`)
	f("whitelist: [a]", `did you mean "allow"`)
	f("blacklist: [a]", `did you mean "deny"`)
}

// The cure of a value that never matches is one that does: a method is no part of a
// path, and a range of addresses belongs into a list.
func TestNeverMatchesCure(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"path", "login", "(write /login)"},
		{"path", "POST /login", "the method is no part of the path (write the path alone; the method is an entry of its own, key: method)"},
		{"path", "GET|POST /login", "the method is an entry of its own"},
		{"path", "~ ^/login", "it looks like a regular expression"},
		{"path", "~* /login", "it looks like a regular expression"},
		{"remote_address", "10.0.0.0/8", "(put it into allow: or deny:, which know CIDR)"},
		{"remote_address/24", "10.0.0.0/16", "(put it into allow: or deny:, which know CIDR)"},
		{"remote_address", "2001:db8::1", "(write 2001:db8::/64)"},
	} {
		if got := warned(t, c.key, c.value); !strings.Contains(got, c.want) {
			t.Errorf("%s=%q: no %q in: %s", c.key, c.value, c.want, got)
		}
	}
}

// TestPoolsThatNeverLend: a pool that has no more than one of its borrowers is assured, all of
// which is charged to it, is warned of.
func TestPoolsThatNeverLend(t *testing.T) {
	for pool, want := range map[string]bool{"30/minute": true, "100/minute": true, "101/minute": false, "6000/hour": false} {
		warnings := warningsOf(t, "domain: api\npools: {spare: "+pool+"}\ndescriptors:\n  - {key: user, limit: {limit: 100/minute, mode: elastic, pool: spare}}\n")
		if got := strings.Contains(fmt.Sprint(warnings), "never lends"); got != want {
			t.Errorf("%s: warned: %t, want %t: %v", pool, got, want, warnings)
		}
	}
}
