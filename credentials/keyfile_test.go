package credentials_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/credentials"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/identitytest"
)

func TestKeyFile(t *testing.T) {
	rows := []struct{ key, user, tier string }{{"k1", "acme", "gold"}, {"k2", "", "silver"}, {"k3", "bob", ""}, {"", "bob", "bronze"}}
	var y, c strings.Builder
	c.WriteString("# keys\nsha256, user, tier\n")
	for _, r := range rows {
		sum := ""
		if r.key != "" {
			sum = identitytest.Digest(r.key)
		}
		fmt.Fprintf(&y, "- {sha256: %q, user: %q, tier: %q}\n", sum, r.user, r.tier)
		fmt.Fprintf(&c, "%s,%s,\"%s\"\n", strings.ToUpper(sum), r.user, r.tier)
	}
	for name, text := range map[string]string{"keys.yaml": y.String(), "keys.CSV": c.String()} {
		file := identitytest.Keys(t, name, text)
		r := identitytest.New(t, identity.Options{
			APIKey: identity.APIKeyOptions{From: []string{"header:X-API-Key"}, Secret: identity.Secret("0123456789abcdef")},
			Keys:   file, User: []string{"api_key"}, Tier: []string{"keys"},
		})
		f := func(user, tier, client, key string) {
			t.Helper()
			got := [3]string{identitytest.ValueOf(t, r, "user", identitytest.WithKey(key)), identitytest.ValueOf(t, r, "tier", identitytest.WithKey(key)), identitytest.ValueOf(t, r, "client", identitytest.WithKey(key))}
			if got != [3]string{user, tier, client} {
				t.Errorf("%s: %s: %q", name, key, got)
			}
		}
		f("acme", "gold", "user:acme", "k1")
		f("", "silver", "api_key:"+identitytest.ValueOf(t, r, "api_key", identitytest.WithKey("k2")), "k2")
		f("bob", "bronze", "user:bob", "k3")
		f("", "", "address:192.0.2.1", "k4")
		f("", "", "address:192.0.2.1", "")
		if identitytest.ValueOf(t, r, "api_key", identitytest.WithKey("k4")) != "" || len(identitytest.ValueOf(t, r, "api_key", identitytest.WithKey("k2"))) != 32 {
			t.Error("api_key")
		}
	}
}

func TestKeyFileFaults(t *testing.T) {
	sum := identitytest.Digest("k")
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
		"- {user: a, tier: b}\n---\n- {user: c, tier: d}":          "keys.yaml:2: a second document begins here",
		"- {user: a, tier: \"x\\0\"}":                              "keys.yaml:1: tier must have at most",
		"- {user: " + strings.Repeat("u", 129) + ", tier: x}":      "keys.yaml:1: user must have at most",
		"- {user: a, tier: " + strings.Repeat("t", 65) + "}":       "keys.yaml:1: tier must have at most",
		"- [":                                   "keys.yaml:1: not YAML:",
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
		_, err := credentials.LoadKeys(identitytest.Write(t, name, text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		} else if strings.Contains(err.Error(), "my-plain-key") {
			t.Errorf("a key is told: %v", err)
		}
	}
	if _, err := credentials.LoadKeys("/nowhere/keys.yaml"); err == nil {
		t.Error("no file, and no error")
	}
	big := identitytest.Write(t, "keys.csv", "")
	if err := os.Truncate(big, 64<<20+1); err != nil {
		t.Fatal(err)
	}
	if _, err := credentials.LoadKeys(big); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("64 MiB and one byte: %v", err)
	}
	for name, text := range map[string]string{"nobody.yaml": "[]", "nobody.csv": "sha256,tier\n"} {
		identitytest.Keys(t, name, text)
	}
}

// TestKeyFileReload: a changed file counts from the next look on, a broken one
// changes nothing and is told once.
func TestKeyFileReload(t *testing.T) {
	path := identitytest.Write(t, "keys.yaml", "- {user: alice, tier: gold}")
	file, err := credentials.LoadKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	r := identitytest.New(t, identity.Options{
		Proxies: identity.ProxyOptions{Unix: true}, Keys: file, APIKey: identity.APIKeyOptions{From: []string{"bearer"}},
		User: []string{"header:X-User"}, Tier: []string{"keys"},
	})
	tier := func() string {
		return identitytest.ValueOf(t, r, "tier", identity.Facts{Header: http.Header{"X-User": {"alice"}}})
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

func FuzzKeyFile(f *testing.F) {
	for _, s := range []string{"- {user: a, tier: b}", "- sha256: " + identitytest.Digest("k"), "sha256,user,tier\n,a,b\n", "a,a\n\"", "- &a [*a]", "? ? ?", "user,tier\n# x\n\na,b\r\n"} {
		f.Add(s)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range []string{"/k.yaml", "/k.csv"} {
			if err := os.WriteFile(dir+name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			file, err := credentials.LoadKeys(dir + name)
			if (err == nil) != (file != nil) || err != nil && err.Error() == "" {
				t.Fatal(file, err)
			}
		}
	})
}

// TestFamilyKeyFileHeaders: a table whose first line is not one of its columns is an
// error that names them, with rows and without; so is a file that is empty. Nobody is
// in a file only if it says so.
func TestFamilyKeyFileHeaders(t *testing.T) {
	sum := identitytest.Digest("k")
	for header, good := range map[string]bool{
		"sha256": true, "sha256,user": true, "user,tier": true, "tier, user": true, "sha256,user,tier": true, "\ufeffsha256,user,tier": true, "# keys\nsha256": true,
		"": false, "sha265": false, "key": false, "hash,user,tier": false, "SHA256,user,tier": false, "sha256,usr,tier": false, "sha256;user;tier": false,
		"sha256\tuser": false, "user": false, "tier": false, "sha256,user,tier,": false, "apikey,plan": false, "# keys": false, "\"": false, sum: false, sum + ",bob,gold": false,
	} {
		for _, rows := range []string{"", "\n", "\n# none\n"} {
			path := identitytest.Write(t, "keys.csv", header+rows)
			switch _, err := credentials.LoadKeys(path); {
			case (err == nil) != good:
				t.Errorf("%q: %v", header+rows, err)
			case err != nil && header != "\"" && !strings.Contains(err.Error(), "sha256, user, tier"):
				t.Errorf("%q: the columns are not named: %v", header+rows, err)
			case err != nil && strings.Contains(err.Error(), sum[:20]):
				t.Errorf("%q: a row is told: %v", header+rows, err)
			}
		}
	}
	for text, good := range map[string]bool{"[]": true, "[] # nobody": true, "": false, "\n": false, "# keys\n": false, "null": false, "~": false, "---\n": false, "{}": false, "''": false, "[{}]": false, "[[]]": false} {
		if _, err := credentials.LoadKeys(identitytest.Write(t, "keys.yaml", text)); (err == nil) != good || err != nil && !strings.Contains(err.Error(), "sha256") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
