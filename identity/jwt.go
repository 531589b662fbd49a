package identity

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// JWTOptions says which JSON Web Tokens are believed. One of KeyFile, URL and
// Secret says by which keys.
type JWTOptions struct {
	// From lists where a request may have its token: "bearer" (Authorization:
	// Bearer), "header:NAME", "cookie:NAME", "query:NAME". A request with two
	// different ones is refused, see [Caller.Check]. Zero means bearer.
	From []string `yaml:"from"`
	// KeyFile names a file with the public keys, read once: PEM (public keys and
	// certificates), a JWK or a JWK set. Zero means none.
	KeyFile string `yaml:"key_file"`
	// URL is where the JWK set of the issuer is, https, or http on a loopback
	// address. It is fetched anew every Refresh, and when a token fits no key in
	// it, that at most once a minute. The last good set stays. Zero means none.
	URL string `yaml:"url"`
	// Secret verifies HS256, HS384 and HS512, at least 32 bytes. Zero means none.
	Secret Secret `yaml:"-"`
	// Algorithms lists the signatures that are taken. Zero means HS256 with
	// Secret, else RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512
	// and EdDSA. Those of a Secret and of public keys do not mix: a public key is
	// no secret.
	Algorithms []string `yaml:"algorithms"`
	// Issuers lists what iss may be. Zero means anything.
	Issuers []string `yaml:"issuers"`
	// Audiences lists what aud may hold: a token must have one of them. Zero means
	// anything.
	Audiences []string `yaml:"audiences"`
	// Leeway is how far the issuer's clock may be off, up to 5m. Zero means 30s.
	Leeway time.Duration `yaml:"leeway"`
	// CacheSize is how many verified tokens are remembered, each until it expires
	// or its keys change, so that a signature is not computed for every request.
	// Zero means 10,000.
	CacheSize int `yaml:"cache_size"`
	// Refresh of the set at URL, 1m to 24h. Zero means 15m.
	Refresh time.Duration `yaml:"refresh"`
	// Client fetches URL. It follows no redirects, and takes no longer than 5
	// seconds. Zero means one of its own.
	Client *http.Client `yaml:"-"`
	// Now tells the time. Zero means time.Now.
	Now func() time.Time `yaml:"-"`
	// Log is told of fetches that fail, and of keys that are of no use. Zero means
	// nobody is.
	Log *slog.Logger `yaml:"-"`
}

var (
	secretAlgorithms = []jose.SignatureAlgorithm{jose.HS256, jose.HS384, jose.HS512}
	publicAlgorithms = []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
	}
)

const (
	maxLeeway = 5 * time.Minute
	// maxTries is how many keys a token without a key's name is tried with.
	maxTries = 8
)

// tokens verifies JSON Web Tokens. Safe for concurrent use.
type tokens struct {
	opt        JWTOptions
	from       claimants
	algorithms []jose.SignatureAlgorithm
	keys       keySource
	cache      *tokenCache
	// sealing names tokens in the cache, with a secret of this process.
	sealing Secret
}

// claims is what a verified token says.
type claims struct {
	text map[string]string
	// expires, in seconds since the Unix epoch, with the leeway.
	expires int64
	keys    *keySet
}

// newTokens returns what verifies tokens, or nil if no keys are set.
func newTokens(o JWTOptions) (*tokens, error) {
	sources := 0
	for _, set := range []bool{o.KeyFile != "", o.URL != "", len(o.Secret) > 0} {
		if set {
			sources++
		}
	}
	switch {
	case sources == 0 && len(o.From)+len(o.Algorithms)+len(o.Issuers)+len(o.Audiences) == 0:
		return nil, nil
	case sources != 1:
		return nil, errors.New("jwt: set one of key_file, url and secret: they say which tokens are believed")
	case len(o.Secret) > 0 && len(o.Secret) < 32:
		return nil, fmt.Errorf("jwt: the secret has %d bytes, it needs at least 32", len(o.Secret))
	case o.Leeway < 0 || o.Leeway > maxLeeway:
		return nil, fmt.Errorf("jwt: leeway must be between 0 and %s, not %s", maxLeeway, o.Leeway)
	case o.CacheSize < 0 || o.CacheSize > 10_000_000:
		return nil, fmt.Errorf("jwt: cache_size must be between 0 and 10,000,000, not %d", o.CacheSize)
	case o.Refresh != 0 && (o.Refresh < time.Minute || o.Refresh > 24*time.Hour):
		return nil, fmt.Errorf("jwt: refresh must be between 1m and 24h, not %s", o.Refresh)
	}
	t := &tokens{opt: o}
	t.defaults()
	var err error
	if t.from, err = credentials("jwt", t.opt.From); err != nil {
		return nil, err
	}
	if err := t.allow(o.Algorithms); err != nil {
		return nil, err
	}
	if t.sealing, err = newSecret("", nil); err != nil {
		return nil, err
	}
	t.cache = newTokenCache(t.opt.CacheSize)
	switch {
	case o.KeyFile != "":
		if err = t.keys.load(o.KeyFile); err == nil {
			t.keys.set.Load().warn(t.opt.Log, o.KeyFile)
		}
	case o.URL != "":
		err = t.keys.follow(&t.opt)
	default:
		t.keys.set.Store(&keySet{keys: []jose.JSONWebKey{{Key: []byte(o.Secret)}}})
	}
	if err != nil {
		return nil, fmt.Errorf("jwt: %w", err)
	}
	return t, nil
}

