package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/telemetry"
)

// OTel configures what an OpenTelemetry collector is sent.
type OTel struct {
	Endpoint  string        `yaml:"endpoint" name:"otel-endpoint" more:"" placeholder:"URL" help:"URL of an OpenTelemetry collector for traces and metrics. Such as http://127.0.0.1:4318; they are sent over OTLP. Empty means where OTEL_EXPORTER_OTLP_ENDPOINT and its kin say, or nowhere. See docs/reference/telemetry.md."`
	Protocol  string        `yaml:"protocol" name:"otel-protocol" kong:"-" placeholder:"PROTOCOL" help:"Protocol of OTLP: http/protobuf or grpc. Empty means what OTEL_EXPORTER_OTLP_PROTOCOL says, or http/protobuf."`
	Traces    bool          `yaml:"traces" kong:"-" was:"otel-traces" default:"true" help:"Send spans of requests whose trace is sampled by the caller."`
	Metrics   bool          `yaml:"metrics" kong:"-" was:"otel-metrics" default:"true" help:"Send the metrics that /metrics shows."`
	Interval  time.Duration `yaml:"interval" kong:"-" was:"otel-interval" default:"0s" placeholder:"DURATION" least:"100ms" or:"0" help:"How often metrics are sent, at least 100ms. 0 means what OTEL_METRIC_EXPORT_INTERVAL says, or a minute."`
	MaxTraces int64         `yaml:"max_traces" kong:"-" was:"otel-max-traces" default:"1000" placeholder:"N" help:"Most requests a second that are traced, as a client can ask for them; further ones are answered without spans."`
}

// options returns c for package telemetry.
func (c *OTel) options() telemetry.Options {
	return telemetry.Options{
		Endpoint: c.Endpoint, Protocol: c.Protocol, NoTraces: !c.Traces, NoMetrics: !c.Metrics,
		Every: c.Interval, MaxTraces: c.MaxTraces,
	}
}

// on reports whether anything is sent.
func (c *OTel) on() bool { return c.options().Enabled() }

// check reports what is wrong with c that can be seen without opening anything.
func (c *OTel) check() error {
	var errs []error
	if err := telemetry.CheckEndpoint(c.Endpoint); err != nil {
		errs = append(errs, fmt.Errorf("--otel-endpoint: %w", err))
	}
	if p := c.Protocol; p != "" && p != telemetry.ProtocolGRPC && p != telemetry.ProtocolHTTP {
		errs = append(errs, fmt.Errorf("otel.protocol (WEIR_OTEL_PROTOCOL) %q must be %s or %s", p, telemetry.ProtocolHTTP, telemetry.ProtocolGRPC))
	}
	if c.MaxTraces < 1 {
		errs = append(errs, fmt.Errorf("otel.max_traces is %d: it must be positive; otel.traces=false sends none", c.MaxTraces))
	}
	return errors.Join(errs...)
}

// openTelemetry begins to send, where somebody has said where to.
func (s *Server) openTelemetry() error {
	opt := s.conf.OTel.options()
	opt.Version, opt.Log = s.build.Version, s.log
	opt.Gather = func() prometheus.Gatherer {
		if !s.opened.Load() {
			return nil // what is read is still being made
		}
		return s.metrics.Gatherer()
	}
	opt.Store = storeName(s.conf.storeOfRegion())
	opt.Limits = s.refs
	var err error
	if s.telemetry, err = telemetry.New(opt); err != nil {
		return err
	}
	if s.telemetry.Tracing() && s.store.follow != nil {
		s.store.follow(s.telemetry.StoreCall)
	}
	return nil
}

// storeName returns what a store is called in spans: memory, redis, memcached.
func storeName(url string) string {
	scheme, _, _ := strings.Cut(url, ":")
	kind, _, _ := strings.Cut(scheme, "+")
	if kind == "rediss" {
		return "redis"
	}
	return kind
}

// tracerOf returns what follows decisions, nil where nothing does.
func tracerOf(t *telemetry.Telemetry) weir.Tracer {
	if !t.Tracing() {
		return nil
	}
	return t
}

// measure times the requests that next answers, and follows those with a trace.
func (s *Server) measure(opt telemetry.HTTPOptions, next http.Handler) http.Handler {
	return s.telemetry.HTTP(opt, s.metrics.Instrument(opt.Frontend, next))
}

// closeTelemetry sends what waits. A node that has decided all that it was asked has
// ended well, whatever becomes of its spans.
func closeTelemetry(t *telemetry.Telemetry, log *slog.Logger) {
	const most = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	if err := t.Close(ctx); err != nil {
		log.Warn("telemetry lost at shutdown", "err", err)
	}
}
