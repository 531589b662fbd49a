package identity_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir/credentials"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/identitytest"
	"gopkg.in/yaml.v2"
)

// TestSecretsAreNotTold is group 11 of the threats: neither keys nor secrets
// can be read from what is written about them.
func TestSecretsAreNotTold(t *testing.T) {
	const key, secret = "my-plain-api-key-0001", "my-server-secret-32-bytes-long!!"
	opt := identity.Options{
		APIKey: identity.APIKeyOptions{From: []string{"header:X-API-Key"}, Secret: identity.Secret(secret)},
		Token:  identitytest.Tokens(t, credentials.JWTOptions{Secret: identity.Secret(secret)}),
	}
	r := identitytest.New(t, opt)
	value := identitytest.ValueOf(t, r, "api_key", identitytest.WithKey(key))
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
	if strings.Contains(value, identitytest.Digest(key)[:32]) || len(value) != 32 {
		t.Error(value)
	}
}

func TestAPIKey(t *testing.T) {
	secret := identity.Secret("0123456789abcdef")
	resolver := func(s identity.Secret, from ...string) *identity.Resolver {
		return identitytest.New(t, identity.Options{APIKey: identity.APIKeyOptions{From: from, Secret: s}})
	}
	r := resolver(secret, "header:x-api-key", "bearer", "cookie:key", "query:key")
	want := identitytest.ValueOf(t, r, "api_key", identitytest.WithKey("k"))
	// printf k | openssl dgst -sha256 -hmac 0123456789abcdef
	if want != "e51aafa1d4392040fcc4f20192c9dad2" {
		t.Error(want)
	}
	for _, f := range []identity.Facts{
		{Header: http.Header{"Authorization": {"bearer k"}}}, {Header: http.Header{"Cookie": {"a=b; key=k"}}}, {Query: "key=%6b"},
		{Header: http.Header{"X-Api-Key": {" k "}, "Authorization": {"Basic other"}}}, {Header: http.Header{"X-Api-Key": {"k"}}, Query: "key=k"},
	} {
		if got := identitytest.ValueOf(t, r, "api_key", f); got != want {
			t.Errorf("%+v: %s", f, got)
		}
	}
	for _, f := range []identity.Facts{
		{}, {Header: http.Header{"Authorization": {"Basic k"}}}, {Header: http.Header{"Authorization": {"Bearer"}}},
		identitytest.WithKey(strings.Repeat("k", 513)),
	} {
		if got := identitytest.ValueOf(t, r, "api_key", f); got != "" {
			t.Errorf("%+v: %s", f, got)
		}
	}
	if got := identitytest.ValueOf(t, resolver(secret, "header:X-API-Key"), "api_key", identitytest.WithKey("k")); got != want {
		t.Error("two nodes with one secret count one key twice")
	}
	if a, b := identitytest.ValueOf(t, resolver(nil, "header:X-API-Key"), "api_key", identitytest.WithKey("k")), identitytest.ValueOf(t, resolver(nil, "header:X-API-Key"), "api_key", identitytest.WithKey("k")); a == b || a == want {
		t.Error("a random secret is not random")
	}
	// Without a file any text is a key: it must not stand for a client.
	if got := identitytest.ValueOf(t, r, "client", identitytest.WithKey("k")); got != "address:192.0.2.1" {
		t.Error(got)
	}
	for _, o := range []identity.Options{
		{APIKey: identity.APIKeyOptions{From: []string{"basic"}}}, {APIKey: identity.APIKeyOptions{From: []string{"header:a b"}}},
		{APIKey: identity.APIKeyOptions{From: []string{"bearer"}, Secret: secret[:15]}}, {Keys: identitytest.Keys(t, "k.yaml", "[]")},
		{User: []string{"api_key"}}, {Tier: []string{"keys"}}, {User: []string{"jwt:sub"}}, {User: []string{"cookie:sid"}}, {User: []string{"header:X-User"}}, {Tier: []string{"header:X-Tier"}},
	} {
		if _, err := identity.New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// TestCallersInParallel: a resolver is shared, its callers are not.
func TestCallersInParallel(t *testing.T) {
	r := identitytest.New(t, identity.Options{
		APIKey: identity.APIKeyOptions{From: []string{"bearer"}, Secret: identity.Secret("0123456789abcdef")},
		Token:  identitytest.Tokens(t, credentials.JWTOptions{Secret: make(identity.Secret, 32)}), User: []string{"jwt:sub"},
	})
	want := map[string]string{}
	for i := range 8 {
		c := r.Acquire()
		c.Set(identity.Facts{Header: map[string][]string{"Authorization": {fmt.Sprintf("Bearer k%d", i)}}})
		want[fmt.Sprint(i)] = string([]byte(c.APIKey()))
		c.Release()
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 300 {
				c := r.Acquire()
				c.Set(identity.Facts{Path: "/%62/", Host: "H", Header: map[string][]string{"Authorization": {fmt.Sprintf("Bearer k%d", i)}}})
				if p, err := c.Path(); p != "/b" || err != nil || c.Host() != "h" || c.APIKey() != want[fmt.Sprint(i)] || c.User() != "" {
					t.Error(p, err, c.Host(), c.APIKey())
				}
				c.Release()
			}
		})
	}
	wg.Wait()
}
