package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir/internal/bodies"
	"github.com/weirlimit/weir/internal/certfile"
	"github.com/weirlimit/weir/internal/compat/envoy"
	"github.com/weirlimit/weir/internal/compat/envoy/counter"
	"github.com/weirlimit/weir/internal/compat/envoy/settings"
	"github.com/weirlimit/weir/internal/compat/envoy/stats"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/grpcserver"
	"github.com/weirlimit/weir/internal/listen"
)

// drainFor is how long calls under way may take after the end of Run's context.
const drainFor = 20 * time.Second

// maxGRPCConnections bounds the connections over gRPC: proxies have a few each.
const maxGRPCConnections = 16_384

// A Node is a rate limit service: rules, counters, listeners.
type Node struct {
	s      *settings.Settings
	log    *slog.Logger
	stats  *stats.Store
	sinks  sinks
	scope  *stats.Scope // "ratelimit", with the tags
	health *health
	open   opener
	source ruleSource
	cert   *certfile.Certificate
	grpc   *grpcserver.Server
	bodies *bodies.Budget
	trace  *tracing // nil: none
}

// New reads what files the settings name and refuses what Run could not do. lookup finds
// the environment variables that the settings do not hold, those of mogrifiers; statistics
// that have no other place go to statsTo. It starts sending statistics; Run must be
// called, or they go on.
func New(s *settings.Settings, lookup settings.Lookup, statsTo io.Writer, log *slog.Logger) (*Node, error) {
	n := &Node{s: s, log: log}
	if err := n.s.Check(); err != nil {
		return nil, err
	}
	if err := errors.Join(checkListeners(n.s), checkTLS(n.s)); err != nil {
		return nil, err
	}
	for _, note := range settings.NoteIneffective(lookup) {
		n.log.Warn(note)
	}
	var err error
	if n.sinks, err = openSinks(n.s, lookup, statsTo, n.log); err != nil {
		return nil, err
	}
	if err := n.build(); err != nil {
		return nil, errors.Join(err, n.sendRemaining())
	}
	return n, nil
}

// sendRemaining sends the statistics and spans that wait.
func (n *Node) sendRemaining() error {
	err := n.sinks.end()
	if n.trace != nil {
		n.trace.sendRemaining()
	}
	return err
}

func (n *Node) build() error {
	n.bodies = bodies.New(0)
	n.stats = stats.New(stats.Options{Sink: n.sinks.sink, Tags: n.s.ExtraTags, MaxKeys: n.s.StatsMaxKeys})
	calls := &methods{scope: n.stats.TopScope("ratelimit_server")}
	n.scope = n.stats.TopScope("ratelimit")
	stats.Runtime(n.scope.Scope("go"))
	if n.s.TracingEnabled {
		var err error
		if n.trace, err = newTracing(n.s, n.log); err != nil {
			return err
		}
	} else {
		n.log.Info("Tracing disabled")
	}
	if err := n.buildGRPC(calls); err != nil {
		return err
	}
	n.health = newHealth(n.s.HealthyWithConfig, func(ok bool) { n.grpc.SetServing(serviceName, ok) })
	var err error
	if n.open, err = storeOpener(n.s, n.health, n.scope, n.log); err != nil {
		return err
	}
	if n.s.ConfigType == "GRPC_XDS_SOTW" {
		n.source, err = newXDSSource(n.s, n.log)
		return err
	}
	files, err := newFileSource(n.s, n.stats.TopScope("runtime"), n.log)
	n.source = files.Run
	return err
}

