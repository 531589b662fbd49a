// Package identitytest makes resolvers, requests and credentials for tests.
package identitytest

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/credentials"
	"github.com/weirlimit/weir/identity"
)

// New returns a resolver, which is closed when the test ends.
func New(t testing.TB, opt identity.Options) *identity.Resolver {
	t.Helper()
	r, err := identity.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// DescriptorBy is a route's descriptor of sources, each "source" or "key<source".
func DescriptorBy(sources ...string) identity.Descriptor {
	var d identity.Descriptor
	for _, s := range sources {
		key, from, renamed := strings.Cut(s, "<")
		if !renamed {
			key, from = "", s
		}
		d.Entries = append(d.Entries, identity.EntryFrom{Key: key, From: from})
	}
	return d
}

// ValueOf returns the value that a request has for one source, "" for none.
func ValueOf(t testing.TB, r *identity.Resolver, from string, f identity.Facts) string {
	t.Helper()
	return EntryOf(t, r, from, f).Value
}

// Fill calls read with what a front end makes of a request, which is valid during the call,
// or with why it refuses.
func Fill(t testing.TB, r *identity.Resolver, f identity.Facts, read func(*weir.Request, error), ds ...identity.Descriptor) {
	t.Helper()
	p, err := r.Plan(ds)
	if err != nil {
		t.Fatal(err)
	}
	c := r.Acquire()
	defer c.Release()
	c.Set(f)
	var req weir.Request
	err = p.Fill(&req, c)
	read(&req, err)
}

// EntryOf returns the entry that a front end makes of a request for one source, an empty
// one for none.
func EntryOf(t testing.TB, r *identity.Resolver, from string, f identity.Facts) (e weir.Entry) {
	t.Helper()
	Fill(t, r, f, func(req *weir.Request, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if len(req.Descriptors) > 0 {
			e = req.Descriptors[0].Entries[0]
			e = weir.Entry{Key: strings.Clone(e.Key), Value: strings.Clone(e.Value)}
		}
	}, identity.Descriptor{Entries: []identity.EntryFrom{{From: from}}})
	return e
}

// UserOf returns the user of a request with a bearer token.
func UserOf(r *identity.Resolver, token string) string {
	c := r.Acquire()
	defer c.Release()
	c.Set(identity.Facts{Peer: netip.MustParseAddr("192.0.2.1"), Header: http.Header{"Authorization": {"Bearer " + token}}})
	return strings.Clone(c.User())
}

// WithKey is a request with an API key.
func WithKey(key string) identity.Facts {
	return identity.Facts{Peer: netip.MustParseAddr("192.0.2.1"), Header: http.Header{"X-Api-Key": {key}}}
}

// Tokens are what says which bearer tokens are believed.
func Tokens(t testing.TB, o credentials.JWTOptions) identity.TokenOptions {
	t.Helper()
	v, err := credentials.NewTokens(o)
	if err != nil {
		t.Fatal(err)
	}
	return identity.TokenOptions{Verifier: v}
}

// Keys returns a file of API keys with a text.
func Keys(t testing.TB, name, text string) *credentials.KeyFile {
	t.Helper()
	f, err := credentials.LoadKeys(Write(t, name, text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Write writes a file of the test and returns its path.
func Write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Digest returns the SHA-256 of an API key as files of keys have it.
func Digest(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}
