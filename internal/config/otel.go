package config

import (
	"errors"
	"fmt"
	"time"

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

// Options returns c for package telemetry.
func (c *OTel) Options() telemetry.Options {
	return telemetry.Options{
		Endpoint: c.Endpoint, Protocol: c.Protocol, NoTraces: !c.Traces, NoMetrics: !c.Metrics,
		Every: c.Interval, MaxTraces: c.MaxTraces,
	}
}

// IsOn reports whether anything is sent.
func (c *OTel) IsOn() bool { return c.Options().Enabled() }

// checkExport reports what is wrong with c that can be seen without opening anything.
func (c *OTel) checkExport() error {
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
