package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirlimit/weir/internal/certfile"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/guesses"
	"github.com/weirlimit/weir/internal/insight/dashboard"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/listen"
)

// AnalyticsServer is analytics as a process of its own. Safe for concurrent use.
type AnalyticsServer struct {
	conf      *config.AnalyticsProcess
	build     Build
	log       *slog.Logger
	token     string
	certs     certificates
	cert      *certfile.Certificate // nil without one
	registry  *prometheus.Registry
	analytics *analyticsService
	// dashboard shows what is kept: rules, the live stream and actions are the nodes'.
	dashboard *dashboard.Dashboard
	guesses   *guesses.Bound
	closers   closers
	draining  atomic.Bool
}

// NewAnalytics makes a process of analytics; it takes nothing out of the queue until
// Run. The caller must Run it, or Close it.
func NewAnalytics(conf *config.AnalyticsProcess, build Build, log *slog.Logger) (*AnalyticsServer, error) {
	if err := conf.Check(); err != nil {
		return nil, err
	}
	s := &AnalyticsServer{conf: conf, build: build, log: log, certs: certificates{log: log}, registry: prometheus.NewRegistry()}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := s.openParts(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *AnalyticsServer) openParts() (err error) {
	if s.token, err = s.conf.Admin().ReadToken(); err != nil {
		return err
	}
	loopback := config.IsLoopback(s.conf.Address())
	if s.token == "" && !loopback {
		return fmt.Errorf("--listen %s can be reached from other machines and there is no token: give --admin-token-file FILE, or listen on 127.0.0.1", s.conf.Listen)
	}
	if s.cert, err = s.certs.openCertificate(s.conf.TLS, ""); err != nil {
		return err
	}
	if s.cert == nil && s.token != "" && !loopback {
		s.log.Warn("token is sent in clear text; set WEIR_TLS_CERT and WEIR_TLS_KEY", "addr", s.conf.Listen)
	}
	if s.guesses, err = guesses.New(0, 0, s.log); err != nil {
		return err
	}
	s.closers = append(s.closers, s.guesses.Close)
	if s.dashboard, err = dashboard.New(dashboard.Options{Token: s.token, Guesses: s.guesses, Log: s.log}); err != nil {
		return err
	}
	kind, err := config.FindQueueKind("--events", s.conf.Events)
	if err != nil {
		return err
	}
	var source event.Source
	if source, err = queues[kind].consume(s.conf.Events, s.log); err != nil {
		return fmt.Errorf("--events: %w", err)
	}
	if s.conf.URL == config.AnalyticsMemory {
		s.log.Warn("events of the queue are kept in memory and lost with this process; set --analytics sqlite:PATH or postgres://...")
	}
	if s.analytics, err = newAnalyticsService(&s.conf.Analytics, source, s.log, s.registry.Register); err == nil {
		s.closers = append(s.closers, s.analytics.close)
	}
	return err
}

// Close frees what NewAnalytics opened. A process that ran has closed itself.
func (s *AnalyticsServer) Close() error {
	return s.closers.close()
}

// notReady says why no questions are answered, empty when they are.
func (s *AnalyticsServer) notReady() string {
	switch {
	case s.draining.Load():
		return "draining"
	case !s.analytics.isReady():
		return "the database is not open yet"
	}
	return ""
}

// handler serves questions, metrics and health.
func (s *AnalyticsServer) handler() http.Handler {
	mux := http.NewServeMux()
	addProbes(mux, s.notReady, nil, "/healthz/ready")
	inner := http.NewServeMux()
	inner.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: 4}))
	inner.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.build) })
	inner.Handle(analyticsPath, sameOrigin(s.analytics))
	mountDashboard(mux, s.dashboard, s.token, s.guesses, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `weir analytics
/ui/            the dashboard, for browsers
/v1/analytics/  what was decided, kept and asked about
/metrics        Prometheus metrics
/healthz/live   the process runs
/healthz/ready  the database is open; 503 while it is not, and while the process drains
/version        which binary runs
`)
	})
	mux.Handle("/", guardAdmin(s.token, s.guesses, withProblems(inner)))
	return s.dashboard.Accept(mux)
}

// Run listens and counts until ctx ends: what is not counted by then stays with the
// queue. ready is called once with the URL when the listener is open; nil means
// nobody is told.
func (s *AnalyticsServer) Run(ctx context.Context, ready func(url string)) error {
	ln, err := listenOn(s.conf.Address())
	if err != nil {
		return errors.Join(fmt.Errorf("%w: give another address with --listen", err), s.Close())
	}
	const maxConns = 256
	srv := newOperatorServer(s.handler(), config.Defaults().HTTP, s.cert, 5*time.Second, s.log)
	watching, stopWatching := context.WithCancel(context.Background())
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer stopWatching()
	watchers.Go(func() { s.certs.watchFiles(watching) })
	s.analytics.startCounting()
	serving, endServing := context.WithCancel(context.Background())
	defer endServing()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(serving, listen.Limit(ln, listen.Limits{Max: maxConns, Log: s.log})) }()
	s.log.Info("listening", "section", "analytics", "addr", ln.Addr().String(), "tls", s.cert != nil)
	if ready != nil {
		ready(urlOf(ln.Addr(), "", s.cert != nil))
	}
	select {
	case <-ctx.Done():
	case err := <-served:
		return errors.Join(err, s.Close())
	}
	s.draining.Store(true)
	s.analytics.endCounting(false)
	endServing()
	if err := errors.Join(<-served, s.Close()); err != nil {
		return err
	}
	s.log.Info("drained")
	return nil
}
