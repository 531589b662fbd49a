package identity_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/credentials"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/identitytest"
)

// tokenSecret signs the tokens of these tests.
var tokenSecret = identity.Secret(strings.Repeat("s", 32))

// tokenWith returns a token of these claims, each as JSON.
func tokenWith(t testing.TB, claims string) string {
	return identitytest.Sign(t, jose.HS256, []byte(tokenSecret), "", "{"+claims+"}")
}

// chargedBy returns the descriptors that a request is charged by, sorted.
func chargedBy(t testing.TB, r *identity.Resolver, f identity.Facts, ds ...identity.Descriptor) []string {
	t.Helper()
	all := []string{}
	identitytest.Fill(t, r, f, func(req *weir.Request, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if len(req.Descriptors) > 0 {
			all = strings.Split(show(req), "; ")
		}
	}, ds...)
	slices.Sort(all)
	return all
}

// of returns a descriptor of sources; one that begins with a dash is its unless.
func of(from ...string) (d identity.Descriptor) {
	for _, s := range from {
		if unless, ok := strings.CutPrefix(s, "-"); ok {
			d.Unless = unless
		} else {
			d.Entries = append(d.Entries, identity.EntryFrom{From: s})
		}
	}
	return d
}

// TestTokensThatAreLate: a token that is right but for its time counts for its user within
// the grace, and the address beside it. It exempts from nothing, and has no tier.
func TestTokensThatAreLate(t *testing.T) {
	const grace = 5 * time.Minute
	tokens := identitytest.Tokens(t, credentials.JWTOptions{
		Secret: tokenSecret, Now: identitytest.Fixed, Grace: grace, Issuers: []string{"us"}, Audiences: []string{"weir"},
	})
	tokens.From = []string{"bearer"}
	r := identitytest.New(t, identity.Options{
		Token: tokens, User: []string{"jwt:sub", "api_key"}, Tier: []string{"jwt:tier", "keys"},
		APIKey: identity.APIKeyOptions{From: []string{"header:X-Api-Key"}, Secret: identity.Secret("0123456789abcdef")},
		Keys:   identitytest.Keys(t, "keys.csv", "sha256,user,tier\n"+identitytest.Digest(knownKey)+",alice,gold\n,mallory,gold\n"),
	})
	at := func(d time.Duration) string { return strconv.FormatInt(identitytest.Now+int64(d/time.Second), 10) }
	const who = `"sub":"mallory","tier":"gold","iss":"us","aud":"weir"`
	plan := []identity.Descriptor{of("remote_address", "-user"), of("user"), of("client"), of("tier"), of("tier", "user"), of("jwt:sub"), of("method", "-jwt:sub"), of("path", "-tier")}
	stranger := []string{"client=address:192.0.2.1", "method=GET", "path=/", "remote_address=192.0.2.1"}
	late := append([]string{"client=user:mallory", "jwt:sub=mallory", "user=mallory"}, stranger...)
	slices.Sort(late)
	valid := []string{"client=user:mallory", "jwt:sub=mallory", "tier=gold", "tier=gold,user=mallory", "user=mallory"}
	number := []string{"client=user:12", "jwt:sub=12", "tier=true", "tier=true,user=12", "user=12"}
	for _, c := range []struct {
		claims string
		want   []string
		reason string
	}{
		{who + `,"exp":` + at(time.Minute), valid, ""},
		{who + `,"exp":` + at(-29*time.Second), valid, ""},
		{who + `,"exp":` + at(-31*time.Second), late, "expired"},
		{who + `,"exp":` + at(-40*time.Second), late, "expired"},
		{who + `,"exp":` + at(-grace), late, "expired"},
		{who + `,"exp":` + at(-grace-2*time.Second), stranger, "expired"},
		{who + `,"exp":` + at(time.Hour) + `,"nbf":` + at(45*time.Second), late, "not_yet_valid"},
		{who + `,"exp":` + at(time.Hour) + `,"nbf":` + at(grace), late, "not_yet_valid"},
		{who + `,"exp":` + at(time.Hour) + `,"nbf":` + at(grace+2*time.Second), stranger, "not_yet_valid"},
		{who + `,"exp":` + at(time.Hour) + `,"iat":` + at(grace), late, "issued_in_future"},
		{who + `,"exp":` + at(time.Hour) + `,"iat":` + at(2*grace), stranger, "issued_in_future"},
		{who + `,"exp":` + at(-time.Minute) + `,"iat":` + at(time.Minute), late, "expired"},
		{`"sub":"mallory","iss":"them","aud":"weir","exp":` + at(-time.Minute), stranger, "wrong_issuer"},
		{`"sub":"mallory","iss":"us","aud":"other","exp":` + at(-time.Minute), stranger, "wrong_audience"},
		{`"sub":"mallory","iss":"them","aud":"weir","exp":` + at(time.Hour) + `,"nbf":` + at(time.Minute), stranger, "wrong_issuer"},
		{who, late, "no_expiry"},
		{who + `,"nbf":` + at(grace+2*time.Second), stranger, "not_yet_valid"},
		{`"sub":"mallory","iss":"them","aud":"weir"`, stranger, "wrong_issuer"},
		{`"sub":"mallory","iss":"us"`, stranger, "wrong_audience"},
		{`"jti":7,"tier":true,"iss":"us","aud":["weir"],"sub":12,"exp":` + at(time.Minute), number, ""},
	} {
		f := fields("Authorization", "Bearer "+tokenWith(t, c.claims))
		for _, when := range []string{"first", "remembered"} {
			before := failuresOf(r)
			if got := chargedBy(t, r, f, plan...); !slices.Equal(got, c.want) {
				t.Errorf("%s: %s: charged %q, want %q", when, c.claims, got, c.want)
			}
			if got := failuresOf(r); c.reason != "" && got["jwt "+c.reason] != before["jwt "+c.reason]+1 {
				t.Errorf("%s: %s: not counted as %s", when, c.claims, c.reason)
			}
		}
		if got := identitytest.UserOf(r, strings.TrimPrefix(f.Header.Get("Authorization"), "Bearer ")); got != "" && c.reason != "" {
			t.Errorf("%s: user %q", c.claims, got)
		}
	}
	// Beside a valid key it is a second user, and takes nothing of the first.
	f := fields("Authorization", "Bearer "+tokenWith(t, who+`,"exp":`+at(-time.Minute)), "X-Api-Key", knownKey)
	want := []string{"client=user:alice", "client=user:mallory", "jwt:sub=mallory", "method=GET", "path=/", "remote_address=192.0.2.1", "tier=gold", "tier=gold,user=alice", "user=alice", "user=mallory"}
	if got := chargedBy(t, r, f, plan...); !slices.Equal(got, want) {
		t.Errorf("beside a key: charged %q, want %q", got, want)
	}
	// By the rules it is the same.
	p := r.RulePlan(lists{"": keyLists("user", "client", "remote_address")}, 0)
	c := r.Acquire()
	defer c.Release()
	c.Set(fields("Authorization", "Bearer "+tokenWith(t, who+`,"exp":`+at(-time.Minute))))
	var req weir.Request
	if err := p.Fill(&req, c); err != nil || show(&req) != "user=mallory; client=address:192.0.2.1; client=user:mallory; remote_address=192.0.2.1" {
		t.Errorf("%s, %v", show(&req), err)
	}
	for _, grace := range []time.Duration{-1, 24*time.Hour + 1} {
		if _, err := credentials.NewTokens(credentials.JWTOptions{Secret: tokenSecret, Grace: grace}); err == nil {
			t.Errorf("a grace of %s is taken", grace)
		}
	}
}