func (n *Node) buildGRPC(calls *methods) error {
	opt := grpcserver.Options{
		Health: []string{serviceName}, Reflection: true,
		MaxMessage: envoy.MaxBodyBytes, Bodies: n.bodies, Check: envoy.CheckMessage, MaxStreams: 1 << 16, MaxConnections: maxGRPCConnections,
		MaxAge: max(n.s.GRPCMaxConnectionAge, 0), MaxAgeGrace: max(n.s.GRPCMaxAgeGrace, 0),
		// A call ends by the store's bound, which is to be heard of.
		CallTimeout: max(n.s.RedisTimeout, n.s.PerSecondTimeout, 0) + time.Second,
		Delay:       max(n.s.DrainDelay, 0), Drain: drainFor, Workers: grpcserver.DefaultWorkers, Log: n.log,
	}
	opt.Undecoded = n.undecoded(faults.New(n.log))
	opt.Unary = append(opt.Unary, calls.measureCall)
	if n.trace != nil {
		opt.Unary = append(opt.Unary, n.trace.traceCall)
	}
	if n.s.GRPCServerUseTLS {
		files := certfile.Files{
			Cert: n.s.GRPCServerTLSCert, Key: n.s.GRPCServerTLSKey, ClientCA: n.s.GRPCClientTLSCACert, ClientSAN: n.s.GRPCClientTLSSAN,
		}
		if files.ClientCA == "" && files.ClientSAN != "" {
			n.log.Warn("GRPC_CLIENT_TLS_SAN has no effect: without GRPC_CLIENT_TLS_CACERT clients are not asked for certificates")
			files.ClientSAN = ""
		}
		var err error
		n.cert, err = certfile.Open(files, n.log)
		if err != nil {
			return err
		}
		opt.Certificate = n.cert
		certStats(n.stats.TopScope("certs"), n.cert, filepath.Dir(files.Cert))
	}
	var err error
	n.grpc, err = grpcserver.New(opt)
	return err
}

// undecoded returns what counts and tells the requests that cannot be decoded: they
// are errors, as they are to the original, which Envoy lets pass unless it is told not to.
func (n *Node) undecoded(seldom *faults.Log) func(message any, data []byte, err error) []byte {
	return func(message any, _ []byte, err error) []byte {
		if _, ok := message.(*rlsv3.RateLimitRequest); ok {
			n.scope.Scope("service.call.should_rate_limit").Counter("decode_error").Inc()
			if seldom.IsDue() {
				n.log.Warn("request that is no UTF-8 or no protobuf message is not counted; Envoy lets it pass unless failure_mode_deny is set", "err", err)
			}
		}
		return nil
	}
}

