package identity_test

import (
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
