package credentials_test

import (
	"bytes"
	"crypto/ed25519"
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
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/weirlimit/weir/credentials"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/identitytest"
)

// byTokens returns a resolver of the users of tokens.
func byTokens(t testing.TB, o credentials.JWTOptions) *identity.Resolver {
	t.Helper()
	return identitytest.New(t, identity.Options{User: []string{"jwt:sub"}, Token: identitytest.Tokens(t, o)})
}

func TestJWT(t *testing.T) {
	edPublic, edPrivate, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	file := identitytest.Write(t, "keys.pem", string(identitytest.PublicPEM(identitytest.RSAKey().Public(), identitytest.ECKey().Public(), edPublic)))
	r := byTokens(t, credentials.JWTOptions{
		KeyFile: file, Issuers: []string{"https://issuer.example"}, Audiences: []string{"weir"}, Now: identitytest.Fixed,
	})
	f := func(want, what, token string) {
		t.Helper()
		for range 2 { // the second from the cache
			if got := identitytest.UserOf(r, token); got != want {
				t.Errorf("%s: user %q, not %q", what, got, want)
			}
		}
	}
	rs := func(payload string) string {
		return identitytest.Sign(t, jose.RS256, identitytest.RSAKey(), "", payload)
	}
	f("alice", "RS256", rs(identitytest.Good))
	f("alice", "PS384", identitytest.Sign(t, jose.PS384, identitytest.RSAKey(), "any", identitytest.Good))
	f("alice", "ES256", identitytest.Sign(t, jose.ES256, identitytest.ECKey(), "", identitytest.Good))
	f("alice", "EdDSA", identitytest.Sign(t, jose.EdDSA, edPrivate, "", identitytest.Good))
	f("", "a key of others", identitytest.Sign(t, jose.RS256, identitytest.OtherKey(), "", identitytest.Good))

	// Signatures that are none.
	parts := strings.Split(rs(identitytest.Good), ".")
	f("", "none", identitytest.Raw(`{"alg":"none"}`, identitytest.Good, ""))
	f("", "None", identitytest.Raw(`{"alg":"None","typ":"JWT"}`, identitytest.Good, "x"))
	f("", "no signature", parts[0]+"."+parts[1]+".")
	f("", "another payload", parts[0]+"."+base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(identitytest.Good, "alice", "admin", 1)))+"."+parts[2])
	f("", "two parts", parts[0]+"."+parts[1])
	f("", "four parts", strings.Join(parts, ".")+".x")
	f("", "bad base64", parts[0]+"."+parts[1]+"."+parts[2]+"!")
	f("", "empty", "")
	f("", "too long", rs(strings.Replace(identitytest.Good, "alice", strings.Repeat("a", 9000), 1)))
	// The public key, which everybody knows, as the secret of an HMAC.
	for _, secret := range [][]byte{identitytest.PublicPEM(identitytest.RSAKey().Public()), identitytest.Must(x509.MarshalPKIXPublicKey(identitytest.RSAKey().Public())), identitytest.Must(os.ReadFile(file))} {
		f("", "HS256 with the public key", identitytest.Sign(t, jose.HS256, secret, "", identitytest.Good))
	}
	f("", "a key of its own", identitytest.Raw(`{"alg":"RS256","jwk":`+string(identitytest.Must(json.Marshal(jose.JSONWebKey{Key: identitytest.OtherKey().Public()})))+`}`, identitytest.Good, "x"))
	f("", "critical", func() string {
		s := identitytest.Must(jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: identitytest.RSAKey()}, (&jose.SignerOptions{}).WithHeader("crit", []string{"x"}).WithHeader("x", 1)))
		return identitytest.Must(identitytest.Must(s.Sign([]byte(identitytest.Good))).CompactSerialize())
	}())

	// Claims.
	with := func(was, is string) string {
		if !strings.Contains(identitytest.Good, was) {
			t.Fatal(was)
		}
		return rs(strings.Replace(identitytest.Good, was, is, 1))
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
	f("7", "sub is a number", with(`"alice"`, `7`))
	number := identitytest.New(t, identity.Options{User: []string{"jwt:n"}, Token: identitytest.Tokens(t, credentials.JWTOptions{KeyFile: file, Now: identitytest.Fixed})})
	if got := identitytest.UserOf(number, rs(identitytest.Good)); got != "12345678901234567" {
		t.Errorf("a number that a float is not: %s", got)
	}

	for _, a := range []string{"none", "HS256", "RS1", ""} {
		if _, err := credentials.NewTokens(credentials.JWTOptions{KeyFile: file, Algorithms: []string{a}}); err == nil {
			t.Errorf("algorithm %q is taken", a)
		}
	}
	only := byTokens(t, credentials.JWTOptions{KeyFile: file, Algorithms: []string{"ES256"}, Now: identitytest.Fixed})
	if identitytest.UserOf(only, rs(identitytest.Good)) != "" || identitytest.UserOf(only, identitytest.Sign(t, jose.ES256, identitytest.ECKey(), "", identitytest.Good)) != "alice" {
		t.Error("the list of algorithms is not kept")
	}
}

