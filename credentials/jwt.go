package credentials

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/weirlimit/weir/identity"
)

// JWTOptions says which JSON Web Tokens are believed. One of KeyFile, URL and
// Secret says by which keys.
type JWTOptions struct {
	// KeyFile names a file with the public keys, read once: PEM (public keys and
	// certificates), a JWK or a JWK set. Zero means none.
	KeyFile string
	// URL is where the JWK set of the issuer is, https, or http on a loopback
	// address. It is fetched anew every Refresh, and when a token fits no key in
	// it, that at most once a minute. The last good set stays. Zero means none.
	URL string
	// Secret verifies HS256, HS384 and HS512, at least 32 bytes. Zero means none.
	Secret identity.Secret
	// Algorithms lists the signatures that are taken. Zero means HS256 with
	// Secret, else RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512
	// and EdDSA. Those of a Secret and of public keys do not mix: a public key is
	// no secret.
	Algorithms []string
	// Issuers lists what iss may be. Zero means anything.
	Issuers []string
	// Audiences lists what aud may hold: a token must have one of them. Zero means
	// anything.
	Audiences []string
	// Leeway is how far the issuer's clock may be off, up to 5m. Zero means 30s.
	Leeway time.Duration
	// Grace is how long after its end, or before its beginning, a token that is right but
	// for that still counts for its user, up to 24h: at least as long as an upstream
	// takes it, beyond its exp. Zero means 10m.
	Grace time.Duration
	// CacheSize is how many verified tokens are remembered, each until it expires
	// or its keys change, so that a signature is not computed for every request.
	// Zero means 10,000.
	CacheSize int
	// Refresh of the set at URL, 1m to 24h. Zero means 15m.
	Refresh time.Duration
	// Client fetches URL. It follows no redirects, and takes no longer than 5
	// seconds. Zero means one of its own.
	Client *http.Client
	// Now tells the time. Zero means time.Now.
	Now func() time.Time
	// Log is told of fetches that fail, and of keys that are of no use. Zero means
	// nobody is.
	Log *slog.Logger
}

var (
	secretAlgorithms = []jose.SignatureAlgorithm{jose.HS256, jose.HS384, jose.HS512}
	publicAlgorithms = []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
	}
)

const (
	maxLeeway = 5 * time.Minute
	maxGrace  = 24 * time.Hour
	// maxTries is how many keys a token without a key's name is tried with.
	maxTries = 8
)

// Tokens verifies JSON Web Tokens. Safe for concurrent use.
type Tokens struct {
	opt        JWTOptions
	algorithms []jose.SignatureAlgorithm
	keys       keySource
	cache      *tokenCache
}

var _ identity.TokenVerifier = (*Tokens)(nil)

// verified is what a verified token says.
type verified struct {
	claims identity.Claims
	// expires, in seconds since the Unix epoch, with the leeway; ends with the grace.
	expires, ends int64
	keys          *keySet
}

// NewTokens returns what verifies tokens. Its error says which option cannot be met, and
// how to. That the keys at URL cannot be fetched yet is none: no token is believed until
// they can. Close it, or the [identity.Resolver] that it is given to.
func NewTokens(o JWTOptions) (*Tokens, error) {
	sources := 0
	for _, set := range []bool{o.KeyFile != "", o.URL != "", len(o.Secret) > 0} {
		if set {
			sources++
		}
	}
	switch {
	case sources != 1:
		return nil, errors.New("jwt: set one of key_file, url and secret: they say which tokens are believed")
	case len(o.Secret) > 0 && len(o.Secret) < 32:
		return nil, fmt.Errorf("jwt: the secret has %d bytes, it needs at least 32", len(o.Secret))
	case o.Leeway < 0 || o.Leeway > maxLeeway:
		return nil, fmt.Errorf("jwt: leeway must be between 0 and %s, not %s", maxLeeway, o.Leeway)
	case o.Grace < 0 || o.Grace > maxGrace:
		return nil, fmt.Errorf("jwt: grace must be between 0 and %s, not %s", maxGrace, o.Grace)
	case o.CacheSize < 0 || o.CacheSize > 10_000_000:
		return nil, fmt.Errorf("jwt: cache_size must be between 0 and 10,000,000, not %d", o.CacheSize)
	case o.Refresh != 0 && (o.Refresh < time.Minute || o.Refresh > 24*time.Hour):
		return nil, fmt.Errorf("jwt: refresh must be between 1m and 24h, not %s", o.Refresh)
	}
	t := &Tokens{opt: o}
	t.defaults()
	if err := t.allowAlgorithms(o.Algorithms); err != nil {
		return nil, err
	}
	t.cache = newTokenCache(t.opt.CacheSize)
	var err error
	switch {
	case o.KeyFile != "":
		if err = t.keys.loadFile(o.KeyFile); err == nil {
			t.keys.set.Load().warnLeftOut(t.opt.Log, o.KeyFile)
		}
	case o.URL != "":
		err = t.keys.followURL(&t.opt)
	default:
		t.keys.set.Store(&keySet{keys: []jose.JSONWebKey{{Key: []byte(o.Secret)}}})
	}
	if err != nil {
		return nil, fmt.Errorf("jwt: %w", err)
	}
	return t, nil
}

