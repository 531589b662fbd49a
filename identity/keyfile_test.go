package identity_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"go.yaml.in/yaml/v3"
)

func keyFile(t testing.TB, name, text string) *identity.KeyFile {
	t.Helper()
	f, err := identity.LoadKeys(write(t, name, text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// withKey is a request with an API key.
func withKey(key string) identity.Facts {
	return identity.Facts{Peer: netip.MustParseAddr("192.0.2.1"), Header: http.Header{"X-Api-Key": {key}}}
}

func TestKeyFile(t *testing.T) {
	rows := []struct{ key, user, tier string }{{"k1", "acme", "gold"}, {"k2", "", "silver"}, {"k3", "bob", ""}, {"", "bob", "bronze"}}
	var y, c strings.Builder
	c.WriteString("# keys\nsha256, user, tier\n")
	for _, r := range rows {
		sum := ""
		if r.key != "" {
			sum = sha256Hex(r.key)
		}
		fmt.Fprintf(&y, "- {sha256: %q, user: %q, tier: %q}\n", sum, r.user, r.tier)
		fmt.Fprintf(&c, "%s,%s,\"%s\"\n", strings.ToUpper(sum), r.user, r.tier)
	}
	for name, text := range map[string]string{"keys.yaml": y.String(), "keys.CSV": c.String()} {
		file := keyFile(t, name, text)
		if keys, users := file.Len(); keys != 3 || users != 1 {
			t.Errorf("%s: %d keys, %d users", name, keys, users)
		}
		r := newResolver(t, identity.Options{
			APIKey: identity.APIKeyOptions{From: []string{"header:X-API-Key"}, Secret: identity.Secret("0123456789abcdef")},
			Keys:   file, User: []string{"api_key"}, Tier: []string{"keys"},
		})
		f := func(user, tier, client, key string) {
			t.Helper()
			got := [3]string{valueOf(t, r, "user", withKey(key)), valueOf(t, r, "tier", withKey(key)), valueOf(t, r, "client", withKey(key))}
			if got != [3]string{user, tier, client} {
				t.Errorf("%s: %s: %q", name, key, got)
			}
		}
		f("acme", "gold", "user:acme", "k1")
		f("", "silver", "api_key:"+valueOf(t, r, "api_key", withKey("k2")), "k2")
		f("bob", "bronze", "user:bob", "k3")
		f("", "", "address:192.0.2.1", "k4")
		f("", "", "address:192.0.2.1", "")
		if valueOf(t, r, "api_key", withKey("k4")) != "" || len(valueOf(t, r, "api_key", withKey("k2"))) != 32 {
			t.Error("api_key")
		}
	}
}

func TestKeyFileFaults(t *testing.T) {
	sum := sha256Hex("k")
	for text, want := range map[string]string{
		"- sha256: " + sum + "\n  teir: gold":                      `keys.yaml:1: unknown key "teir" (did you mean "tier"?)`,
		"- {user: a, tier: x}\n- user: a\n  tier: y":               `keys.yaml:2: user "a" has a tier in line 1 already`,
		"- sha256: " + sum + "\n- sha256: " + strings.ToUpper(sum): "keys.yaml:2: the same key is in line 1 already",
		"- sha256: my-plain-key":                                   "keys.yaml:1: sha256 has 12 characters, not 64",
		"- sha256: " + strings.Repeat("x", 64):                     "keys.yaml:1: sha256 is not hexadecimal",
		"- tier: gold":                                             "keys.yaml:1: a user and a tier are needed",
		"- user: a":                                                "keys.yaml:1: a user and a tier are needed",
		"- {user: a, user: b, tier: x}":                            `keys.yaml:1: key "user" is there twice`,
		"- {user: [a], tier: x}":                                   "keys.yaml:1: a key and a single value",
		"- {user: &a b, tier: *a}":                                 "keys.yaml:1: a key and a single value",
		"keys: []":                                                 "keys.yaml:1: a list is needed",
		"- x":                                                      "keys.yaml:1: a block with",
		"- {user: a, tier: b}\n---\n- {user: c, tier: d}":          "more than one YAML document",
		"- {user: a, tier: \"x\\0\"}":                              "keys.yaml:1: tier must have at most",
		"- {user: " + strings.Repeat("u", 129) + ", tier: x}":      "keys.yaml:1: user must have at most",
		"- {user: a, tier: " + strings.Repeat("t", 65) + "}":       "keys.yaml:1: tier must have at most",
		"- [":                                   "keys.yaml: yaml:",
		"csv:sha256,user,user\n":                `keys.csv:1: column "user" is there twice`,
		"csv:sha256,user,plan\n" + sum + ",a,b": "keys.csv:1: the first line must name the columns, separated by commas, of sha256, user, tier",
		"csv:user,tier\na,b\nc\n":               "keys.csv:3: wrong number of fields",
		"csv:user,tier\n\"a,b\n":                "keys.csv:",
		"csv:user,tier\na,b\n\n# x\na,c\n":      `keys.csv:5: user "a" has a tier in line 2 already`,
	} {
		name := "keys.yaml"
		if rest, ok := strings.CutPrefix(text, "csv:"); ok {
			name, text = "keys.csv", rest
		}
		_, err := identity.LoadKeys(write(t, name, text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		} else if strings.Contains(err.Error(), "my-plain-key") {
			t.Errorf("a key is told: %v", err)
		}
	}
	if _, err := identity.LoadKeys("/nowhere/keys.yaml"); err == nil {
		t.Error("no file, and no error")
	}
	big := write(t, "keys.csv", "")
	if err := os.Truncate(big, 64<<20+1); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.LoadKeys(big); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("64 MiB and one byte: %v", err)
	}
	for name, text := range map[string]string{"nobody.yaml": "[]", "nobody.csv": "sha256,tier\n"} {
		if keys, users := keyFile(t, name, text).Len(); keys+users != 0 {
			t.Errorf("%s has keys", name)
		}
	}
}

// TestKeyFileReload: a changed file counts from the next look on, a broken one
// changes nothing and is told once.
func TestKeyFileReload(t *testing.T) {
	path := write(t, "keys.yaml", "- {user: alice, tier: gold}")
	file, err := identity.LoadKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	r := newResolver(t, identity.Options{
		Proxies: identity.ProxyOptions{Unix: true}, Keys: file, APIKey: identity.APIKeyOptions{From: []string{"bearer"}},
		User: []string{"header:X-User"}, Tier: []string{"keys"},
	})
	tier := func() string {
		return valueOf(t, r, "tier", identity.Facts{Header: http.Header{"X-User": {"alice"}}})
	}
	save := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bubble.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var told []error
		go file.Watch(ctx, time.Minute, func(err error) { told = append(told, err) })
		f := func(want string, errs int) {
			t.Helper()
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			if got := tier(); got != want || len(told) != errs {
				t.Errorf("tier %q, not %q, told %v", got, want, told)
			}
		}
		f("gold", 0)
		save("- {user: alice, tier: silver}")
		f("silver", 0)
		save("- {user: alice, teir: bronze}")
		f("silver", 1)
		save("- {user: alice")
		f("silver", 2)
		save("[]")
		f("", 2)
	})
}

// TestSecretsAreNotTold is group 11 of the threats: neither keys nor secrets
// can be read from what is written about them.
func TestSecretsAreNotTold(t *testing.T) {
	const key, secret = "my-plain-api-key-0001", "my-server-secret-32-bytes-long!!"
	opt := identity.Options{
		APIKey: identity.APIKeyOptions{From: []string{"header:X-API-Key"}, Secret: identity.Secret(secret)},
		JWT:    identity.JWTOptions{Secret: identity.Secret(secret)},
	}
	r := newResolver(t, opt)
	value := valueOf(t, r, "api_key", withKey(key))
	text, err := json.Marshal(opt.APIKey)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := yaml.Marshal(struct{ S identity.Secret }{opt.APIKey.Secret})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", opt.APIKey.Secret, "options", opt.APIKey)
	for _, s := range []string{
		value, string(text), string(doc), log.String(),
		fmt.Sprintf("%v %+v %#v", opt, opt, opt), fmt.Sprintf("%s %q %x %X %d", opt.APIKey.Secret, opt.APIKey.Secret, opt.APIKey.Secret, opt.APIKey.Secret, opt.APIKey.Secret),
	} {
		for _, hidden := range []string{key, secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%d", []byte(secret)), "bXktc2VydmVy"} {
			if strings.Contains(s, hidden) {
				t.Errorf("%s tells %s", s, hidden)
			}
		}
	}
	// The plain digest of a key could be looked up in a table.
	if strings.Contains(value, sha256Hex(key)[:32]) || len(value) != 32 {
		t.Error(value)
	}
}

func TestAPIKey(t *testing.T) {
	secret := identity.Secret("0123456789abcdef")
	resolver := func(s identity.Secret, from ...string) *identity.Resolver {
		return newResolver(t, identity.Options{APIKey: identity.APIKeyOptions{From: from, Secret: s}})
	}
	r := resolver(secret, "header:x-api-key", "bearer", "cookie:key", "query:key")
	want := valueOf(t, r, "api_key", withKey("k"))
	// printf k | openssl dgst -sha256 -hmac 0123456789abcdef
	if want != "e51aafa1d4392040fcc4f20192c9dad2" {
		t.Error(want)
	}
	for _, f := range []identity.Facts{
		{Header: http.Header{"Authorization": {"bearer k"}}}, {Header: http.Header{"Cookie": {"a=b; key=k"}}}, {Query: "key=%6b"},
		{Header: http.Header{"X-Api-Key": {" k "}, "Authorization": {"Basic other"}}}, {Header: http.Header{"X-Api-Key": {"k"}}, Query: "key=k"},
	} {
		if got := valueOf(t, r, "api_key", f); got != want {
			t.Errorf("%+v: %s", f, got)
		}
	}
	for _, f := range []identity.Facts{
		{}, {Header: http.Header{"Authorization": {"Basic k"}}}, {Header: http.Header{"Authorization": {"Bearer"}}},
		withKey(strings.Repeat("k", 513)),
	} {
		if got := valueOf(t, r, "api_key", f); got != "" {
			t.Errorf("%+v: %s", f, got)
		}
	}
	if got := valueOf(t, resolver(secret, "header:X-API-Key"), "api_key", withKey("k")); got != want {
		t.Error("two nodes with one secret count one key twice")
	}
	if a, b := valueOf(t, resolver(nil, "header:X-API-Key"), "api_key", withKey("k")), valueOf(t, resolver(nil, "header:X-API-Key"), "api_key", withKey("k")); a == b || a == want {
		t.Error("a random secret is not random")
	}
	// Without a file any text is a key: it must not stand for a client.
	if got := valueOf(t, r, "client", withKey("k")); got != "address:192.0.2.1" {
		t.Error(got)
	}
	for _, o := range []identity.Options{
		{APIKey: identity.APIKeyOptions{From: []string{"basic"}}}, {APIKey: identity.APIKeyOptions{From: []string{"header:a b"}}},
		{APIKey: identity.APIKeyOptions{From: []string{"bearer"}, Secret: secret[:15]}}, {Keys: keyFile(t, "k.yaml", "[]")},
		{User: []string{"api_key"}}, {Tier: []string{"keys"}}, {User: []string{"jwt:sub"}}, {User: []string{"cookie:sid"}}, {User: []string{"header:X-User"}}, {Tier: []string{"header:X-Tier"}},
	} {
		if _, err := identity.New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

func FuzzKeyFile(f *testing.F) {
	for _, s := range []string{"- {user: a, tier: b}", "- sha256: " + sha256Hex("k"), "sha256,user,tier\n,a,b\n", "a,a\n\"", "- &a [*a]", "? ? ?", "user,tier\n# x\n\na,b\r\n"} {
		f.Add(s)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range []string{"/k.yaml", "/k.csv"} {
			if err := os.WriteFile(dir+name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			file, err := identity.LoadKeys(dir + name)
			if err == nil {
				file.Len()
			} else if err.Error() == "" || file != nil {
				t.Fatal(file, err)
			}
		}
	})
}
