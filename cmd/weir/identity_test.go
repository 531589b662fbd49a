package main_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// issuer signs tokens and shows its keys.
type issuer struct {
	*httptest.Server
	key *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k1", Algorithm: "ES256", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(set)
	}))
	t.Cleanup(srv.Close)
	return &issuer{srv, key}
}

// claims are those of a token that the login of examples/gateway/shop.yaml gives.
func claims(user string, change ...any) map[string]any {
	c := map[string]any{
		"sub": user, "iss": "https://login.shop.example", "aud": "shop", "exp": time.Now().Add(time.Hour).Unix(),
	}
	for i := 0; i < len(change); i += 2 {
		c[change[i].(string)] = change[i+1]
	}
	return c
}

// token signs claims with a key by an algorithm.
func token(t *testing.T, alg jose.SignatureAlgorithm, key any, kid string, claims map[string]any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", kid))
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (i *issuer) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	return token(t, jose.ES256, i.key, "k1", claims)
}

// unsigned is a token of algorithm none.
func unsigned(t *testing.T, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	enc := base64.RawURLEncoding.EncodeToString
	return enc([]byte(`{"alg":"none","kid":"k1"}`)) + "." + enc(payload) + "."
}

// up starts an upstream that answers 200.
func up(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// ask sends a GET from an address, as the load balancer tells it, with header
// fields in pairs.
func (n *testNode) ask(t *testing.T, path, from string, fields ...string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequest("GET", n.http+path, nil)
	if err != nil {
		t.Error(err)
		return 0, "", nil
	}
	req.Header.Set("X-Forwarded-For", from)
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		t.Error(err)
		return 0, "", nil
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return res.StatusCode, string(body), res.Header
}

const identityRules = `
domain: api
descriptors:
  - key: user
    limit: 3/hour
    tiers: {by: tier, limits: {free: 3/hour, pro: 100/hour}}
  - key: remote_address
    limit: 2/hour
`

// Whoever shows a token that holds is limited as its user, from whatever address;
// whoever shows another is a stranger, limited by the address.
func TestVerifiedUsers(t *testing.T) {
	who := newIssuer(t)
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	conf := filepath.Join(t.TempDir(), "weir.yaml")
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(rules, identityRules)
	write(conf, `
identity:
  proxies: {trusted: 127.0.0.1, header: X-Forwarded-For}
  jwt: {url: "`+who.URL+`", issuers: https://login.shop.example, audiences: shop}
  user: "jwt:sub"
  tier: "jwt:plan"
routes:
  - descriptors:
      - {entries: [user, tier]}
      - {entries: [user], unless: tier}
      - {entries: [remote_address], unless: user}
`)
	n := serve(t, "--config", conf, "--rules", rules, "--upstream", up(t))
	f := func(what, token, from string, want int) {
		t.Helper()
		if got, body, _ := n.ask(t, "/", from, "Authorization", "Bearer "+token); got != want {
			t.Errorf("%s: got %d %s, want %d", what, got, body, want)
		}
	}
	// Two users behind one address do not meet; one user is one from everywhere.
	for _, user := range []string{"ann", "bob"} {
		tok := who.token(t, claims(user))
		for range 3 {
			f(user, tok, "203.0.113.1", 200)
		}
		f(user+" again", tok, "203.0.113.1", 429)
		f(user+" from elsewhere", who.token(t, claims(user, "jti", "2")), "203.0.113.2", 429)
	}
	pro := who.token(t, claims("cleo", "plan", "pro"))
	for range 10 {
		f("cleo, who pays", pro, "203.0.113.1", 200)
	}
	// What does not hold makes a stranger: two requests from an address, and the
	// address of ann and bob has not been counted before.
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(crypto.PublicKey(&who.key.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	good := who.token(t, claims("dora"))
	noExpiry := claims("dan") // whom it is counted for, beside the address
	delete(noExpiry, "exp")
	for i, bad := range []struct{ what, token string }{
		{"signed by another key", token(t, jose.ES256, stranger, "k1", claims("dora"))},
		{"signed with the public key as a secret", token(t, jose.HS256, public, "k1", claims("dora"))},
		{"algorithm none", unsigned(t, claims("dora"))},
		{"expired", who.token(t, claims("dora", "exp", time.Now().Add(-time.Hour).Unix()))},
		{"without expiry", who.token(t, noExpiry)},
		{"not yet valid", who.token(t, claims("dora", "nbf", time.Now().Add(time.Hour).Unix()))},
		{"another issuer", who.token(t, claims("dora", "iss", "https://evil.example"))},
		{"another audience", who.token(t, claims("dora", "aud", "bank"))},
		{"cut short", good[:len(good)-2]},
	} {
		from := fmt.Sprintf("198.51.100.%d", i)
		f(bad.what, bad.token, from, 200)
		f(bad.what, bad.token, from, 200)
		f(bad.what, bad.token, from, 429)
	}
	for range 3 {
		f("dora herself", good, "198.51.100.0", 200)
	}
	f("dora herself", good, "198.51.100.0", 429)
}

// digest is how a file of keys writes a key.
func digest(key string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(key))) }

// Tiers follow the file of keys while requests are under way: none is lost, a
// broken file changes nothing, and a key that nobody has is the address's.
func TestKeysReloadUnderLoad(t *testing.T) {
	dir := t.TempDir()
	file, rules := filepath.Join(dir, "keys.yaml"), filepath.Join(dir, "rules.yaml")
	put := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	keys := func(rows ...string) string {
		var b bytes.Buffer
		for i := 0; i < len(rows); i += 3 {
			fmt.Fprintf(&b, "- {sha256: %s, user: %s, tier: %s}\n", digest(rows[i]), rows[i+1], rows[i+2])
		}
		return b.String()
	}
	const fry, acme, busy = "key-of-fry-0123456789abcdef", "key-of-acme-0123456789abcdef", "key-of-busy-0123456789abcdef"
	put(file, keys(fry, "fry", "free", acme, "acme", "pro", busy, "busy", "load"))
	put(rules, strings.Replace(identityRules, "pro: 100/hour", "pro: 100/hour, load: 1000000/second", 1))
	n := serve(t, "--rules", rules, "--upstream", up(t), "--trusted-proxies", "127.0.0.1",
		"WEIR_API_KEY_FROM=header:X-API-Key", "WEIR_API_KEYS="+file, "WEIR_USER_FROM=api_key", "WEIR_TIER_FROM=keys",
		"--config", routesOf(t, `
  - descriptors:
      - {entries: [user, tier]}
      - {entries: [{key: remote_address, from: client}], unless: user}
`))
	code := func(key, from string) int {
		t.Helper()
		got, _, _ := n.ask(t, "/", from, "X-API-Key", key)
		return got
	}
	is := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	// Load by a key that stays in the file: every request is let through.
	stop, rounds := make(chan struct{}), atomic.Int64{}
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got := code(busy, "203.0.113.200"); got != 200 {
					t.Errorf("under load: %d", got)
					return
				}
				rounds.Add(1)
			}
		})
	}
	defer load.Wait()
	defer close(stop)

	for range 3 {
		is("fry", code(fry, "203.0.113.1"), 200)
	}
	is("fry's fourth, from elsewhere", code(fry, "203.0.113.2"), 429)
	for range 6 {
		is("acme", code(acme, "203.0.113.1"), 200)
	}
	// Keys that nobody has, a new one each time, share their address's limit.
	made := func(i int, from string) int { return code(fmt.Sprintf("made-up-%d-0123456789abcdef", i), from) }
	for i, want := range []int{200, 200, 429, 429} {
		is(fmt.Sprintf("made-up key %d", i), made(i, "203.0.113.1"), want)
	}

	put(file, "- {sha256: 12, user: fry}\n")
	if err := n.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	servertest.Await(t, "the broken file to be seen", func() bool { return strings.Contains(n.Output(), "keys.yaml:1") })
	is("acme after a broken file", code(acme, "203.0.113.1"), 200)
	is("fry after a broken file", code(fry, "203.0.113.1"), 429)

	// fry pays, acme's key is taken back.
	put(file, keys(fry, "fry", "pro", busy, "busy", "load"))
	if err := n.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	servertest.Await(t, "the new file", func() bool { return code(fry, "203.0.113.1") == 200 })
	for range 6 {
		is("fry, who pays", code(fry, "203.0.113.2"), 200)
	}
	for i, want := range []int{200, 200, 429} {
		is(fmt.Sprintf("acme's old key, %d", i), code(acme, "203.0.113.3"), want)
	}
	some := rounds.Load() + 50
	servertest.Await(t, "load on the new file", func() bool { return rounds.Load() >= some || t.Failed() })
}

// routesOf returns a configuration file that has routes.
func routesOf(t *testing.T, routes string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "routes.yaml")
	if err := os.WriteFile(file, []byte("routes:"+routes), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
