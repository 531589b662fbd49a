package httpapi

import (
	"context"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/weirlimit/weir/answer"
)

// operator wraps h for operators only. With a token, whoever carries it is
// one. Without, only the handler of Admin lets anybody in: peers on loopback
// who ask for loopback, so that no page in a local browser can.
func (a *API) operator(h http.HandlerFunc) http.HandlerFunc {
	cross := http.NewCrossOriginProtection()
	return func(w http.ResponseWriter, r *http.Request) {
		if a.opt.AdminToken == "" {
			local, _ := r.Context().Value(localKey{}).(bool)
			if !local || !peer(r).IsLoopback() || Forwarded(r) || !LoopbackHost(r.Host) || cross.Check(r) != nil {
				answer.Problem{Status: http.StatusForbidden,
					Detail: "for operators only: configure an admin token, or ask the admin port from this machine"}.Write(w)
				return
			}
			h(w, r)
			return
		}
		ok, wait := a.opt.Guesses.CheckToken(r, a.opt.AdminToken)
		switch {
		case ok:
			h(w, r)
		case wait > 0:
			answer.Problem{Status: http.StatusTooManyRequests, Detail: "too many wrong admin tokens",
				RetryAfter: int64(math.Ceil(wait.Seconds()))}.Write(w)
		default:
			w.Header().Set("WWW-Authenticate", `Bearer realm="weir admin"`)
			answer.Problem{Status: http.StatusUnauthorized, Detail: "send the admin token as Authorization: Bearer TOKEN"}.Write(w)
		}
	}
}

// Authorized implements [Paths]. A wrong token is counted as a guess. It is not
// answered as one, as the request may be meant for another server.
func (a *API) Authorized(r *http.Request) bool {
	if a.opt.AdminToken == "" || len(r.Header["Authorization"]) == 0 {
		return false
	}
	ok, _ := a.opt.Guesses.CheckToken(r, a.opt.AdminToken)
	return ok
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

// LoopbackHost reports whether a Host header names this machine's loopback.
func LoopbackHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	if strings.EqualFold(name, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.Unmap().IsLoopback()
}
