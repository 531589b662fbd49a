package httpapi

import (
	"math"
	"net/http"
	"strings"

	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/guesses"
	"github.com/weirlimit/weir/internal/overlay"
)

// operators are those whom their paths are for. Safe for concurrent use.
type operators struct {
	token   string // empty: loopback alone
	guesses *guesses.Bound
}

// guardHandler wraps h for operators only. With a token, whoever carries it is
// one. Without, only the handler of Admin lets anybody in: peers on loopback
// who ask for loopback, so that no page in a local browser can.
func (o *operators) guardHandler(h http.HandlerFunc) http.HandlerFunc {
	cross := http.NewCrossOriginProtection()
	return func(w http.ResponseWriter, r *http.Request) {
		if o.token == "" {
			local, _ := r.Context().Value(localKey{}).(bool)
			if !local || !peerAddress(r).IsLoopback() || Forwarded(r) || !LoopbackHost(r.Host) || cross.Check(r) != nil {
				answer.Problem{Status: http.StatusForbidden,
					Detail: "for operators only: configure an admin token, or ask the admin port from this machine"}.Write(w)
				return
			}
		} else if !CarriesToken(w, r, o.guesses, o.token) {
			return
		}
		h(w, r)
	}
}

// CarriesToken reports whether r carries the admin token, and responds if it does not. Wrong
// tokens are bounded; a right one is always let through.
func CarriesToken(w http.ResponseWriter, r *http.Request, wrong *guesses.Bound, token string) bool {
	ok, wait := wrong.CheckToken(r, token)
	switch {
	case ok:
	case wait > 0:
		answer.Problem{Status: http.StatusTooManyRequests, Detail: "too many wrong admin tokens: try again later",
			RetryAfter: int64(math.Ceil(wait.Seconds()))}.Write(w)
	default:
		w.Header().Set("WWW-Authenticate", guesses.AdminRealm)
		answer.Problem{Status: http.StatusUnauthorized, Detail: "admin token missing or wrong: send Authorization: Bearer TOKEN"}.Write(w)
	}
	return ok
}

// hasToken reports whether r carries the admin token. A wrong token is counted as a guess. It is not
// answered as one, as the request may be meant for another server.
func (o *operators) hasToken(r *http.Request) bool {
	if o.token == "" || len(r.Header["Authorization"]) == 0 {
		return false
	}
	return o.guesses.HasToken(r, o.token)
}

// author is who asks for a change, and why.
func (o *operators) author(r *http.Request, reason string) overlay.Author {
	return overlay.Author{By: o.nameOperator(r), Reason: strings.Clone(reason)}
}

// nameOperator says who an operator is, for the log and the audit log.
func (o *operators) nameOperator(r *http.Request) string {
	from := "a local socket"
	if addr := peerAddress(r); addr.IsValid() {
		from = addr.String()
	}
	if o.token != "" {
		return "admin token from " + from
	}
	return from
}

// localKey marks requests that came through Admin.
type localKey struct{}
