// Package node builds a node from its configuration, runs it and drains it.
//
// tables.go lists what a node can be made of: the stores by their kind, the front ends
// by their section of the configuration. Adding one is a line there.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/bodies"
	"github.com/weirlimit/weir/internal/check"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/frontend/httpapi"
	"github.com/weirlimit/weir/internal/frontend/resp"
	"github.com/weirlimit/weir/internal/guesses"
	"github.com/weirlimit/weir/internal/insight/dashboard"
	"github.com/weirlimit/weir/internal/listen"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/proxyprotocol"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/metrics"
	"github.com/weirlimit/weir/reserve"
	"github.com/weirlimit/weir/shed"
)

// Server is one node. Safe for concurrent use.
type Server struct {
	conf  *config.Config
	log   *slog.Logger
	build Build
	rules *ruleSet
	store openedStore
	// overlay is the limiter's rules: bans and overrides, and the rules beneath.
	overlay *overlay.Overlay
	limiter *weir.Limiter
	// reserver is nil where the store cannot keep reservations.
	reserver *reserve.Reserver
	api      *httpapi.API
	// guesses bounds wrong tokens and passwords at all doors.
	guesses *guesses.Bound
	// bodies bounds what unfinished requests of all front ends hold together.
	bodies *bodies.Budget
	answer *answer.Writer
	// identity says who sent a request.
	identity *callers
	coverage *coverage
	shed     *shed.Shedder // nil without one
	metrics  *metrics.Metrics
	resp     *resp.Server // nil without Redis clients
	// telemetry is nil while nothing is sent to a collector. opened is set when all
	// is there that it reads.
	telemetry *telemetry.Telemetry
	opened    atomic.Bool
	// dashboard is nil without an admin listener.
	dashboard *dashboard.Dashboard
	events    *eventPipeline    // nil when nobody is told
	analytics *analyticsService // nil when nothing is kept
	listeners []frontend
	certs     certificates
	token     string
	closers   closers

	state readiness
}

// frontend is one listener and what answers on it.
type frontend struct {
	// section is its name in the configuration, metrics and logs.
	section string
	listen  string
	tls     config.TLS
	// proxies are the peers that must send a PROXY protocol header.
	proxies []netip.Prefix
	// scheme begins its URL, with an s for TLS. Zero means http.
	scheme string
	// maxConns bounds its connections, zero for no bound or one of its own; maxClient those of one
	// client, zero for a quarter of them.
	maxConns, maxClient int64
	// conns counts those that were not let in, or not kept; open sets it
	// where a front end has none.
	conns *listen.Counts
	// balanced is its listener of PROXY headers, once it listens, where it has one.
	balanced *atomic.Pointer[proxyprotocol.Listener]
	// last: it is drained after the others, so that operators can watch.
	last bool
	serve
}

// serve answers on a listener until ctx ends, then finishes what it has begun.
type serve interface {
	Serve(ctx context.Context, ln net.Listener) error
}

