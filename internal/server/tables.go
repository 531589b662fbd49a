package server

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/insight/dashboard"
	"github.com/weirlimit/weir/internal/insight/queue/kafka"
	"github.com/weirlimit/weir/internal/insight/queue/nats"
	"github.com/weirlimit/weir/internal/insight/queue/rabbitmq"
	"github.com/weirlimit/weir/reserve"
	"github.com/weirlimit/weir/store/memcached"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/redis"
	"github.com/weirlimit/weir/telemetry"
)

// stores are the stores there are, by the scheme of their URL.
var stores = map[string]storeKind{
	"memory":          {openMemory, memory.Check},
	"memcached":       {openMemcached, checkOf(memcached.Check)},
	"redis":           {openRedis, checkOf(redis.Check)},
	"rediss":          {openRedis, checkOf(redis.Check)},
	"redis+unix":      {openRedis, checkOf(redis.Check)},
	"redis+sentinel":  {openRedis, checkOf(redis.Check)},
	"rediss+sentinel": {openRedis, checkOf(redis.Check)},
	"redis+cluster":   {openRedis, checkOf(redis.Check)},
	"rediss+cluster":  {openRedis, checkOf(redis.Check)},
	"redis+ring":      {openRedis, checkOf(redis.Check)},
	"rediss+ring":     {openRedis, checkOf(redis.Check)},
}

// queues are the queues that events can go to, by the scheme of their URL, beside
// local: and off.
var queues = map[string]queueKind{
	"kafka":  queueKindOf(kafka.Open, kafka.Consume),
	"kafkas": queueKindOf(kafka.Open, kafka.Consume),
	"nats":   queueKindOf(nats.Open, nats.Consume),
	"natss":  queueKindOf(nats.Open, nats.Consume),
	"amqp":   queueKindOf(rabbitmq.Open, rabbitmq.Consume),
	"amqps":  queueKindOf(rabbitmq.Open, rabbitmq.Consume),
}

// databases keep what events tell, by the scheme of their URL.
var databases = map[string]databaseKind{
	"memory":     {open: openSQLite},
	"sqlite":     {open: openSQLite},
	"postgres":   {openPostgres, postgresLate},
	"postgresql": {openPostgres, postgresLate},
}

// openFrontend builds a way in. One without an address is not opened.
type openFrontend func(s *Server) (frontend, error)

// frontends are the ways in, by their section of the configuration.
var frontends = map[string]openFrontend{
	"http":  openHTTP,
	"admin": openAdmin,
	"grpc":  openGRPC,
	"resp":  openRESP,
}

// grpcServices are what is served on the gRPC listener.
var grpcServices = map[string]openGRPCService{
	"ext_authz": openExtAuthz,
	"rls":       openRLS,
	"weir":      openLimitService,
}

// sections are the keys of frontends, in the order in which they are opened.
var sections = slices.Sorted(maps.Keys(frontends))

// kindOfStore returns the kind of the store that c names.
func kindOfStore(c *Config) (storeKind, error) {
	return kindOf("--store", "memory: or redis://127.0.0.1:6379", c.storeOfRegion(), stores)
}

// openStoreOf opens the store that conf names.
func openStoreOf(conf *Config, log *slog.Logger) (openedStore, error) {
	kind, err := kindOfStore(conf)
	if err != nil {
		return openedStore{}, err
	}
	if own := conf.storeOfRegion(); own != conf.Store {
		in := *conf
		in.Store, conf = own, &in
	}
	opened, err := kind.open(conf, log)
	opened.check = kind.check
	return opened, err
}

// openReserver builds what reservations are made by, unless the store cannot
// keep them.
func (s *Server) openReserver() error {
	opt := reserve.Options{TTL: s.conf.API.ReserveTTL, Region: s.conf.Region}
	if f := s.conf.API.ReserveKeyFile; f != "" {
		var err error
		if opt.Secret, err = readSecret(f); err != nil {
			return fmt.Errorf("--reserve-key-file: %w", err)
		}
	}
	r, err := reserve.New(s.limiter, opt)
	if err != nil {
		return fmt.Errorf("--reserve-key-file, api.reserve_ttl: %w", err)
	}
	if s.store.alignedOnly {
		s.log.Info("reservations are disabled: the store cannot remember settled ones")
		return nil
	}
	s.reserver = r
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
		Shed:        s.shed,
		Priority:    s.conf.priority(),
		Bodies:      s.bodies,
		AdminToken:  s.token,
		Guesses:     s.guesses,
		Log:         s.log,
	})
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

// openHTTP builds the API and, where there is an upstream, the gateway.
func openHTTP(s *Server) (frontend, error) {
	route := func(r *http.Request) string {
		if s.api.Serves(r.URL.Path) {
			return r.URL.Path // it has no variable parts
		}
		return ""
	}
	h := s.measure(telemetry.HTTPOptions{Frontend: "httpapi", Route: route}, s.api)
	if !s.conf.forwards() {
		h = s.state.withHealth(h)
	} else {
		g, err := s.gateway()
		if err != nil {
			return frontend{}, err
		}
		trust, err := s.conf.trusted()
		if err != nil {
			return frontend{}, err
		}
		h = httpapi.Guard(trust, s.identity.clientOf, s.api, h, s.measure(telemetry.HTTPOptions{Frontend: "gateway", Pass: true}, g))
	}
	h, err := s.withForwardAuth(h)
	if err != nil {
		return frontend{}, err
	}
	cert, err := s.certs.open(s.conf.HTTP.TLS)
	if err != nil {
		return frontend{}, err
	}
	proxies, err := prefixes("--proxy-protocol", s.conf.HTTP.ProxyProtocol)
	if err != nil {
		return frontend{}, err
	}
	return frontend{
		listen:   s.conf.HTTP.Listen,
		proxies:  proxies,
		tls:      s.conf.HTTP.TLS,
		maxConns: s.conf.HTTP.MaxConnections, maxClient: s.conf.HTTP.MaxClientConns,
		serve: newHTTPServer(h, s.conf.HTTP, cert, s.conf.Drain, s.log),
	}, nil
}

// openAdmin builds the listener for operators, which is drained last.
func openAdmin(s *Server) (frontend, error) {
	c := s.conf.Admin
	if c.Listen == "" {
		return frontend{}, nil
	}
	if s.token == "" && !loopbackListen(c.Listen) {
		return frontend{}, fmt.Errorf("--admin %s can be reached from other machines and there is no admin token: give --admin-token-file FILE, or listen on 127.0.0.1", c.Listen)
	}
	cert, err := s.certs.open(c.TLS)
	if err != nil {
		return frontend{}, err
	}
	if s.token != "" && cert == nil && !loopbackListen(c.Listen) {
		s.log.Warn("admin token is sent in clear text; set --admin-tls-cert and --admin-tls-key", "addr", c.Listen)
	}
	if s.dashboard, err = dashboard.New(dashboard.Options{Token: s.token, Log: s.log}); err != nil {
		return frontend{}, err
	}
	const maxAdminConns = 64
	return frontend{
		listen:   c.Listen,
		tls:      c.TLS,
		maxConns: maxAdminConns,
		last:     true,
		serve:    newOperatorServer(s.adminHandler(s.token), s.conf.HTTP, cert, time.Second, s.log),
	}, nil
}