func (t *tokens) defaults() {
	o := &t.opt
	if len(o.From) == 0 {
		o.From = []string{"bearer"}
	}
	o.Leeway, o.CacheSize, o.Refresh = cmp.Or(o.Leeway, 30*time.Second), cmp.Or(o.CacheSize, 10_000), cmp.Or(o.Refresh, 15*time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// allow compiles the list of algorithms.
func (t *tokens) allow(names []string) error {
	possible := publicAlgorithms
	t.algorithms = publicAlgorithms
	if len(t.opt.Secret) > 0 {
		possible, t.algorithms = secretAlgorithms, secretAlgorithms[:1]
	}
	if len(names) == 0 {
		return nil
	}
	t.algorithms = nil
	for _, n := range names {
		a := jose.SignatureAlgorithm(n)
		if !slices.Contains(possible, a) {
			return fmt.Errorf("jwt: algorithm %q does not go with these keys, choose from %v", n, possible)
		}
		t.algorithms = append(t.algorithms, a)
	}
	return nil
}

// verify returns what token says, nil and why if it is not believed.
func (t *tokens) verify(token string, s *sealer) (*claims, failure) {
	if len(token) > maxToken {
		return nil, tokenTooLong
	}
	now := t.opt.Now()
	set := t.keys.set.Load()
	id := s.seal(t.sealing, token)
	if c := t.cache.get(id); c != nil {
		if c.keys == set {
			if now.Unix() < c.expires {
				return c, believed
			}
			return nil, tokenExpired
		}
	}
	c, err := t.check(token, set, now)
	if err != nil {
		// Without key IDs a new key shows in that no old one fits.
		if errors.Is(err, errUnknownKey) || errors.Is(err, jose.ErrCryptoFailure) {
			t.keys.want(now)
		}
		if set == nil {
			return nil, tokenNoKeys
		}
		return nil, failureOf(err)
	}
	t.cache.put(id, c)
	return c, believed
}

var (
	errUnknownKey = errors.New("no such key")
	errNoExpiry   = errors.New("token without an end")
	errIssuer     = errors.New("token of another issuer")
	errToken      = errors.New("token is not believed")
)

// check verifies a token.
func (t *tokens) check(token string, set *keySet, now time.Time) (*claims, error) {
	parsed, err := jwt.ParseSigned(token, t.algorithms)
	if err != nil {
		return nil, err
	}
	if len(parsed.Headers) != 1 {
		return nil, errToken
	}
	head := parsed.Headers[0]
	candidates := set.find(head.KeyID, head.Algorithm)
	if len(candidates) == 0 {
		return nil, errUnknownKey
	}
	var std jwt.Claims
	var all map[string]json.RawMessage
	err = errToken
	for _, key := range candidates {
		failed := parsed.Claims(key.Key, &std, &all)
		if failed == nil {
			err = nil
			break
		}
		if !errors.Is(err, jose.ErrCryptoFailure) { // which says the most
			err = failed
		}
	}
	if err != nil {
		return nil, err
	}
	if std.Expiry == nil {
		return nil, errNoExpiry // nobody could ever take it back
	}
	if err := std.ValidateWithLeeway(jwt.Expected{Time: now, AnyAudience: t.opt.Audiences}, t.opt.Leeway); err != nil {
		return nil, err
	}
	if len(t.opt.Issuers) > 0 && !slices.Contains(t.opt.Issuers, std.Issuer) {
		return nil, errIssuer
	}
	c := &claims{text: make(map[string]string, len(all)), expires: std.Expiry.Time().Add(t.opt.Leeway).Unix(), keys: set}
	for name, raw := range all {
		if v := claimText(raw); v != "" && len(name) <= maxValue {
			c.text[name] = long(v)
		}
	}
	return c, nil
}

// claimText returns a claim as text: a string, a number as it is written, true
// or false. Lists and blocks have none.
func claimText(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	switch c := raw[0]; {
	case c == '"':
		var s string
		if json.Unmarshal(raw, &s) != nil {
			return ""
		}
		return s
	case c == '-' || c >= '0' && c <= '9' || c == 't' || c == 'f':
		return string(raw)
	}
	return ""
}

// close ends fetching.
func (t *tokens) close() { t.keys.close() }

// find returns the token of a request as it was sent, or an error if another reader may
// not find it, or may find another in its place.
func (t *tokens) find(c *Caller) (string, error) {
	if t == nil {
		return "", nil
	}
	token := ""
	for _, f := range t.from {
		v, err := f.credential(c)
		switch {
		case err != nil:
			return "", err
		case v == "" || v == token:
		case !isJWS(v):
			// A reader that is less exact could find a token in it.
			if strings.Count(v, ".") > 1 {
				return "", errCredential
			}
			token = cmp.Or(token, v)
		case isJWS(token):
			return "", errCredential
		default:
			token = v
		}
	}
	return token, nil
}
