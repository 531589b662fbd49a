package httpapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"math"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/guesses"
)

// operator wraps h for operators only. With a token, whoever carries it is
// one. Without, only the handler of Admin lets anybody in: peers on loopback
// who ask for loopback, so that no page in a local browser can.
func (a *API) operator(h http.HandlerFunc) http.HandlerFunc {
	cross := http.NewCrossOriginProtection()
	return func(w http.ResponseWriter, r *http.Request) {
		if a.opt.AdminToken == "" {
			local, _ := r.Context().Value(localKey{}).(bool)
			if !local || !peer(r).IsLoopback() || Forwarded(r) || !loopbackHost(r.Host) || cross.Check(r) != nil {
				answer.Problem{Status: http.StatusForbidden,
					Detail: "for operators only: configure an admin token, or ask the admin port from this machine"}.Write(w)
				return
			}
			h(w, r)
			return
		}
		if given, ok := a.hasToken(r); !ok {
			if wait := a.wrong(r, given); wait > 0 {
				answer.Problem{Status: http.StatusTooManyRequests, Detail: "too many wrong admin tokens",
					RetryAfter: int64(math.Ceil(wait.Seconds()))}.Write(w)
				return
			}
			w.Header().Set("WWW-Authenticate", `Bearer realm="weir admin"`)
			answer.Problem{Status: http.StatusUnauthorized, Detail: "send the admin token as Authorization: Bearer TOKEN"}.Write(w)
			return
		}
		h(w, r)
	}
}

// hasToken reports whether r carries the admin token, and returns what it carries
// in its place.
func (a *API) hasToken(r *http.Request) (given string, ok bool) {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// Hashes are of equal length, so comparing them tells nothing of the token's.
	got, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(a.opt.AdminToken))
	return given, a.opt.AdminToken != "" && strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// Authorized implements [Paths]. A wrong token is counted as a guess. It is not
// answered as one, as the request may be meant for another server.
func (a *API) Authorized(r *http.Request) bool {
	if a.opt.AdminToken == "" || len(r.Header["Authorization"]) == 0 {
		return false
	}
	given, ok := a.hasToken(r)
	if !ok {
		a.wrong(r, given)
	}
	return ok
}

// wrong counts a wrong token and returns how long its client has to wait. Having
// none is no guess.
func (a *API) wrong(r *http.Request, given string) time.Duration {
	if given == "" || a.opt.Guesses == nil {
		return 0
	}
	return a.opt.Guesses.Wrong(r.Context(), "admin token", guesses.Client(r.RemoteAddr))
}

// localKey marks requests that came through Admin.
type localKey struct{}

// Admin returns a handler of the operators' paths alone, for a port of their
// own. Without a token it answers only to loopback.
func (a *API) Admin() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.admin[r.URL.Path] {
			notFound(w, r)
			return
		}
		a.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), localKey{}, true)))
	})
}

// loopbackHost reports whether a Host header names this machine's loopback.
func loopbackHost(host string) bool {
	if ap, err := netip.ParseAddrPort(host); err == nil {
		return ap.Addr().Unmap().IsLoopback()
	}
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return addr.Unmap().IsLoopback()
	}
	name, _, _ := strings.Cut(host, ":")
	return strings.EqualFold(name, "localhost")
}