// Run reaches the store, waits for the first rules (unless the settings say not
// to), listens, and serves until ctx ends. Then health turns bad, calls under way
// end, and it returns nil. Run may be called once.
func (n *Node) Run(ctx context.Context) (err error) {
	// What goes on in the background ends after the last call.
	back, end := context.WithCancel(context.Background())
	var group sync.WaitGroup
	defer func() {
		end()
		group.Wait()
		err = errors.Join(err, n.sendRemaining())
	}()
	group.Go(func() { n.stats.Run(back, n.s.StatsFlushInterval) })
	failed := make(chan error, 1)
	if n.sinks.prom != nil {
		if err := n.servePrometheus(back, &group, failed); err != nil {
			return err
		}
	}
	if n.cert != nil {
		group.Go(func() { n.cert.Watch(back) })
	}
	store, follow, err := n.open(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // told to end before it began
		}
		return err
	}
	counters := store
	if n.trace != nil {
		counters = n.trace.traceStore(store)
	}
	service := envoy.New(n.serviceOptions(counters))
	if _, ok := service.LocalCacheStats(); ok {
		localCacheStats(n.scope.Scope("localcache"), service)
	}
	// Rules before the store: nothing is decided by a store that is closed.
	defer func() {
		end()
		group.Wait()
		err = errors.Join(err, store.Close())
	}()
	if follow != nil {
		group.Go(func() { follow(back) })
	}
	rules := newRules(service, n.s, n.health, n.log)
	group.Go(func() { n.source(back, rules) })
	if !n.s.ForceStart {
		n.log.Info("Waiting for initial ratelimit config update event")
		select {
		case <-rules.First():
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
	return n.listenAndServe(ctx, service, failed)
}

func (n *Node) serviceOptions(store counter.Store) envoy.Options {
	return envoy.Options{
		Counters: store, Stats: n.stats, NearLimitRatio: cmp.Or(n.s.NearLimitRatio, math.SmallestNonzeroFloat32), LocalCacheBytes: int64(n.s.LocalCacheBytes),
		StopIncrementWhenOver: n.s.StopIncrementWhenOver, KeyPrefix: n.s.CacheKeyPrefix, Bodies: n.bodies, Logger: n.log,
		Modes: envoy.Modes{
			Shadow: n.s.ShadowMode, Quota: n.s.QuotaMode, DynamicMetadata: n.s.ResponseDynamicMetadata,
			Headers: envoy.Headers{Enabled: n.s.ResponseHeaders, Limit: n.s.LimitHeader, Remaining: n.s.RemainingHeader, Reset: n.s.ResetHeader},
		},
	}
}

// listenAndServe listens and answers until ctx ends or a listener fails.
func (n *Node) listenAndServe(ctx context.Context, service *envoy.Service, failed chan error) error {
	rlsv3.RegisterRateLimitServiceServer(n.grpc, service)
	json := service.JSON()
	if n.trace != nil {
		json = n.trace.traceHandler(json)
	}
	handlers := paths{"/json": json, "/healthcheck": n.health}

	grpcLn, err := n.openListener("gRPC", n.s.GRPCHost, n.s.GRPCPort, n.s.GRPCUDS)
	if err != nil {
		return fmt.Errorf("gRPC listener: %w", err)
	}
	httpLn, err := n.openListener("HTTP", n.s.Host, n.s.Port, "")
	if err != nil {
		return errors.Join(fmt.Errorf("HTTP listener: %w", err), grpcLn.Close())
	}
	debugLn, debugErr := n.openListener("debug", n.s.DebugHost, n.s.DebugPort, "")
	if debugErr != nil {
		// The node is of use without it.
		n.log.Error("debug listener failed", "err", debugErr)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// Those who ask for the health are answered until the last call has ended.
	webCtx, stopWeb := context.WithCancel(context.Background())
	defer stopWeb()
	var calls, requests sync.WaitGroup
	ended := make(chan error, 3)
	calls.Go(func() {
		ended <- n.grpc.Serve(ctx, listen.Limit(grpcLn, listen.Limits{ProxyAdvice: proxyAdvice, Log: n.log}))
	})
	requests.Go(func() { ended <- serveWeb(webCtx, httpLn, handlers, time.Minute, n.log) })
	if debugErr == nil {
		const noTimeout = 0 // a profile takes as long as it is asked to
		requests.Go(func() { ended <- serveWeb(webCtx, debugLn, debugHandler(service.Dump), noTimeout, n.log) })
	}
	select {
	case <-ctx.Done():
	case err = <-failed:
	case err = <-ended:
	}
	n.health.setComponent(endHealth, false)
	stop()
	calls.Wait()
	stopWeb()
	requests.Wait()
	close(ended)
	for e := range ended {
		err = errors.Join(err, e)
	}
	return err
}

// openListener listens on host and port, or on the path of a socket, and logs so. Other processes
// may listen on the port too: a new one can start before the old one has ended.
func (n *Node) openListener(what, host string, port int, socket string) (net.Listener, error) {
	network, addr, control := "tcp", net.JoinHostPort(host, strconv.Itoa(port)), shareAddress
	if socket != "" {
		network, addr, control = "unix", socket, nil
	}
	ln, err := listen.Open(network, addr, control)
	if err == nil {
		n.log.Warn("Listening for " + what + " on '" + addr + "'")
	}
	return ln, err
}

// servePrometheus serves the series until ctx ends.
func (n *Node) servePrometheus(ctx context.Context, group *sync.WaitGroup, failed chan<- error) error {
	addr := prometheusAddr(n.s)
	path := cmp.Or(n.s.PrometheusPath, "/metrics")
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("PROMETHEUS_ADDR=%s: %w", addr, err)
	}
	series := n.sinks.prom.Handler(n.stats.FlushTimers)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != path {
			http.NotFound(w, r)
			return
		}
		series.ServeHTTP(w, r)
	})
	n.log.Info("Starting prometheus sink on " + ln.Addr().String() + path)
	group.Go(func() {
		if err := serveWeb(ctx, ln, handler, time.Minute, n.log); err != nil {
			failed <- err
		}
	})
	return nil
}

// localCacheStats has the numbers of the local cache set at each flush.
func localCacheStats(scope *stats.Scope, service *envoy.Service) {
	scope.Generate(func() {
		t, _ := service.LocalCacheStats()
		for _, g := range []struct {
			name  string
			value uint64
		}{
			{"hitCount", t.Hits}, {"missCount", t.Misses}, {"lookupCount", t.Lookups}, {"entryCount", t.Entries},
			{"expiredCount", t.Expired}, {"evacuateCount", t.Evacuated}, {"overwriteCount", t.Overwritten},
			{"averageAccessTime", 0}, // not kept
		} {
			scope.Gauge(g.name).Set(g.value)
		}
	})
}
