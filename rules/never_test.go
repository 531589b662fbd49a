package rules_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/identity"
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
	f(false, "user", "ann@example.com", "a.b*", "$ann")
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
	for _, own := range []string{"tenant", "plan", "cost", "region", "order", "k", "id", "x:y", "svc/method"} {
		f(own, "")
	}
	// Any one letter left out, changed, doubled or swapped.
	r := rand.New(rand.NewPCG(1, 2))
	for _, source := range []string{"remote_address", "api_key", "client_id", "method"} {
		for range 50 {
			i := 1 + r.IntN(len(source)-2)
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
	f("whitelist: [a]", `did you mean "allow"`)
	f("blacklist: [a]", `did you mean "deny"`)
}