func (t *Tokens) defaults() {
	o := &t.opt
	o.Leeway, o.Grace = cmp.Or(o.Leeway, 30*time.Second), cmp.Or(o.Grace, 10*time.Minute)
	o.CacheSize, o.Refresh = cmp.Or(o.CacheSize, 10_000), cmp.Or(o.Refresh, 15*time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// allowAlgorithms compiles the list of algorithms.
func (t *Tokens) allowAlgorithms(names []string) error {
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

// Verify implements [identity.TokenVerifier].
func (t *Tokens) Verify(token string) (identity.Claims, identity.Rejection) {
	now := t.opt.Now()
	set := t.keys.set.Load()
	var text [4096]byte // few tokens are longer; the others allocate nothing
	id := sha256.Sum256(append(text[:0], token...))
	if v := t.cache.findToken(id); v != nil && v.keys == set {
		return v.claimsAt(now)
	}
	v, err := t.verifyToken(token, set, now)
	switch {
	case v != nil && err != nil: // what is remembered has begun, and ends
		return v.claims, rejectionOf(err)
	case err != nil:
		// Without key IDs a new key shows in that no old one fits.
		if errors.Is(err, errUnknownKey) || errors.Is(err, jose.ErrCryptoFailure) {
			t.keys.requestFetch(now)
		}
		if set == nil {
			return nil, "no_keys"
		}
		return nil, rejectionOf(err)
	}
	t.cache.storeToken(id, v)
	return v.claimsAt(now)
}

// claimsAt returns what a token that has begun says at a time.
func (v *verified) claimsAt(now time.Time) (identity.Claims, identity.Rejection) {
	switch {
	case now.Unix() < v.expires:
		return v.claims, ""
	case now.Unix() < v.ends:
		return v.claims, "expired"
	}
	return nil, "expired"
}

var (
	errUnknownKey = errors.New("no such key")
	errNoExpiry   = errors.New("token without an end")
	errIssuer     = errors.New("token of another issuer")
	errToken      = errors.New("token is not believed")
)

// registered are the claims by which a token is believed. Others may be of any type: issuers
// write numbers for sub and jti, and upstreams take them.
type registered struct {
	Issuer    string           `json:"iss"`
	Audience  jwt.Audience     `json:"aud"`
	Expiry    *jwt.NumericDate `json:"exp"`
	NotBefore *jwt.NumericDate `json:"nbf"`
	IssuedAt  *jwt.NumericDate `json:"iat"`
}

// verifyToken verifies a token. It returns what one says that is not yet valid, or has no end,
// beside the error, if that is within the grace.
func (t *Tokens) verifyToken(token string, set *keySet, now time.Time) (*verified, error) {
	parsed, err := jwt.ParseSigned(token, t.algorithms)
	if err != nil {
		return nil, err
	}
	if len(parsed.Headers) != 1 {
		return nil, errToken
	}
	head := parsed.Headers[0]
	candidates := set.findKeys(head.KeyID, head.Algorithm)
	if len(candidates) == 0 {
		return nil, errUnknownKey
	}
	var read registered
	var all map[string]json.RawMessage
	err = errToken
	for _, key := range candidates {
		failed := parsed.Claims(key.Key, &read, &all)
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
	std := jwt.Claims{Issuer: read.Issuer, Audience: read.Audience, Expiry: read.Expiry, NotBefore: read.NotBefore, IssuedAt: read.IssuedAt}
	if len(t.opt.Issuers) > 0 && !slices.Contains(t.opt.Issuers, std.Issuer) {
		return nil, errIssuer
	}
	expected := jwt.Expected{Time: now, AnyAudience: t.opt.Audiences}
	grace := max(t.opt.Grace, t.opt.Leeway) + time.Second // some read whole seconds
	if err := std.ValidateWithLeeway(expected, grace); err != nil {
		return nil, err
	}
	v := &verified{claims: identity.Claims{}, keys: set}
	for name, raw := range all {
		v.claims.Set(name, raw)
	}
	if std.Expiry == nil {
		return v, errNoExpiry // nobody could ever take it back
	}
	end := std.Expiry.Time()
	v.expires, v.ends = end.Add(t.opt.Leeway).Unix(), end.Add(grace).Unix()
	if err := std.ValidateWithLeeway(expected, t.opt.Leeway); err != nil && !errors.Is(err, jwt.ErrExpired) {
		return v, err
	}
	return v, nil
}

// rejectionOf returns why a token is not believed.
func rejectionOf(err error) identity.Rejection {
	if _, ok := errors.AsType[*jose.ErrUnexpectedSignatureAlgorithm](err); ok {
		return "algorithm"
	}
	for _, c := range []struct {
		err error
		is  identity.Rejection
	}{
		{errUnknownKey, "unknown_key"}, {jose.ErrUnsupportedAlgorithm, "unknown_key"},
		{jose.ErrUnsupportedKeyType, "unknown_key"}, {jose.ErrCryptoFailure, "bad_signature"},
		{errNoExpiry, "no_expiry"}, {errIssuer, "wrong_issuer"}, {jwt.ErrExpired, "expired"},
		{jwt.ErrNotValidYet, "not_yet_valid"}, {jwt.ErrIssuedInTheFuture, "issued_in_future"},
		{jwt.ErrInvalidAudience, "wrong_audience"},
	} {
		if errors.Is(err, c.err) {
			return c.is
		}
	}
	return "malformed"
}

// Close ends the fetching of keys and waits for it. What was fetched stays in use.
func (t *Tokens) Close() error {
	t.keys.close()
	return nil
}
