package dashboard

import (
	"fmt"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/guesses"
)

// loginPath is where to log in, to go on at next afterwards.
func loginPath(next string) string {
	if next = localPath(next); next == home {
		return "/ui/login"
	}
	return "/ui/login?" + url.Values{"next": {next}}.Encode()
}

const home = "/ui/"

// localPath returns next if it is an address of the page, else the page's first. Any
// other would lead from the login to whatever a link says.
func localPath(next string) string {
	const most = 4096 // bytes
	u, err := url.Parse(next)
	if err != nil || len(next) > most || !strings.HasPrefix(next, home) || u.Host != "" || u.Scheme != "" ||
		strings.ContainsAny(next, "\\\r\n") || strings.Contains(u.Path, "..") || strings.HasPrefix(u.Path, "/ui/log") {
		return home
	}
	return next
}

var loginTemplate = template.Must(template.ParseFS(embedded, "login.html"))

func (d *Dashboard) showLogin(w http.ResponseWriter, status int, next, fault string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := loginTemplate.Execute(w, struct{ Next, Fault string }{next, fault}); err != nil {
		d.opt.Log.Debug("login page not written", "err", err)
	}
}

// loginPage answers GET /ui/login.
func (d *Dashboard) loginPage(w http.ResponseWriter, r *http.Request) {
	next := localPath(r.URL.Query().Get("next"))
	if d.sessions == nil || d.sessionOf(r) != nil {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	d.showLogin(w, http.StatusOK, next, "")
}

// handleLogin answers POST /ui/login.
func (d *Dashboard) handleLogin(w http.ResponseWriter, r *http.Request) {
	if d.sessions == nil {
		http.Redirect(w, r, home, http.StatusSeeOther)
		return
	}
	if err := d.cross.Check(r); err != nil {
		answer.Problem{Status: http.StatusForbidden, Detail: "log in from the dashboard's own page"}.Write(w)
		return
	}
	const maxForm = 16 << 10
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		d.showLogin(w, http.StatusBadRequest, home, "The form did not arrive as it should.")
		return
	}
	next, from := localPath(r.PostForm.Get("next")), guesses.Client(r.RemoteAddr)
	ok, wait := d.opt.Guesses.Check(r.Context(), "admin token at the login", from, d.opt.Token, guesses.Equal(r.PostForm.Get("token"), d.opt.Token))
	switch {
	case wait > 0:
		seconds := int64(math.Ceil(wait.Seconds()))
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
		d.showLogin(w, http.StatusTooManyRequests, next, fmt.Sprintf("Too many attempts. Try again in %d s.", seconds))
		return
	case !ok:
		d.showLogin(w, http.StatusUnauthorized, next, "This is not the admin token.")
		return
	}
	value, v := d.sessions.startSession()
	d.opt.Log.Info("logged in to the dashboard", "from", from, "until", v.expires.UTC())
	http.SetCookie(w, d.sessionCookie(r, value, int(d.opt.Session.Seconds())))
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// sessionCookie returns the session's cookie; an age below zero takes it away.
func (d *Dashboard) sessionCookie(r *http.Request, value string, age int) *http.Cookie {
	c := &http.Cookie{Name: cookieName, Value: value, Path: "/", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if overTLS(r) {
		c.Name, c.Secure = secureCookieName, true
	}
	return c
}

// handleLogout answers POST /ui/logout.
func (d *Dashboard) handleLogout(w http.ResponseWriter, r *http.Request) {
	if d.sessions == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	v := d.sessionOf(r)
	if v != nil && !d.mayChange(r, v) {
		answer.Problem{Status: http.StatusForbidden, Detail: "a logout needs the header " + CSRFHeader}.Write(w)
		return
	}
	if v != nil {
		d.sessions.endSession(v)
		d.opt.Log.Info("logged out of the dashboard", "from", guesses.Client(r.RemoteAddr))
	}
	http.SetCookie(w, d.sessionCookie(r, "", -1))
	w.WriteHeader(http.StatusNoContent)
}
