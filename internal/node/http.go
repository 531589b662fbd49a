package node

import (
	"fmt"
	"net/http"
	"time"

	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/frontend/gateway"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/reserve"
)

// openReserver builds what reservations are made by, unless the store cannot
// keep them.
func (s *Server) openReserver() error {
	secret, err := config.ReadSecret("api.reserve_key_file", s.conf.API.ReserveKeyFile)
	if err != nil {
		return err
	}
	r, err := reserve.New(s.limiter, reserve.Options{TTL: s.conf.API.ReserveTTL, Region: s.conf.Region, Secret: secret})
	if err != nil {
		return fmt.Errorf("api.reserve_key_file, api.reserve_ttl: %w", err)
	}
	if s.store.alignedOnly {
		s.log.Info("reservations are disabled: the store cannot remember settled ones")
		return nil
	}
	s.reserver, s.closers = r, append(s.closers, func() error { r.Close(); return nil })
	return nil
}

// openAPI builds the API, part of which is on the admin listener too.
func (s *Server) openAPI() (*httpapi.API, error) {
	return httpapi.New(httpapi.Options{
		Limiter:     s.limiter,
		Domain:      s.conf.API.Domain,
		BodyTimeout: bodyTimeout(s.conf.HTTP.ReadTimeout),
		Reserver:    s.reserver,
		Rulebook:    s.rules,
		Keyring:     s.store.keyring,
		Overlay:     s.overlay,
		Clients:     func(name string) []httpapi.KnownClient { return s.rules.knownClients(s.events, name) },
		EntryForm:   s.entryForm,
		IsSent:      func(keys []string, isAnywhere bool) bool { return isSent(s, keys, isAnywhere) },
		Shed:        s.shed,
		Priority:    s.conf.DefaultPriority(),
		Strict:      s.conf.API.Strict,
		Bodies:      s.bodies,
		AdminToken:  s.token,
		Guesses:     s.guesses,
		Log:         s.log,
	})
}

// openHTTP builds the API and, where there is an upstream, the gateway.
func openHTTP(s *Server) (frontend, error) {
	if s.conf.HTTP.Listen == "" {
		return frontend{}, nil
	}
	route := func(r *http.Request) string {
		if s.api.ServesPath(r.URL.Path) {
			return r.URL.Path // it has no variable parts
		}
		return ""
	}
	h := s.measure(telemetry.HTTPOptions{Frontend: "httpapi", Route: route}, s.api)
	if !s.conf.Forwards() {
		h = s.state.withHealth(h)
	} else {
		g, err := s.gateway()
		if err != nil {
			return frontend{}, err
		}
		trust, err := s.conf.TrustedPrefixes()
		if err != nil {
			return frontend{}, err
		}
		h = httpapi.Guard(trust, s.identity.clientOf, s.api, h, s.measure(telemetry.HTTPOptions{Frontend: "gateway", Pass: true}, g))
	}
	h, err := s.withForwardAuth(h)
	if err != nil {
		return frontend{}, err
	}
	cert, err := s.certs.openCertificate(s.conf.HTTP.TLS, "")
	if err != nil {
		return frontend{}, err
	}
	proxies, err := config.ParsePrefixes("--proxy-protocol", s.conf.HTTP.ProxyProtocol)
	if err != nil {
		return frontend{}, err
	}
	return frontend{
		listen:   config.WithHost(s.conf.HTTP.Listen, config.AllHosts),
		proxies:  proxies,
		tls:      s.conf.HTTP.TLS,
		maxConns: s.conf.HTTP.MaxConnections, maxClient: s.conf.HTTP.MaxClientConns,
		serve: newHTTPServer(h, s.conf.HTTP, cert, s.conf.Drain, s.log),
	}, nil
}

// bodyTimeout is how long the API waits for a body: ten seconds, which suffice
// for its small ones, or what whole requests have if that is less.
func bodyTimeout(whole time.Duration) time.Duration {
	const most = 10 * time.Second
	if whole > 0 && whole < most {
		return whole
	}
	return most
}

// gateway builds what forwards to the upstreams.
func (s *Server) gateway() (*gateway.Gateway, error) {
	opt, err := s.conf.GatewayOptions()
	if err != nil {
		return nil, err
	}
	if opt.Limits.Plan, err = s.defaultPlan(); err != nil {
		return nil, err
	}
	opt.Limits.Shed = s.shed
	opt.Limits.Limiter, opt.Limits.Identity, opt.Limits.Answer, opt.Log = s.limiter, s.identity.Resolver, s.answer, s.log
	s.coverage.warnOfNeverPaths()
	s.coverage.warnOfUncounted()
	s.coverage.warnUnlimited()
	return gateway.New(opt)
}
