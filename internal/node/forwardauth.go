package node

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/weirlimit/weir/internal/frontend/authorize"
	"github.com/weirlimit/weir/internal/frontend/forwardauth"
	"github.com/weirlimit/weir/internal/telemetry"
)

// authorize returns what decides for proxies that ask.
func (s *Server) authorize() (authorize.Options, error) {
	opt := authorize.Options{
		Limiter: s.limiter, Domain: s.conf.API.Domain, Identity: s.identity.Resolver, Answer: s.answer, Shed: s.shed, Has: s.rules.currentLimits().Has,
		MaxWaiting: int(min(max(s.conf.Gateway.MaxWaiting, 0), 1<<30)), Log: s.log,
	}
	var err error
	if opt.Plan, err = s.defaultPlan(); err != nil {
		return opt, err
	}
	for i := range s.conf.Routes {
		r, err := s.conf.GatewayRoute(i)
		if err != nil {
			return opt, err
		}
		opt.Routes = append(opt.Routes, r.Route)
	}
	if len(s.conf.Routes) == 0 && s.conf.Rules == "" && s.conf.Shed == nil && !s.rules.words.LimitForwarded() {
		return opt, errors.New("no limit applies to what proxies ask about, as they know no client_id: count by ip or by all")
	}
	return opt, nil
}

// withForwardAuth returns h with what proxies ask at beside it.
func (s *Server) withForwardAuth(h http.Handler) (http.Handler, error) {
	if s.conf.ForwardAuth.Prefix == "" {
		return h, nil
	}
	opt, err := s.authorize()
	if err != nil {
		return nil, fmt.Errorf("--forward-auth: %w", err)
	}
	fa, err := forwardauth.New(forwardauth.Options{
		Authorize: opt, Prefix: s.conf.ForwardAuth.Prefix, ClientHeader: s.conf.Identity.ClientHeader(),
	})
	if err != nil {
		return nil, fmt.Errorf("--forward-auth: %w", err)
	}
	s.coverage.warnOfAsked()
	for _, name := range s.conf.Identity.ProxyHeaders() {
		s.log.Warn("header is passed on from clients: configure the proxies to set or remove it", "header", name)
	}
	path := s.conf.ForwardAuth.Prefix
	timed := s.measure(telemetry.HTTPOptions{Frontend: "forwardauth", Route: func(*http.Request) string { return path }}, fa)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fa.ServesTarget(r.RequestURI) {
			timed.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	}), nil
}