func TestJWTWithSecret(t *testing.T) {
	secret := identity.Secret(strings.Repeat("s", 32))
	r := byTokens(t, credentials.JWTOptions{Secret: secret, Now: identitytest.Fixed})
	if got := identitytest.UserOf(r, identitytest.Sign(t, jose.HS256, []byte(secret), "x", identitytest.Good)); got != "alice" {
		t.Error(got)
	}
	for what, token := range map[string]string{
		"another secret": identitytest.Sign(t, jose.HS256, []byte(strings.Repeat("t", 32)), "", identitytest.Good), "HS512": identitytest.Sign(t, jose.HS512, []byte(strings.Repeat("s", 64)), "", identitytest.Good),
		"RS256": identitytest.Sign(t, jose.RS256, identitytest.RSAKey(), "", identitytest.Good), "none": identitytest.Raw(`{"alg":"none"}`, identitytest.Good, ""),
	} {
		if got := identitytest.UserOf(r, token); got != "" {
			t.Errorf("%s: %s", what, got)
		}
	}
	for _, o := range []credentials.JWTOptions{
		{Secret: secret[:31]}, {Secret: secret, Algorithms: []string{"RS256"}}, {Secret: secret, KeyFile: "x"}, {Issuers: []string{"x"}}, {KeyFile: "/nowhere"},
		{URL: "http://issuer.example/"}, {URL: "ftp://127.0.0.1/"}, {URL: "https://"}, {Secret: secret, Leeway: time.Hour}, {Secret: secret, Refresh: time.Second}, {Secret: secret, CacheSize: -1},
		{KeyFile: identitytest.Write(t, "private.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: identitytest.Must(x509.MarshalPKCS8PrivateKey(identitytest.RSAKey()))})))},
		{KeyFile: identitytest.Write(t, "oct.jwk", `{"kty":"oct","k":"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}`)},
		{KeyFile: identitytest.Write(t, "private.jwk", string(identitytest.Must(json.Marshal(jose.JSONWebKey{Key: identitytest.RSAKey()}))))},
		{KeyFile: identitytest.Write(t, "empty.pem", "")}, {KeyFile: identitytest.Write(t, "big.jwk", `{"keys":[`+strings.Repeat(" ", 300<<10)+`]}`)},
		{KeyFile: identitytest.Write(t, "many.jwk", `{"keys":[`+strings.Repeat(string(identitytest.Must(json.Marshal(jose.JSONWebKey{Key: identitytest.ECKey().Public()})))+",", 100)+string(identitytest.Must(json.Marshal(jose.JSONWebKey{Key: identitytest.ECKey().Public()})))+`]}`)},
		{KeyFile: identitytest.Write(t, "weak.jwk", identitytest.JWKS(jose.JSONWebKey{Key: &rsa.PublicKey{N: new(big.Int).Rsh(identitytest.OtherKey().N, 1040), E: 65537}}))},
		{KeyFile: identitytest.Write(t, "weak.pem", string(identitytest.PublicPEM(&rsa.PublicKey{N: new(big.Int).Rsh(identitytest.OtherKey().N, 1040), E: 65537})))},
	} {
		if _, err := credentials.NewTokens(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// TestRememberedTokensExpire: what is remembered ends when the token does.
func TestRememberedTokensExpire(t *testing.T) {
	var clock atomic.Int64
	clock.Store(identitytest.Now)
	r := byTokens(t, credentials.JWTOptions{
		KeyFile: identitytest.Write(t, "keys.pem", string(identitytest.PublicPEM(identitytest.RSAKey().Public()))), Now: func() time.Time { return time.Unix(clock.Load(), 0) },
	})
	token := identitytest.Sign(t, jose.RS256, identitytest.RSAKey(), "", identitytest.Good)
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
	iss.serve(identitytest.JWKS(jose.JSONWebKey{Key: identitytest.RSAKey().Public(), KeyID: "a", Use: "sig"}, jose.JSONWebKey{Key: identitytest.ECKey().Public(), KeyID: "e", Use: "enc"}))
	s := httptest.NewServer(&iss)
	defer s.Close()
	r := byTokens(t, credentials.JWTOptions{URL: s.URL, Now: identitytest.Fixed})
	defer r.Close()
	f := func(want, token string) {
		t.Helper()
		if got := identitytest.UserOf(r, token); got != want {
			t.Errorf("user %q, not %q", got, want)
		}
	}
	f("alice", identitytest.Sign(t, jose.RS256, identitytest.RSAKey(), "a", identitytest.Good))
	f("", identitytest.Sign(t, jose.RS256, identitytest.RSAKey(), "b", identitytest.Good)) // no such key
	f("", identitytest.Sign(t, jose.ES256, identitytest.ECKey(), "e", identitytest.Good))  // not for signatures
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
		r := byTokens(t, credentials.JWTOptions{URL: s.URL + path, Now: identitytest.Fixed})
		if got := identitytest.UserOf(r, identitytest.Sign(t, jose.RS256, identitytest.RSAKey(), "a", identitytest.Good)); got != "" {
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
	identitytest.RSAKey()
	identitytest.OtherKey()
	bubble.Test(t, func(t *testing.T) {
		var iss issuer
		one := jose.JSONWebKey{Key: identitytest.RSAKey().Public(), KeyID: "a"}
		two := jose.JSONWebKey{Key: identitytest.OtherKey().Public(), KeyID: "b", Algorithm: "RS256"}
		payload := strings.Replace(identitytest.Good, "1800000100", "4000000000", 1)
		payload = strings.Replace(payload, "1799999900", "0", 1)
		a, b := identitytest.Sign(t, jose.RS256, identitytest.RSAKey(), "a", payload), identitytest.Sign(t, jose.RS256, identitytest.OtherKey(), "b", payload)
		iss.serve("") // down at the start
		r := byTokens(t, credentials.JWTOptions{URL: "https://issuer.example/", Client: &http.Client{Transport: &iss}})
		defer r.Close()
		f := func(token, want string, fetches int32) {
			t.Helper()
			synctest.Wait()
			if got, n := identitytest.UserOf(r, token), iss.fetches.Load(); got != want || n != fetches {
				t.Errorf("user %q after %d fetches, not %q after %d", got, n, want, fetches)
			}
		}
		f(a, "", 1)
		iss.serve(identitytest.JWKS(one))
		time.Sleep(2 * time.Second) // tried again sooner while there is no set
		f(a, "alice", 2)
		f(b, "", 2)
		iss.serve(identitytest.JWKS(one, two))
		for range 100 {
			identitytest.UserOf(r, b)
		}
		f(b, "", 2) // not within a minute of the last
		time.Sleep(61 * time.Second)
		f(b, "alice", 3)

		for _, broken := range []string{"", "redirect", "{", "{}", `{"keys":[]}`, identitytest.JWKS(two) + strings.Repeat(" ", 300<<10)} {
			iss.serve(broken)
			before := iss.fetches.Load()
			time.Sleep(16 * time.Minute)
			synctest.Wait()
			if iss.fetches.Load() == before {
				t.Errorf("%.10q: not fetched", broken)
			}
			if identitytest.UserOf(r, a) != "alice" || identitytest.UserOf(r, b) != "alice" {
				t.Errorf("%.10q: the last good keys are gone", broken)
			}
		}
		iss.serve(identitytest.JWKS(two))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if identitytest.UserOf(r, a) != "" || identitytest.UserOf(r, b) != "alice" {
			t.Error("a key that was withdrawn is believed")
		}
		iss.serve("")
		time.Sleep(23 * time.Hour)
		if identitytest.UserOf(r, b) != "alice" {
			t.Error("keys are not believed for a day while they cannot be fetched")
		}
		time.Sleep(3 * time.Hour)
		if identitytest.UserOf(r, b) != "" {
			t.Error("keys that cannot be fetched are believed without end")
		}
		iss.serve(identitytest.JWKS(two))
		time.Sleep(2 * time.Minute)
		if identitytest.UserOf(r, b) != "alice" {
			t.Error("keys that can be fetched again are not believed")
		}
	})
}

// While there is no set it is asked for more and more seldom, and not in a loop.
func TestFirstKeysAreRetried(t *testing.T) {
	identitytest.RSAKey()
	bubble.Test(t, func(t *testing.T) {
		var iss issuer
		iss.serve("")
		r := byTokens(t, credentials.JWTOptions{URL: "https://issuer.example/", Client: &http.Client{Transport: &iss}})
		defer r.Close()
		for _, f := range []struct {
			after       time.Duration
			least, most int32
			// The last waits are a minute, up to a quarter less: at most 80 in an hour.
		}{{1500 * time.Millisecond, 2, 2}, {time.Minute, 5, 8}, {time.Hour, 50, 88}} {
			for range 100 {
				identitytest.UserOf(r, "eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.e30.AA")
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
	identitytest.RSAKey()
	bubble.Test(t, func(t *testing.T) {
		var iss issuer
		var log bytes.Buffer
		keys := identitytest.JWKS(jose.JSONWebKey{Key: identitytest.RSAKey().Public(), KeyID: "a"})
		iss.serve("")
		r := byTokens(t, credentials.JWTOptions{URL: "https://issuer.example/", Refresh: time.Minute,
			Client: &http.Client{Transport: &iss}, Log: slog.New(slog.NewTextHandler(&log, nil))})
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

// TestKeysURLIsNotLogged: what the URL of the keys holds of secrets is in no line of the log,
// while they cannot be fetched, are of no use, or are given up.
func TestKeysURLIsNotLogged(t *testing.T) {
	identitytest.RSAKey()
	const secret = "PWSECRET"
	bubble.Test(t, func(t *testing.T) {
		var iss issuer
		var log bytes.Buffer
		iss.serve(identitytest.JWKS(jose.JSONWebKey{Key: identitytest.RSAKey().Public()}, jose.JSONWebKey{Key: []byte("0123456789abcdef0123456789abcdef")}))
		r := byTokens(t, credentials.JWTOptions{
			URL: "https://" + secret + ":" + secret + "@issuer.example/keys?token=" + secret, Refresh: time.Minute,
			Client: &http.Client{Transport: &iss}, Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		defer r.Close()
		synctest.Wait()
		iss.serve("")
		time.Sleep(30 * time.Hour)
		synctest.Wait()
		for _, want := range []string{"skipped", "fetch failed", "JWT keys expired", "https://issuer.example/keys"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("no %q in %s", want, log.String())
			}
		}
		if strings.Contains(log.String(), secret) {
			t.Error(log.String())
		}
	})
	var log bytes.Buffer
	r := byTokens(t, credentials.JWTOptions{
		URL:    "http://" + secret + ":" + secret + "@127.0.0.1:1/keys?token=" + secret,
		Client: &http.Client{Timeout: time.Second}, Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	r.Close()
	if !strings.Contains(log.String(), "fetch failed") || strings.Contains(log.String(), secret) {
		t.Error(log.String())
	}
}

// TestKeysWithoutIDs: a new key without a name is found too.
func TestKeysWithoutIDs(t *testing.T) {
	identitytest.RSAKey()
	identitytest.OtherKey()
	bubble.Test(t, func(t *testing.T) {
		var iss issuer
		iss.serve(identitytest.JWKS(jose.JSONWebKey{Key: identitytest.RSAKey().Public()}))
		r := byTokens(t, credentials.JWTOptions{
			URL: "https://issuer.example/", Client: &http.Client{Transport: &iss}, Now: identitytest.Fixed, Refresh: 24 * time.Hour,
		})
		defer r.Close()
		token := identitytest.Sign(t, jose.RS256, identitytest.OtherKey(), "", identitytest.Good)
		iss.serve(identitytest.JWKS(jose.JSONWebKey{Key: identitytest.OtherKey().Public()}))
		if got := identitytest.UserOf(r, token); got != "" {
			t.Error(got)
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if got := identitytest.UserOf(r, token); got != "alice" {
			t.Errorf("user %q", got)
		}
	})
}

// TestKeysThatAreOfNoUse: keys of tokens that are left out of a set are warned of, and a
// set without one that is of use is an error.
func TestKeysThatAreOfNoUse(t *testing.T) {
	good := jose.JSONWebKey{Key: identitytest.RSAKey().Public(), KeyID: "one"}
	for name, c := range map[string]struct {
		set  string
		want string // of the log, "" for nothing, "error" for none of use
	}{
		"one":              {identitytest.JWKS(good), ""},
		"one and a secret": {identitytest.JWKS(good, jose.JSONWebKey{Key: []byte("0123456789abcdef0123456789abcdef")}), "skipped=1 used=1"},
		"one and two":      {identitytest.JWKS(good, jose.JSONWebKey{Key: identitytest.RSAKey(), KeyID: "private"}, jose.JSONWebKey{Key: identitytest.RSAKey().Public(), Use: "enc"}), "skipped=2 used=1"},
		"a secret":         {identitytest.JWKS(jose.JSONWebKey{Key: []byte("0123456789abcdef0123456789abcdef")}), "error"},
		"an unknown kind":  {`{"keys":[{"kty":"OKP","crv":"X448","x":"AA"}]}`, "error"},
		"none":             {`{"keys":[]}`, "error"},
		"nothing":          {`{}`, "error"},
		"empty":            {"", "error"},
		"not a set":        {`{"jwks":{"keys":[]}}`, "error"},
	} {
		var log bytes.Buffer
		_, err := credentials.NewTokens(credentials.JWTOptions{
			KeyFile: identitytest.Write(t, "set.json", c.set), Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		switch {
		case (err != nil) != (c.want == "error"):
			t.Errorf("%s: %v", name, err)
		case err == nil && (!strings.Contains(log.String(), c.want) || c.want == "" && log.Len() > 0):
			t.Errorf("%s: want %q in %s", name, c.want, log.String())
		}
	}
}