// TestTwoUsers: credentials of two kinds that prove two users are charged for both, each
// with the tier that is its own, whichever the upstream prefers.
func TestTwoUsers(t *testing.T) {
	key := func(n int) string { return fmt.Sprintf("a-key-of-user-%08d", n) }
	rows := "sha256,user,tier\n,guest,free\n,carol,free\n"
	for n, row := range []string{"alice,gold", "guest,", "dave,", ",gold"} {
		rows += identitytest.Digest(key(n)) + "," + row + "\n"
	}
	for _, order := range [][]string{{"jwt:sub", "api_key", "header:X-User"}, {"api_key", "header:X-User", "jwt:name", "jwt:sub"}, {"header:X-User", "jwt:sub", "api_key"}} {
		tokens := identitytest.Tokens(t, credentials.JWTOptions{Secret: tokenSecret, Now: identitytest.Fixed})
		r := identitytest.New(t, identity.Options{
			Token: tokens, User: order, Tier: []string{"jwt:tier", "keys"},
			APIKey:  identity.APIKeyOptions{From: []string{"header:X-Api-Key"}, Secret: identity.Secret("0123456789abcdef")},
			Keys:    identitytest.Keys(t, "keys.csv", rows),
			Proxies: identity.ProxyOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}},
		})
		exp := `,"exp":` + strconv.FormatInt(identitytest.Now+60, 10)
		guest := "Bearer " + tokenWith(t, `"sub":"guest"`+exp)
		for _, c := range []struct {
			facts identity.Facts
			users []string
		}{
			{fields("Authorization", guest), []string{"guest"}},
			{fields("X-Api-Key", key(0)), []string{"alice"}},
			{fields("Authorization", guest, "X-Api-Key", key(0)), []string{"alice", "guest"}},
			{fields("Authorization", guest, "X-Api-Key", key(1)), []string{"guest"}},
			{fields("Authorization", guest, "X-Api-Key", key(3)), []string{"guest"}},
			{fields("Authorization", guest, "X-Api-Key", "unknown"), []string{"guest"}},
			{fields("Authorization", guest, "X-User", "carol"), []string{"carol", "guest"}},
			{fields("Authorization", guest, "X-User", "carol", "X-Api-Key", key(2)), []string{"carol", "dave", "guest"}},
			{fields(), nil},
		} {
			var users, clients []string
			for _, u := range c.users {
				users, clients = append(users, "user="+u), append(clients, "client=user:"+u)
			}
			if clients == nil {
				clients = []string{"client=address:192.0.2.1"}
			}
			if got := chargedBy(t, r, c.facts, of("user")); !slices.Equal(got, users) && len(got)+len(users) > 0 {
				t.Errorf("%v: %v: charged %q, want %q", order, c.facts.Header, got, users)
			}
			if got := chargedBy(t, r, c.facts, of("client")); !slices.Equal(got, clients) {
				t.Errorf("%v: %v: charged %q, want %q", order, c.facts.Header, got, clients)
			}
			if got := chargedBy(t, r, c.facts, of("remote_address", "-user")); len(got) != 0 && c.users != nil {
				t.Errorf("%v: %v: charged %q", order, c.facts.Header, got)
			}
		}
		// Neither has the other's tier.
		both := fields("Authorization", "Bearer "+tokenWith(t, `"sub":"guest","tier":"free"`+exp), "X-Api-Key", key(0))
		got := chargedBy(t, r, both, of("user", "tier"))
		want := []string{"user=alice,tier=gold", "user=guest,tier=free"}
		if !slices.Equal(got, want) {
			t.Errorf("%v: charged %q, want %q", order, got, want)
		}
		// By the file of keys too.
		both = fields("Authorization", guest, "X-Api-Key", key(0))
		if got := chargedBy(t, r, both, of("user", "tier")); !slices.Equal(got, want) {
			t.Errorf("%v: by the file: charged %q, want %q", order, got, want)
		}
	}
}
