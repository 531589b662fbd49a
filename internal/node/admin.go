package node

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/guesses"
	"github.com/weirlimit/weir/internal/insight/dashboard"
)

// adminHandler serves what operators ask for.
func (s *Server) adminHandler(token string) http.Handler {
	mux, wrong := http.NewServeMux(), s.guesses
	s.state.addHealth(mux, s.store.degraded)

	inner := http.NewServeMux()
	inner.Handle("GET /metrics", s.metrics.Handler())
	inner.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.build) })
	inner.HandleFunc("GET /rules", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.rules.status()) })
	inner.HandleFunc("GET /config", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		if err := s.conf.Print(w); err != nil {
			s.log.Debug("response to an admin client failed", "err", err)
		}
	})
	// Without cmdline: a token may stand there.
	inner.HandleFunc("GET /debug/pprof/", pprof.Index)
	inner.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	inner.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	inner.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.Handle("/", guardAdmin(token, wrong, withProblems(inner)))
	// The operators' part of the API guards itself in the same way.
	mux.Handle("/v1/", s.api.AdminHandler())
	mountDashboard(mux, s.dashboard, token, wrong, adminIndex)
	mux.Handle("GET /v1/live", guardAdmin(token, wrong, liveHandler(s.events)))
	mux.Handle(analyticsPath, guardAdmin(token, wrong, s.analyticsHandler()))
	return s.dashboard.Accept(mux)
}

// mountDashboard adds the page at /ui/, to which a browser is sent that asks for /;
// everybody else gets the index there.
func mountDashboard(mux *http.ServeMux, d *dashboard.Dashboard, token string, wrong *guesses.Bound, index http.HandlerFunc) {
	if token != "" {
		mux.Handle("/ui/", d) // which has a login
	} else {
		mux.Handle("/ui/", guardAdmin("", nil, d))
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if dashboard.WantsPage(r) {
			http.Redirect(w, r, "/ui/", http.StatusSeeOther)
			return
		}
		guardAdmin(token, wrong, index).ServeHTTP(w, r)
	})
}

func adminIndex(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprint(w, `weir admin
/ui/            the dashboard, for browsers
/metrics        Prometheus metrics
/healthz/live   the process runs
/healthz/ready  the node takes requests; 503 while it starts and while it drains
/healthcheck    the same, at the path of envoyproxy/ratelimit
/rules          which rules are in use, since when, and how the last reloads went
/v1/rules       every compiled rule
/v1/explain     POST a request: which rules it meets, and why
/v1/admin/...   POST to inspect, reset, grant, ban or override one key
/v1/admin/shed  how load shedding stands; PATCH to change it
/v1/analytics/  what was decided, kept and asked about
/v1/live        what is decided, as it is decided: server-sent events
/config         the configuration in use, secrets left out
/version        which binary runs
/debug/pprof/   profiles
`)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	// The connection is gone when this fails, there is nobody left to tell.
	_ = enc.Encode(v)
}

// guardAdmin lets through who carries the token. Without a token the listener is on
// loopback, and requests must be meant for it: a page in a local browser whose
// name was rebound to 127.0.0.1 says its own name in Host, another page that its
// request crosses sites, and a proxy on this machine speaks for somebody else.
// Wrong tokens are bounded; a right one is always let through.
func guardAdmin(token string, wrong *guesses.Bound, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token == "" {
			if why := notLocal(r); why != "" {
				answer.Problem{Status: http.StatusForbidden, Detail: why}.Write(w)
				return
			}
		} else if !httpapi.CarriesToken(w, r, wrong, token) {
			return
		}
		next.ServeHTTP(w, r)
	})
}

// notLocal says why a request to a listener without a token does not come from a
// program of this machine, "" if it does.
func notLocal(r *http.Request) string {
	site := r.Header.Get("Sec-Fetch-Site")
	switch {
	case !httpapi.LoopbackHost(r.Host):
		return "this address answers to localhost only: ask for it by that name, or start with --admin-token-file"
	case httpapi.Forwarded(r):
		return "this address answers no proxy, which speaks for others: start with --admin-token-file"
	case site == "cross-site" && !strings.HasPrefix(r.URL.Path, "/ui/"), site == "same-site" && strings.HasPrefix(r.URL.Path, "/debug/"):
		return "this address answers no page of another site"
	}
	return ""
}

// openAdmin builds the listener for operators, which is drained last.
func openAdmin(s *Server) (frontend, error) {
	c := s.conf.Admin
	if c.Listen == "" {
		return frontend{}, nil
	}
	addr := config.WithHost(c.Listen, config.Loopback)
	if s.token == "" && !config.IsLoopback(addr) {
		return frontend{}, fmt.Errorf("--admin %s can be reached from other machines and there is no admin token: give --admin-token-file FILE, or listen on 127.0.0.1", c.Listen)
	}
	cert, err := s.certs.openCertificate(c.TLS, "")
	if err != nil {
		return frontend{}, err
	}
	if s.token != "" && cert == nil && !config.IsLoopback(addr) {
		s.log.Warn("admin token is sent in clear text; set admin.tls", "addr", c.Listen)
	}
	if s.dashboard, err = dashboard.New(dashboard.Options{Token: s.token, Guesses: s.guesses, Log: s.log}); err != nil {
		return frontend{}, err
	}
	const maxAdminConns = 64
	return frontend{
		listen:   addr,
		tls:      c.TLS,
		maxConns: maxAdminConns,
		last:     true,
		serve:    newOperatorServer(s.adminHandler(s.token), s.conf.HTTP, cert, time.Second, s.log),
	}, nil
}
