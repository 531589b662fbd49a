package server

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/frontend/httpapi"
	"github.com/weirlimit/weir/metrics"
	"github.com/weirlimit/weir/reserve"
	"github.com/weirlimit/weir/sketch"
	"github.com/weirlimit/weir/store/memory"
)

// openStore opens the store that a URL names.
type openStore func(u *url.URL, log *slog.Logger) (openedStore, error)

// openedStore is a store and what else it can do.
type openedStore struct {
	weir.Store
	// keyring looks at single keys.
	keyring httpapi.Keyring
	// stats is what the store says of itself, sketch of an approximate limit.
	stats  func() metrics.Store
	sketch func(*weir.Limit) (sketch.Stats, bool)
	// check says why a limit cannot be served.
	check func(*weir.Limit) error
}

// stores are the stores there are, by the scheme of their URL.
var stores = map[string]openStore{
	"memory": openMemory,
}

// openFrontend builds a way in. One without an address is not opened.
type openFrontend func(s *Server) (frontend, error)

// frontends are the ways in, by their section of the configuration.
var frontends = map[string]openFrontend{
	"http":  openHTTP,
	"admin": openAdmin,
}

// sections are the keys of frontends, in the order in which they are opened.
var sections = slices.Sorted(maps.Keys(frontends))

// openStoreURL opens the store of a --store URL.
func openStoreURL(text string, log *slog.Logger) (openedStore, error) {
	u, err := url.Parse(text)
	if err != nil {
		return openedStore{}, fmt.Errorf("--store is not a URL: give one such as \"memory:\"")
	}
	open, ok := stores[u.Scheme]
	if !ok {
		known := slices.Sorted(maps.Keys(stores))
		return openedStore{}, fmt.Errorf("--store %q: unknown scheme %q%s: there are %v", u.Redacted(), u.Scheme, meant(u.Scheme, known), known)
	}
	return open(u, log)
}

func openMemory(u *url.URL, log *slog.Logger) (openedStore, error) {
	if u.Host != "" || u.Opaque != "" || u.Path != "" && u.Path != "/" {
		return openedStore{}, fmt.Errorf("--store %q: memory takes no name: write memory:?max_bytes=512MiB", u)
	}
	opt := memory.Options{Logger: log}
	for key, values := range u.Query() {
		if key != "max_bytes" {
			return openedStore{}, fmt.Errorf("--store %q: unknown parameter %q%s", u, key, meant(key, []string{"max_bytes"}))
		}
		var b Bytes
		if err := b.UnmarshalText([]byte(values[0])); err != nil || b < memory.MinBytes {
			return openedStore{}, fmt.Errorf("--store %q: max_bytes %q is not a number of bytes such as 512MiB, at least %s", u, values[0], Bytes(memory.MinBytes))
		}
		opt.MaxBytes = int64(b)
	}
	s := memory.New(opt)
	return openedStore{
		Store:   s,
		keyring: s,
		stats:   func() metrics.Store { return storeMetrics(s.Stats()) },
		sketch:  s.Approximate,
		check:   memory.Check,
	}, nil
}

// openAPI builds the API, part of which is on the admin listener too.
func (s *Server) openAPI(bans *httpapi.Bans) (*httpapi.API, error) {
	opt := reserve.Options{TTL: s.conf.API.ReserveTTL}
	if f := s.conf.API.ReserveKeyFile; f != "" {
		var err error
		if opt.Secret, err = readBounded(f, 4096); err != nil {
			return nil, fmt.Errorf("--reserve-key-file: %w", err)
		}
	}
	reserver, err := reserve.New(s.limiter, opt)
	if err != nil {
		return nil, fmt.Errorf("--reserve-key-file, --reserve-ttl: %w", err)
	}
	return httpapi.New(httpapi.Options{
		Limiter:     s.limiter,
		Domain:      s.conf.API.Domain,
		BodyTimeout: bodyTimeout(s.conf.HTTP.ReadTimeout),
		Reserver:    reserver,
		Rulebook:    s.rules,
		Keyring:     s.store.keyring,
		Bans:        bans,
		Shed:        s.shed,
		Priority:    s.conf.priority(),
		AdminToken:  s.token,
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
	var h http.Handler = s.metrics.Instrument("httpapi", s.api)
	if !s.conf.forwards() {
		h = s.withHealth(h)
	} else {
		g, err := s.gateway()
		if err != nil {
			return frontend{}, err
		}
		trust, err := s.conf.trusted()
		if err != nil {
			return frontend{}, err
		}
		h = httpapi.Guard(trust, s.clientOf, timedAPI{h, s.api}, s.metrics.Instrument("gateway", g))
	}
	cert, err := s.certificate(s.conf.HTTP.TLS)
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
		maxConns: s.conf.HTTP.MaxConnections,
		serve:    newHTTPServer(h, s.conf.HTTP, cert, s.conf.Drain, s.log),
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
	cert, err := s.certificate(c.TLS)
	if err != nil {
		return frontend{}, err
	}
	if s.token != "" && cert == nil && !loopbackListen(c.Listen) {
		s.log.Warn("the admin token crosses the network in clear: give --admin-tls-cert and --admin-tls-key", "addr", c.Listen)
	}
	// Profiles take as long as they are asked to.
	limits := HTTP{ReadHeaderTimeout: s.conf.HTTP.ReadHeaderTimeout, ReadTimeout: time.Minute,
		IdleTimeout: s.conf.HTTP.IdleTimeout, MaxHeaderBytes: s.conf.HTTP.MaxHeaderBytes,
		StallTimeout: s.conf.HTTP.StallTimeout, MaxStreams: s.conf.HTTP.MaxStreams}
	const maxAdminConns = 64
	srv := newHTTPServer(s.adminHandler(s.token), limits, cert, Drain{Timeout: time.Second}, s.log)
	// Nobody's request waits for an operator's connection.
	srv.linger = 0
	return frontend{
		listen:   c.Listen,
		tls:      c.TLS,
		maxConns: maxAdminConns,
		last:     true,
		serve:    srv,
	}, nil
}

// certificate opens the certificate of a listener, nil for one without.
func (s *Server) certificate(files TLS) (*certificate, error) {
	if files.Cert == "" {
		return nil, nil
	}
	c, err := openCertificate(files, s.log)
	if err != nil {
		return nil, err
	}
	s.certs = append(s.certs, c)
	return c, nil
}

// timedAPI is the API behind a timer.
type timedAPI struct {
	http.Handler
	api *httpapi.API
}

// Serves implements httpapi.Paths.
func (t timedAPI) Serves(path string) bool { return t.api.Serves(path) }

// storeMetrics translates what the memory store says of itself.
func storeMetrics(s memory.Stats) metrics.Store {
	return metrics.Store{
		Keys:        uint64(s.Keys),
		Bytes:       uint64(s.Bytes),
		Bound:       uint64(s.MaxBytes),
		Approximate: uint64(s.ApproximateBytes),
		Overflowed:  s.Overflowed,
		Full:        s.Overflows > 0,
	}
}
