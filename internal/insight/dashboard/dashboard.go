package dashboard

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/guesses"
)

// Options configures a [Dashboard].
type Options struct {
	// Token is what operators show to log in, at least 16 bytes. Zero means that
	// there is no login: the caller lets only loopback in.
	Token string
	// Session is how long a login lasts, a minute to 30 days. Zero means twelve
	// hours.
	Session time.Duration
	// Guesses bounds wrong tokens of one address, and logs them. Nil means that they
	// are not bounded.
	Guesses *guesses.Bound
	// Now tells the time. Zero means time.Now.
	Now func() time.Time
	// Log is told of logins. Zero means nobody is told.
	Log *slog.Logger
}

// Dashboard serves the page under /ui/. Safe for concurrent use.
type Dashboard struct {
	opt      Options
	sessions *sessions
	cross    *http.CrossOriginProtection
	mux      *http.ServeMux
}

const minToken = 16

// New returns the dashboard. It returns an error when an option is out of range.
func New(opt Options) (*Dashboard, error) {
	opt.Session = cmp.Or(opt.Session, 12*time.Hour)
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	if opt.Now == nil {
		opt.Now = time.Now
	}
	switch {
	case opt.Token != "" && len(opt.Token) < minToken:
		return nil, fmt.Errorf("dashboard: token has %d bytes, at least %d are needed", len(opt.Token), minToken)
	case opt.Session < time.Minute || opt.Session > 30*24*time.Hour:
		return nil, fmt.Errorf("dashboard: session of %s must last from a minute to 30 days", opt.Session)
	}
	d := &Dashboard{opt: opt, cross: http.NewCrossOriginProtection(), mux: http.NewServeMux()}
	if opt.Token != "" {
		d.sessions = newSessions(opt.Token, opt.Session, opt.Now)
	}
	d.addRoutes()
	return d, nil
}

func (d *Dashboard) addRoutes() {
	d.mux.HandleFunc("GET /ui/assets/", serveAsset)
	d.mux.HandleFunc("GET /ui/session", d.session)
	d.mux.HandleFunc("GET /ui/login", d.loginPage)
	d.mux.HandleFunc("POST /ui/login", d.handleLogin)
	d.mux.HandleFunc("POST /ui/logout", d.handleLogout)
	d.mux.HandleFunc("GET /ui/", d.servePage)
}

// policy lets a page load what its own origin serves, and nothing else: no
// script or style within the page, no frame around it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store") // unless an asset says otherwise
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	d.mux.ServeHTTP(w, r)
}

// servePage answers every address of the page with the page, which finds its way by
// the path itself, and sends who is not logged in to the login.
func (d *Dashboard) servePage(w http.ResponseWriter, r *http.Request) {
	if d.sessions != nil && d.sessionOf(r) == nil {
		http.Redirect(w, r, loginPath(r.URL.RequestURI()), http.StatusSeeOther)
		return
	}
	serveIndex(w, r)
}

// WantsPage reports whether a request is a browser's that asks for a page, rather
// than a command's.
func WantsPage(r *http.Request) bool {
	for _, accept := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(accept, ",") {
			if media, _, _ := strings.Cut(part, ";"); strings.EqualFold(strings.TrimSpace(media), "text/html") {
				return true
			}
		}
	}
	return false
}