// New builds a node of the given binary and loads its rules. Everything that can be wrong with the
// configuration is reported here; nothing listens yet. The caller must Run it,
// or Close it.
func New(conf *config.Config, build Build, log *slog.Logger) (*Server, error) {
	if err := conf.Check(); err != nil {
		return nil, err
	}
	s := &Server{conf: conf, log: log, build: build, bodies: bodies.New(0), certs: certificates{log: log}}
	if err := s.openParts(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) openParts() (err error) {
	if s.token, err = s.conf.Admin.ReadToken(); err != nil {
		return err
	}
	if s.guesses, err = guesses.New(0, 0, s.log); err != nil {
		return err
	}
	s.closers = append(s.closers, s.guesses.Close)
	if s.answer, err = s.conf.OpenAnswerWriter(); err != nil {
		return err
	}
	if s.identity, err = openCallers(&s.conf.Identity, s.log); err != nil {
		return err
	}
	s.closers = append(s.closers, s.identity.Close)
	if s.store, err = openStoreOf(s.conf, s.log); err != nil {
		return err
	}
	s.closers = append(s.closers, s.store.Close)
	if s.shed, err = config.OpenShedder(s.conf.Shed, s.store.check); err != nil {
		return err
	}
	if s.rules, err = openRules(s.conf, s.shed, &s.store, s.identity.EntryForm, s.log); err != nil {
		return err
	}
	if err = check.FindUnknownSource(s.rules.words, s.conf, s.identity.Resolver); err != nil {
		return err
	}
	s.coverage = &coverage{conf: s.conf, rules: s.rules, who: s.identity.Resolver, log: s.log}
	s.rules.asked = s.coverage.isAsked
	if err = s.openEvents(func() []string { return listAlarms(s.rules, s.analytics) }); err != nil {
		return err
	}
	s.metrics = metrics.New(metricsOptionsOf(s))
	if err = s.openAnalytics(); err != nil {
		return err
	}
	if err = s.openTelemetry(); err != nil {
		return err
	}
	if err = s.openOverlay(); err != nil {
		return err
	}
	observers := []weir.Observer{s.metrics}
	if s.events != nil {
		observers = append(observers, s.events.observer)
	}
	s.limiter, err = weir.New(s.store.Store, s.overlay, weir.Options{Observers: observers, Tracer: tracerOf(s.telemetry)})
	if err != nil {
		return err
	}
	if err = s.openReserver(); err != nil {
		return err
	}
	if s.api, err = s.openAPI(); err != nil {
		return err
	}
	for _, section := range sections {
		f, err := frontends[section](s)
		if err != nil {
			return err
		}
		if f.serve != nil {
			f.section = section
			if f.conns == nil {
				f.conns = new(listen.Counts)
			}
			f.balanced = new(atomic.Pointer[proxyprotocol.Listener])
			s.listeners = append(s.listeners, f)
		}
	}
	s.opened.Store(true)
	return nil
}

// metricsOptionsOf returns what the metrics of a node are made of.
func metricsOptionsOf(s *Server) metrics.Options {
	opts := metrics.Options{
		Limits:  func() []limits.Ref { return s.rules.currentLimits().Refs() },
		Store:   s.store.stats,
		Shared:  s.store.shared,
		Regions: s.conf.Region != "",
		Calls:   s.store.calls,
		Redis:   s.store.redis,
		Overlay: func() metrics.Overlay { return overlayMetrics(s.overlay) },
		Sketch:  s.store.sketch,
		Reloads: s.rules.reloads,
		Guesses: s.guesses.Count, RefusedBodies: s.bodies.Refused, Connections: s.connectionMetrics, Identity: s.identity.metrics,
		Build: metrics.Build{Version: s.build.Version, Revision: s.build.Revision, Go: s.build.Go},
	}
	u := newUnmatched(s.rules, s.log)
	u.isShed = s.shed != nil
	opts.Unlimited, opts.Unmatched = u.observe, u.metrics
	if s.rules.hasFiles {
		opts.Unasked = func() int { return len(s.rules.unasked()) }
	}
	if s.shed != nil {
		opts.Shed, opts.Extra = func() metrics.Shed { return shedMetrics(s.shed) }, isShedLimit(s.shed)
	}
	if s.conf.RESP.Listen != "" {
		opts.RESP = func() metrics.RESP { return respMetrics(s.resp) }
	}
	opts.Certificates = s.certs.metrics
	if s.conf.OTel.IsOn() {
		opts.Telemetry, opts.Semantic = func() metrics.Telemetry { return metrics.Telemetry(s.telemetry.Stats()) }, true
	}
	if s.events != nil {
		opts.Events = s.events.metrics
	}
	return opts
}

// Close frees what New opened. A server that ran has closed itself.
func (s *Server) Close() error {
	closeTelemetry(s.telemetry, s.log)
	return s.closers.close()
}

// Reload reads rules, API keys and certificates again. What is broken is logged, and
// what was good stays in use.
func (s *Server) Reload() {
	s.rules.reloadFiles()
	s.identity.reloadKeys()
	s.certs.reloadFiles()
}

// Run listens, serves until ctx ends and then drains: readiness turns 503 at
// once, every request that was accepted is answered. ready is called once when
// all listeners are open; nil means nobody is told. It returns nil after a
// clean drain.
func (s *Server) Run(ctx context.Context, ready func(Ready)) error {
	listeners, err := s.openListeners()
	if err != nil {
		return errors.Join(err, s.Close())
	}
	background, stopBackground := context.WithCancel(context.Background())
	first, endFirst := context.WithCancel(context.Background())
	last, endLast := context.WithCancel(context.Background())
	defer endLast()
	defer endFirst()

	var watchers sync.WaitGroup
	watchers.Go(func() { s.certs.watchFiles(background) })
	watchers.Go(func() { s.rules.watchFiles(background) })
	watchers.Go(func() { s.coverage.watchRules(background) })
	watchers.Go(func() { s.identity.watchKeys(background) })
	watchers.Go(func() { s.overlay.WatchBoard(background) })

	if s.events != nil {
		s.events.startPublishing()
	}
	if s.analytics != nil {
		s.analytics.startCounting()
	}

	var firstDone, lastDone sync.WaitGroup
	// Buffered so that no front end waits for another's error to be read.
	errs := make(chan error, len(s.listeners))
	for i, f := range s.listeners {
		wg, until := &firstDone, first
		if f.last {
			wg, until = &lastDone, last
		}
		wg.Go(func() {
			if err := f.Serve(until, listeners[i]); err != nil {
				errs <- fmt.Errorf("%s: %w", f.section, err)
			}
		})
	}
	s.state.Store(serving)
	s.announce(listeners, ready)

	var failed error
	select {
	case <-ctx.Done():
	case failed = <-errs:
	}
	s.state.Store(draining)
	endFirst()
	firstDone.Wait()
	if s.events != nil {
		s.events.endPublishing() // after the last request
	}
	if s.analytics != nil {
		s.endAnalytics()
	}
	endLast()
	lastDone.Wait()
	stopBackground()
	watchers.Wait()
	close(errs)
	for err := range errs {
		failed = errors.Join(failed, err)
	}
	failed = errors.Join(failed, s.Close())
	if failed == nil {
		s.log.Info("drained")
	}
	return failed
}

// openListeners opens a listener for every front end, or none.
func (s *Server) openListeners() (listeners []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, ln := range listeners {
				ln.Close()
			}
		}
	}()
	shared, err := config.SharedAddrs(s.conf)
	if err != nil {
		return nil, err
	}
	for _, f := range s.listeners {
		ln, err := listenOn(f.listen)
		if err != nil {
			none := ""
			if f.section == "grpc" { // most who meet this have not asked for it
				none = ", or --grpc off"
			}
			return listeners, fmt.Errorf("%s: %w: give another address with --%s%s", f.section, err, f.section, none)
		}
		if len(f.proxies) > 0 {
			balanced, err := proxyprotocol.Listen(ln, proxyprotocol.Options{From: f.proxies, Log: s.log})
			if err != nil {
				return append(listeners, ln), err
			}
			f.balanced.Store(balanced)
			ln = balanced
		}
		ln = listen.Limit(ln, listen.Limits{Max: f.maxConns, Client: f.maxClient, Shared: shared, ProxyAdvice: f.proxyAdvice(), Counts: f.conns, Log: s.log})
		listeners = append(listeners, ln)
	}
	return listeners, nil
}

// proxyAdvice says what to do about PROXY headers that nobody reads.
func (f *frontend) proxyAdvice() string {
	if f.section == "http" && !strings.HasPrefix(f.listen, config.UnixPrefix) {
		return "if the peer is your load balancer, list its addresses in http.proxy_protocol (--proxy-protocol)"
	}
	return "have the load balancer send no PROXY header to this port: it is read at the TCP port of http alone"
}

// connectionMetrics returns what became of connections at every listener.
func (s *Server) connectionMetrics() []metrics.Connections {
	if !s.opened.Load() {
		return nil
	}
	all := make([]metrics.Connections, 0, len(s.listeners))
	for _, f := range s.listeners {
		n, missing := f.conns, uint64(0)
		if b := f.balanced.Load(); b != nil {
			missing = b.Refused()
		}
		all = append(all, metrics.Connections{
			Listener: f.section, RefusedClient: n.Refused.Load(), RefusedFull: n.RefusedFull.Load(), RefusedProxy: missing, RefusedUnasked: n.ProxyHeader.Load(),
			ClosedFull: n.ClosedFull.Load(), ClosedClient: n.ClosedClient.Load(), ClosedIdle: n.ClosedIdle.Load(),
		})
	}
	return all
}
