package dashboard

import (
	"crypto/hmac"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/weirlimit/weir/answer"
)

// CSRFHeader is the header that a session's changing requests carry.
const CSRFHeader = "Weir-CSRF"

// Names of the session cookie. The prefix binds it to this very host and to TLS.
const (
	cookieName       = "weir_session"
	secureCookieName = "__Host-weir_session"
)

// overTLS reports whether the browser speaks TLS, to this listener or to the
// proxy before it. Who lies about it locks out himself alone.
func overTLS(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

// sessionOf returns the session that a request belongs to, nil if none.
func (d *Dashboard) sessionOf(r *http.Request) *session {
	for _, c := range r.Cookies() {
		if c.Name == cookieName || c.Name == secureCookieName {
			if v := d.sessions.readCookie(c.Value); v != nil {
				return v
			}
		}
	}
	return nil
}

// fromPage reports whether a browser says that the request comes from a page of
// this origin, or from its user. SameSite keeps other sites' requests away from
// the cookie, but another port of this host is no other site.
func fromPage(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	return false
}

// Accept lets sessions in where next asks for the bearer token: a request that
// carries a session's cookie, and with a method that can change something its
// CSRF header, goes on as if it carried the token. All others go on as they are,
// those of the dashboard itself too.
func (d *Dashboard) Accept(next http.Handler) http.Handler {
	if d.sessions == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || !fromPage(r) || strings.HasPrefix(r.URL.Path, home) {
			next.ServeHTTP(w, r)
			return
		}
		v := d.sessionOf(r)
		if v == nil {
			next.ServeHTTP(w, r)
			return
		}
		if !d.mayChange(r, v) {
			answer.Problem{Status: http.StatusForbidden,
				Detail: "a session changes something only with the header " + CSRFHeader + ", whose value /ui/session tells"}.Write(w)
			return
		}
		in := r.WithContext(r.Context())
		in.Header = r.Header.Clone()
		in.Header.Set("Authorization", "Bearer "+d.opt.Token)
		in.Header.Del("Cookie")
		next.ServeHTTP(w, in)
	})
}

// mayChange reports whether a request of a session only reads, or proves that it
// comes from its page.
func (d *Dashboard) mayChange(r *http.Request, v *session) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return true
	}
	return d.cross.Check(r) == nil && hmac.Equal([]byte(r.Header.Get(CSRFHeader)), []byte(d.sessions.csrfToken(v)))
}

// session answers GET /ui/session, by which the page learns whether it is logged
// in, until when, and what its changing requests must carry.
func (d *Dashboard) session(w http.ResponseWriter, r *http.Request) {
	type offered struct {
		// Login says that there is a login at all.
		Login   bool       `json:"login"`
		Expires *time.Time `json:"expires,omitempty"`
		CSRF    string     `json:"csrf,omitempty"`
	}
	out := offered{Login: d.sessions != nil}
	if out.Login {
		v := d.sessionOf(r)
		if v == nil || !fromPage(r) {
			answer.Problem{Status: http.StatusUnauthorized, Detail: "log in at /ui/login"}.Write(w)
			return
		}
		at := v.expires.UTC()
		out.Expires, out.CSRF = &at, d.sessions.csrfToken(v)
	}
	w.Header().Set("Content-Type", "application/json")
	// The connection is gone when this fails, there is nobody left to tell.
	_ = json.NewEncoder(w).Encode(out)
}
