package guesses

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"time"
)

// Equal reports whether a guess is the secret. It compares hashes, which are of equal
// length, so that how long it takes says nothing of the secret.
func Equal(guess, secret string) bool {
	got, want := sha256.Sum256([]byte(guess)), sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// CheckToken reports whether r carries the admin token as Authorization: Bearer, as Check
// does; having none is no guess.
func (b *Bound) CheckToken(r *http.Request, token string) (ok bool, wait time.Duration) {
	return b.checkToken(r, token, true)
}

// HasToken is CheckToken for a request that may be meant for another server, whose tokens
// must not keep it waiting: beyond the bound it has none.
func (b *Bound) HasToken(r *http.Request, token string) bool {
	ok, _ := b.checkToken(r, token, false)
	return ok
}

func (b *Bound) checkToken(r *http.Request, token string, waits bool) (ok bool, wait time.Duration) {
	scheme, presented, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if presented == "" {
		return false, 0
	}
	right := strings.EqualFold(scheme, "Bearer") && Equal(presented, token)
	return b.check(r.Context(), "admin token", Client(r.RemoteAddr), token, right, waits)
}

// AdminRealm is the challenge to who does not carry the admin token.
const AdminRealm = `Bearer realm="weir admin"`
