package identity_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/bubble"
)

// Keys are made once: RSA takes a while.
var (
	rsaKey   = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	otherKey = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	ecKey    = sync.OnceValue(func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// sign makes a token.
func sign(t testing.TB, alg jose.SignatureAlgorithm, key any, kid string, payload string) string {
	t.Helper()
	opts := (&jose.SignerOptions{}).WithType("JWT")
	if kid != "" {
		opts = opts.WithHeader("kid", kid)
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, opts)
	if err != nil {
		t.Fatal(err)
	}
	j, err := s.Sign([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	return must(j.CompactSerialize())
}

// raw makes a token of any header, with any signature.
func raw(header, payload, signature string) string {
	e := base64.RawURLEncoding.EncodeToString
	return e([]byte(header)) + "." + e([]byte(payload)) + "." + e([]byte(signature))
}

func publicPEM(keys ...any) []byte {
	var out []byte
	for _, k := range keys {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(k))})...)
	}
	return out
}

func jwks(keys ...jose.JSONWebKey) string {
	return string(must(json.Marshal(jose.JSONWebKeySet{Keys: keys})))
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// userOf returns the user of a request with a bearer token.
func userOf(r *identity.Resolver, token string) string {
	c := r.Acquire()
	defer c.Release()
	c.Set(identity.Facts{Peer: netip.MustParseAddr("192.0.2.1"), Header: http.Header{"Authorization": {"Bearer " + token}}})
	return strings.Clone(c.User())
}

const now = 1_800_000_000

func fixed() time.Time { return time.Unix(now, 0) }

const good = `{"iss":"https://issuer.example","aud":["weir","other"],"sub":"alice","exp":1800000100,"nbf":1799999900,"n":12345678901234567}`

func TestJWT(t *testing.T) {
	edPublic, edPrivate, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, "keys.pem", string(publicPEM(rsaKey().Public(), ecKey().Public(), edPublic)))
	r := newResolver(t, identity.Options{User: []string{"jwt:sub"}, JWT: identity.JWTOptions{
		KeyFile: file, Issuers: []string{"https://issuer.example"}, Audiences: []string{"weir"}, Now: fixed,
	}})
	f := func(want, what, token string) {
		t.Helper()
		for range 2 { // the second from the cache
			if got := userOf(r, token); got != want {
				t.Errorf("%s: user %q, not %q", what, got, want)
			}
		}
	}
	rs := func(payload string) string { return sign(t, jose.RS256, rsaKey(), "", payload) }
	f("alice", "RS256", rs(good))
	f("alice", "PS384", sign(t, jose.PS384, rsaKey(), "any", good))
	f("alice", "ES256", sign(t, jose.ES256, ecKey(), "", good))
	f("alice", "EdDSA", sign(t, jose.EdDSA, edPrivate, "", good))
	f("", "a key of others", sign(t, jose.RS256, otherKey(), "", good))

	// Signatures that are none.
	parts := strings.Split(rs(good), ".")
	f("", "none", raw(`{"alg":"none"}`, good, ""))
	f("", "None", raw(`{"alg":"None","typ":"JWT"}`, good, "x"))
	f("", "no signature", parts[0]+"."+parts[1]+".")
	f("", "another payload", parts[0]+"."+base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(good, "alice", "admin", 1)))+"."+parts[2])
	f("", "two parts", parts[0]+"."+parts[1])
	f("", "four parts", strings.Join(parts, ".")+".x")
	f("", "bad base64", parts[0]+"."+parts[1]+"."+parts[2]+"!")
	f("", "empty", "")
	f("", "too long", rs(strings.Replace(good, "alice", strings.Repeat("a", 9000), 1)))
	// The public key, which everybody knows, as the secret of an HMAC.
	for _, secret := range [][]byte{publicPEM(rsaKey().Public()), must(x509.MarshalPKIXPublicKey(rsaKey().Public())), must(os.ReadFile(file))} {
		f("", "HS256 with the public key", sign(t, jose.HS256, secret, "", good))
	}
	f("", "a key of its own", raw(`{"alg":"RS256","jwk":`+string(must(json.Marshal(jose.JSONWebKey{Key: otherKey().Public()})))+`}`, good, "x"))
	f("", "critical", func() string {
		s := must(jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: rsaKey()}, (&jose.SignerOptions{}).WithHeader("crit", []string{"x"}).WithHeader("x", 1)))
		return must(must(s.Sign([]byte(good))).CompactSerialize())
	}())

	// Claims.
	with := func(was, is string) string {
		if !strings.Contains(good, was) {
			t.Fatal(was)
		}
		return rs(strings.Replace(good, was, is, 1))
	}
	f("", "expired", with("1800000100", "1799999969"))
	f("alice", "expired within the leeway", with("1800000100", "1799999971"))
	f("", "not yet valid", with("1799999900", "1800000031"))
	f("alice", "valid within the leeway", with("1799999900", "1800000029"))
	f("", "never expires", with(`"exp":1800000100,`, ""))
	f("", "exp is text", with("1800000100", `"1800000100"`))
	f("", "exp is huge", with("1800000100", "1e300"))
	f("", "exp is negative", with("1800000100", "-1e300"))
	f("", "another issuer", with("issuer.example", "evil.example"))
	f("", "no issuer", with(`"iss":"https://issuer.example",`, ""))
	f("", "another audience", with(`["weir","other"]`, `["other"]`))
	f("alice", "one audience", with(`["weir","other"]`, `"weir"`))
	f("", "no audience", with(`"aud":["weir","other"],`, ""))
	f("", "no sub", with(`"sub":"alice",`, ""))
	f("", "sub is a list", with(`"alice"`, `["alice"]`))
	f("", "sub is twice", with(`"sub":"alice"`, `"sub":"alice","sub":"admin"`))
	f("", "sub is a number", with(`"alice"`, `7`))
	number := newResolver(t, identity.Options{User: []string{"jwt:n"}, JWT: identity.JWTOptions{KeyFile: file, Now: fixed}})
	if got := userOf(number, rs(good)); got != "12345678901234567" {
		t.Errorf("a number that a float is not: %s", got)
	}

	for _, a := range []string{"none", "HS256", "RS1", ""} {
		if _, err := identity.New(identity.Options{JWT: identity.JWTOptions{KeyFile: file, Algorithms: []string{a}}}); err == nil {
			t.Errorf("algorithm %q is taken", a)
		}
	}
	only := newResolver(t, identity.Options{User: []string{"jwt:sub"}, JWT: identity.JWTOptions{KeyFile: file, Algorithms: []string{"ES256"}, Now: fixed}})
	if userOf(only, rs(good)) != "" || userOf(only, sign(t, jose.ES256, ecKey(), "", good)) != "alice" {
		t.Error("the list of algorithms is not kept")
	}
}

