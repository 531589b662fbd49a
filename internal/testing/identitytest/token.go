package identitytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Keys are made once: RSA takes a while.
var (
	RSAKey   = sync.OnceValue(func() *rsa.PrivateKey { return Must(rsa.GenerateKey(rand.Reader, 2048)) })
	OtherKey = sync.OnceValue(func() *rsa.PrivateKey { return Must(rsa.GenerateKey(rand.Reader, 2048)) })
	ECKey    = sync.OnceValue(func() *ecdsa.PrivateKey { return Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) })
)

// Must returns v, and panics if there is an error.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Sign returns a token.
func Sign(t testing.TB, alg jose.SignatureAlgorithm, key any, kid string, payload string) string {
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
	return Must(j.CompactSerialize())
}

// Raw returns a token of any header, with any signature.
func Raw(header, payload, signature string) string {
	e := base64.RawURLEncoding.EncodeToString
	return e([]byte(header)) + "." + e([]byte(payload)) + "." + e([]byte(signature))
}

// PublicPEM returns public keys as PEM blocks.
func PublicPEM(keys ...any) []byte {
	var out []byte
	for _, k := range keys {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: Must(x509.MarshalPKIXPublicKey(k))})...)
	}
	return out
}

// JWKS returns a set of keys.
func JWKS(keys ...jose.JSONWebKey) string {
	return string(Must(json.Marshal(jose.JSONWebKeySet{Keys: keys})))
}

// Now is an instant, in seconds since 1970, at which Good holds.
const Now = 1_800_000_000

// Fixed tells Now.
func Fixed() time.Time { return time.Unix(Now, 0) }

// Good is the payload of a token of alice.
const Good = `{"iss":"https://issuer.example","aud":["weir","other"],"sub":"alice","exp":1800000100,"nbf":1799999900,"n":12345678901234567}`
