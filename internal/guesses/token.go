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

// CheckToken reports whether r carries the admin token as Authorization: Bearer. A
// wrong one is counted, and wait is how long its client has to wait before the next one
// is answered, zero for not at all; having none is no guess. Guesses are not counted if b
// is nil.
func (b *Bound) CheckToken(r *http.Request, token string) (ok bool, wait time.Duration) {
	scheme, presented, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") && Equal(presented, token) {
		return true, 0
	}
	if presented == "" || b == nil {
		return false, 0
	}
	return false, b.Wrong(r.Context(), "admin token", Client(r.RemoteAddr))
}
