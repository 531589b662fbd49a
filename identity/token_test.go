package identity_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/weirlimit/weir/credentials"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/identitytest"
)

func FuzzJWT(f *testing.F) {
	r := identitytest.New(f, identity.Options{User: []string{"jwt:sub"}, Token: identitytest.Tokens(f, credentials.JWTOptions{
		KeyFile: identitytest.Write(f, "keys.pem", string(identitytest.PublicPEM(identitytest.ECKey().Public()))), Now: identitytest.Fixed,
	})})
	p, err := r.Plan([]identity.Descriptor{
		{Entries: []identity.EntryFrom{{From: "remote_address"}}},
		{Entries: []identity.EntryFrom{{From: "unverified_jwt:sub"}}},
	})
	if err != nil {
		f.Fatal(err)
	}
	mine := identitytest.Sign(f, jose.ES256, identitytest.ECKey(), "", identitytest.Good)
	for _, s := range []string{identitytest.Raw(`{"alg":"none"}`, identitytest.Good, ""), identitytest.Raw(`{"alg":"ES256"}`, identitytest.Good, "x"), "a.b.c", "..", identitytest.Raw("{", `{"sub":1e9}`, ""), identitytest.Raw("", `{"sub":"\u0000"}`, ""), mine + "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		if token == mine {
			return
		}
		if got := identitytest.UserOf(r, token); got != "" && !strings.Contains(token, ".") {
			t.Fatalf("%q is %q", token, got)
		}
		checkValues(t, r, p, identity.Facts{Header: http.Header{"Authorization": {"Bearer " + token}}})
	})
}

// oneToken is a verifier that knows one token of alice, and rejects others for a reason.
type oneToken struct {
	why    identity.Rejection
	closed int
}

func (v *oneToken) Verify(token string) (identity.Claims, identity.Rejection) {
	if token != "e30.e30.AA" {
		return nil, v.why
	}
	all := identity.Claims{}
	all.Set("sub", []byte(`"alice"`))
	all.Set("roles", []byte(`["admin"]`))
	all.Set("name", []byte(`"`+strings.Repeat("n", 200)+`"`))
	return all, ""
}

func (v *oneToken) Close() error {
	v.closed++
	return nil
}

// Who else verifies tokens is believed, counts as the same reasons, and is closed once, also
// where other options are wrong.
func TestOtherVerifiers(t *testing.T) {
	for why, want := range map[identity.Rejection]string{
		"expired": "jwt expired", "wrong_issuer": "jwt wrong_issuer", "no_keys": "jwt no_keys", "malformed": "jwt malformed",
		"a reason of its own": "jwt malformed", "unknown": "jwt malformed", // which is one of API keys
	} {
		v := &oneToken{why: why}
		r, err := identity.New(identity.Options{User: []string{"jwt:sub"}, Tier: []string{"jwt:name"}, Token: identity.TokenOptions{Verifier: v}})
		if err != nil {
			t.Fatal(err)
		}
		if got := identitytest.UserOf(r, "e30.e30.AA"); got != "alice" {
			t.Errorf("user %q", got)
		}
		name := identitytest.ValueOf(t, r, "tier", identity.Facts{Header: http.Header{"Authorization": {"Bearer e30.e30.AA"}}})
		if !strings.HasPrefix(name, "sha256:") || len(name) > 64 {
			t.Errorf("a long claim is %q", name)
		}
		if got := identitytest.UserOf(r, "e30.e30.BB"); got != "" {
			t.Errorf("%s: user %q", why, got)
		}
		if got := failuresOf(r); !maps.Equal(got, map[string]uint64{want: 1}) {
			t.Errorf("%s: counted %v, want %s", why, got, want)
		}
		if err := r.Close(); err != nil || v.closed != 1 {
			t.Errorf("closed %d times, %v", v.closed, err)
		}
	}
	v := new(oneToken)
	if _, err := identity.New(identity.Options{IPv4Prefix: 99, Token: identity.TokenOptions{Verifier: v}}); err == nil || v.closed != 1 {
		t.Errorf("%v, and closed %d times", err, v.closed)
	}
	if _, err := identity.New(identity.Options{Token: identity.TokenOptions{From: []string{"bearer"}}}); err == nil {
		t.Error("tokens that nobody verifies are taken")
	}
}