func TestJWTWithSecret(t *testing.T) {
	secret := identity.Secret(strings.Repeat("s", 32))
	r := newResolver(t, identity.Options{User: []string{"jwt:sub"}, JWT: identity.JWTOptions{Secret: secret, Now: fixed}})
	if got := userOf(r, sign(t, jose.HS256, []byte(secret), "x", good)); got != "alice" {
		t.Error(got)
	}
	for what, token := range map[string]string{
		"another secret": sign(t, jose.HS256, []byte(strings.Repeat("t", 32)), "", good), "HS512": sign(t, jose.HS512, []byte(strings.Repeat("s", 64)), "", good),
		"RS256": sign(t, jose.RS256, rsaKey(), "", good), "none": raw(`{"alg":"none"}`, good, ""),
	} {
		if got := userOf(r, token); got != "" {
			t.Errorf("%s: %s", what, got)
		}
	}
	for _, o := range []identity.JWTOptions{
		{Secret: secret[:31]}, {Secret: secret, Algorithms: []string{"RS256"}}, {Secret: secret, KeyFile: "x"}, {Issuers: []string{"x"}}, {KeyFile: "/nowhere"},
		{URL: "http://issuer.example/"}, {URL: "ftp://127.0.0.1/"}, {URL: "https://"}, {Secret: secret, Leeway: time.Hour}, {Secret: secret, Refresh: time.Second}, {Secret: secret, CacheSize: -1},
		{KeyFile: write(t, "private.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(rsaKey()))})))},
		{KeyFile: write(t, "oct.jwk", `{"kty":"oct","k":"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}`)},
		{KeyFile: write(t, "private.jwk", string(must(json.Marshal(jose.JSONWebKey{Key: rsaKey()}))))},
		{KeyFile: write(t, "empty.pem", "")}, {KeyFile: write(t, "big.jwk", `{"keys":[`+strings.Repeat(" ", 300<<10)+`]}`)},
		{KeyFile: write(t, "many.jwk", `{"keys":[`+strings.Repeat(string(must(json.Marshal(jose.JSONWebKey{Key: ecKey().Public()})))+",", 100)+string(must(json.Marshal(jose.JSONWebKey{Key: ecKey().Public()})))+`]}`)},
		{KeyFile: write(t, "weak.jwk", jwks(jose.JSONWebKey{Key: &rsa.PublicKey{N: new(big.Int).Rsh(otherKey().N, 1040), E: 65537}}))},
		{KeyFile: write(t, "weak.pem", string(publicPEM(&rsa.PublicKey{N: new(big.Int).Rsh(otherKey().N, 1040), E: 65537})))},
	} {
		if _, err := identity.New(identity.Options{JWT: o}); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// TestRememberedTokensExpire: what is remembered ends when the token does.
func TestRememberedTokensExpire(t *testing.T) {
	var clock atomic.Int64
	clock.Store(now)
	r := newResolver(t, identity.Options{User: []string{"jwt:sub"}, JWT: identity.JWTOptions{
		KeyFile: write(t, "keys.pem", string(publicPEM(rsaKey().Public()))), Now: func() time.Time { return time.Unix(clock.Load(), 0) },
	}})
	token := sign(t, jose.RS256, rsaKey(), "", good)
	h := http.Header{"Authorization": {"Bearer " + token}}
	ask := func() string {
		c := r.Acquire()
		defer c.Release()
		c.Set(identity.Facts{Header: h})
		return c.User()
	}
	if got := ask(); got != "alice" {
		t.Error(got)
	}
	clock.Store(1800000100 + 31)
	if got := ask(); got != "" {
		t.Errorf("expired, and still %s", got)
	}
}

// issuer serves a JWK set, and fails if it is empty.
type issuer struct {
	set     atomic.Pointer[string]
	fetches atomic.Int32
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	i.fetches.Add(1)
	switch s := *i.set.Load(); s {
	case "":
		http.Error(w, "broken", http.StatusInternalServerError)
	case "redirect":
		w.Header().Set("Location", "http://127.0.0.1:1/")
		w.WriteHeader(http.StatusFound)
	default:
		w.Write([]byte(s))
	}
}

// RoundTrip answers without a network, for tests whose time is not real.
func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	i.ServeHTTP(w, r)
	return w.Result(), nil
}

func (i *issuer) serve(s string) { i.set.Store(&s) }

func TestKeysFromURL(t *testing.T) {
	var iss issuer
	iss.serve(jwks(jose.JSONWebKey{Key: rsaKey().Public(), KeyID: "a", Use: "sig"}, jose.JSONWebKey{Key: ecKey().Public(), KeyID: "e", Use: "enc"}))
	s := httptest.NewServer(&iss)
	defer s.Close()
	r := newResolver(t, identity.Options{User: []string{"jwt:sub"}, JWT: identity.JWTOptions{URL: s.URL, Now: fixed}})
	defer r.Close()
	f := func(want, token string) {
		t.Helper()
		if got := userOf(r, token); got != want {
			t.Errorf("user %q, not %q", got, want)
		}
	}
	f("alice", sign(t, jose.RS256, rsaKey(), "a", good))
	f("", sign(t, jose.RS256, rsaKey(), "b", good)) // no such key
	f("", sign(t, jose.ES256, ecKey(), "e", good))  // not for signatures
	if n := iss.fetches.Load(); n != 1 {
		t.Errorf("%d fetches", n)
	}

	// What is not 200 is not the set, whatever it holds, and whoever the set
	// names elsewhere is not asked.
	for _, path := range []string{"/moved", "/gone"} {
		mux := http.NewServeMux()
		mux.Handle("/", &iss)
		mux.Handle("/moved", http.RedirectHandler("/", http.StatusFound))
		mux.HandleFunc("/gone", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusGone)
			iss.ServeHTTP(w, r)
		})
		s := httptest.NewServer(mux)
		r := newResolver(t, identity.Options{User: []string{"jwt:sub"}, JWT: identity.JWTOptions{URL: s.URL + path, Now: fixed}})
		if got := userOf(r, sign(t, jose.RS256, rsaKey(), "a", good)); got != "" {
			t.Errorf("%s: user %q", path, got)
		}
		r.Close()
		s.Close()
	}
}

// TestKeysAreRefreshed: a key that is new is fetched when a token names it, at
// most once a minute; broken sets change nothing; a key that is gone ends what
// was verified with it.
func TestKeysAreRefreshed(t *testing.T) {
	rsaKey()
	otherKey()
	bubble.Test(t, func(t *testing.T) {
		var iss issuer
		one := jose.JSONWebKey{Key: rsaKey().Public(), KeyID: "a"}
		two := jose.JSONWebKey{Key: otherKey().Public(), KeyID: "b", Algorithm: "RS256"}
		payload := strings.Replace(good, "1800000100", "4000000000", 1)
		payload = strings.Replace(payload, "1799999900", "0", 1)
		a, b := sign(t, jose.RS256, rsaKey(), "a", payload), sign(t, jose.RS256, otherKey(), "b", payload)
		iss.serve("") // down at the start
		r := newResolver(t, identity.Options{User: []string{"jwt:sub"}, JWT: identity.JWTOptions{URL: "https://issuer.example/", Client: &http.Client{Transport: &iss}}})
		defer r.Close()
		f := func(token, want string, fetches int32) {
			t.Helper()
			synctest.Wait()
			if got, n := userOf(r, token), iss.fetches.Load(); got != want || n != fetches {
				t.Errorf("user %q after %d fetches, not %q after %d", got, n, want, fetches)
			}
		}
		f(a, "", 1)
		iss.serve(jwks(one))
		time.Sleep(2 * time.Second) // tried again sooner while there is no set
		f(a, "alice", 2)
		f(b, "", 2)
		iss.serve(jwks(one, two))
		for range 100 {
			userOf(r, b)
		}
		f(b, "", 2) // not within a minute of the last
		time.Sleep(61 * time.Second)
		f(b, "alice", 3)

		for _, broken := range []string{"", "redirect", "{", "{}", `{"keys":[]}`, jwks(two) + strings.Repeat(" ", 300<<10)} {
			iss.serve(broken)
			before := iss.fetches.Load()
			time.Sleep(16 * time.Minute)
			synctest.Wait()
			if iss.fetches.Load() == before {
				t.Errorf("%.10q: not fetched", broken)
			}
			if userOf(r, a) != "alice" || userOf(r, b) != "alice" {
				t.Errorf("%.10q: the last good keys are gone", broken)
			}
		}
		iss.serve(jwks(two))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if userOf(r, a) != "" || userOf(r, b) != "alice" {
			t.Error("a key that was withdrawn is believed")
		}
		iss.serve("")
		time.Sleep(23 * time.Hour)
		if userOf(r, b) != "alice" {
			t.Error("keys are not believed for a day while they cannot be fetched")
		}
		time.Sleep(3 * time.Hour)
		if userOf(r, b) != "" {
			t.Error("keys that cannot be fetched are believed without end")
		}
		iss.serve(jwks(two))
		time.Sleep(2 * time.Minute)
		if userOf(r, b) != "alice" {
			t.Error("keys that can be fetched again are not believed")
		}
	})
}

// While there is no set it is asked for more and more seldom, and not in a loop.
func TestFirstKeysAreRetried(t *testing.T) {
	rsaKey()
	bubble.Test(t, func(t *testing.T) {
		var iss issuer
		iss.serve("")
		r := newResolver(t, identity.Options{User: []string{"jwt:sub"}, JWT: identity.JWTOptions{URL: "https://issuer.example/", Client: &http.Client{Transport: &iss}}})
		defer r.Close()
		for _, f := range []struct {
			after       time.Duration
			least, most int32
			// The last waits are a minute, up to a quarter less: at most 80 in an hour.
		}{{1500 * time.Millisecond, 2, 2}, {time.Minute, 5, 8}, {time.Hour, 50, 88}} {
			for range 100 {
				userOf(r, "eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.e30.AA")
			}
			time.Sleep(f.after)
			synctest.Wait()
			if n := iss.fetches.Load(); n < f.least || n > f.most {
				t.Errorf("%d fetches after another %s, want %d to %d", n, f.after, f.least, f.most)
			}
		}
	})
}

// TestFamilyKeysOutage: that the keys of tokens cannot be fetched is told once, with what is
// believed meanwhile, however often that is tried, and once that they can be again.
func TestFamilyKeysOutage(t *testing.T) {
	rsaKey()
	bubble.Test(t, func(t *testing.T) {
		var iss issuer
		var log bytes.Buffer
		keys := jwks(jose.JSONWebKey{Key: rsaKey().Public(), KeyID: "a"})
		iss.serve("")
		r := newResolver(t, identity.Options{User: []string{"jwt:sub"}, JWT: identity.JWTOptions{URL: "https://issuer.example/", Refresh: time.Minute,
			Client: &http.Client{Transport: &iss}, Log: slog.New(slog.NewTextHandler(&log, nil))}})
		defer r.Close()
		for _, set := range []string{"", keys, "", keys} {
			iss.serve(set)
			tried := iss.fetches.Load()
			time.Sleep(30 * time.Minute)
			synctest.Wait()
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			log.Reset()
			want := []string{"level=ERROR", "fetch failed; the last fetched keys"}
			if set != "" {
				want = []string{"level=INFO", "fetch recovered"}
			}
			if len(lines) != 1 || !strings.Contains(lines[0], want[0]) || !strings.Contains(lines[0], want[1]) {
				t.Errorf("after %d fetches: %q, want %q", iss.fetches.Load()-tried, lines, want)
			}
		}
	})
}

// TestKeysWithoutIDs: a new key without a name is found too.
func TestKeysWithoutIDs(t *testing.T) {
	rsaKey()
	otherKey()
	bubble.Test(t, func(t *testing.T) {
		var iss issuer
		iss.serve(jwks(jose.JSONWebKey{Key: rsaKey().Public()}))
		r := newResolver(t, identity.Options{User: []string{"jwt:sub"}, JWT: identity.JWTOptions{
			URL: "https://issuer.example/", Client: &http.Client{Transport: &iss}, Now: fixed, Refresh: 24 * time.Hour,
		}})
		defer r.Close()
		token := sign(t, jose.RS256, otherKey(), "", good)
		iss.serve(jwks(jose.JSONWebKey{Key: otherKey().Public()}))
		if got := userOf(r, token); got != "" {
			t.Error(got)
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if got := userOf(r, token); got != "alice" {
			t.Errorf("user %q", got)
		}
	})
}

func FuzzJWT(f *testing.F) {
	r := newResolver(f, identity.Options{User: []string{"jwt:sub"}, JWT: identity.JWTOptions{
		KeyFile: write(f, "keys.pem", string(publicPEM(ecKey().Public()))), Now: fixed,
	}})
	p, err := r.Plan([]identity.Descriptor{
		{Entries: []identity.EntryFrom{{From: "remote_address"}}},
		{Entries: []identity.EntryFrom{{From: "unverified_jwt:sub"}}},
	})
	if err != nil {
		f.Fatal(err)
	}
	mine := sign(f, jose.ES256, ecKey(), "", good)
	for _, s := range []string{raw(`{"alg":"none"}`, good, ""), raw(`{"alg":"ES256"}`, good, "x"), "a.b.c", "..", raw("{", `{"sub":1e9}`, ""), raw("", `{"sub":"\u0000"}`, ""), mine + "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, token string) {
		if token == mine {
			return
		}
		if got := userOf(r, token); got != "" && !strings.Contains(token, ".") {
			t.Fatalf("%q is %q", token, got)
		}
		checkValues(t, r, p, identity.Facts{Header: http.Header{"Authorization": {"Bearer " + token}}})
	})
}
