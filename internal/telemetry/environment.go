package telemetry

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/redact"
)

// plan is how one signal is sent.
type plan struct {
	on       bool
	protocol string
	// url is where to. Empty means that the exporter asks the environment.
	url string
}

// planSignals says what is sent, and how, by the options and the environment.
func (opt *Options) planSignals() (traces, metrics plan) {
	if strings.EqualFold(strings.TrimSpace(opt.Getenv("OTEL_SDK_DISABLED")), "true") {
		return plan{}, plan{}
	}
	traces = opt.planSignal("TRACES", "/v1/traces", opt.NoTraces)
	metrics = opt.planSignal("METRICS", "/v1/metrics", opt.NoMetrics)
	if sampler := opt.Getenv("OTEL_TRACES_SAMPLER"); traces.on && sampler != "" && sampler != "parentbased_always_off" {
		opt.Log.Warn("OTEL_TRACES_SAMPLER ignored: requests are traced if the caller's trace is sampled", "value", sampler)
	}
	return traces, metrics
}

// planSignal is plan for one of the two.
func (opt *Options) planSignal(name, path string, no bool) plan {
	switch exporter := strings.TrimSpace(opt.Getenv("OTEL_" + name + "_EXPORTER")); exporter {
	case "", "otlp":
	case "none":
		return plan{}
	default:
		if !no && opt.anywhere(name) {
			opt.Log.Warn("OTEL_"+name+"_EXPORTER unknown, nothing is exported: use otlp or none", "value", exporter)
		}
		return plan{}
	}
	if no || !opt.anywhere(name) {
		return plan{}
	}
	p := plan{on: true, protocol: opt.Protocol}
	for _, env := range []string{"OTEL_EXPORTER_OTLP_" + name + "_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if v := strings.TrimSpace(opt.Getenv(env)); p.protocol == "" && v != "" {
			p.protocol = v
			if v != ProtocolGRPC && v != ProtocolHTTP {
				opt.Log.Warn(env+" names an unknown protocol, using "+ProtocolHTTP, "value", v)
				p.protocol = ProtocolHTTP
			}
		}
	}
	if p.protocol == "" {
		p.protocol = ProtocolHTTP
	}
	if p.url = opt.Endpoint; p.url != "" && p.protocol == ProtocolHTTP {
		p.url = strings.TrimSuffix(p.url, "/") + path
	}
	return p
}

// anywhere reports whether somebody has said where a signal goes.
func (opt *Options) anywhere(name string) bool {
	return opt.Endpoint != "" || opt.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" ||
		opt.Getenv("OTEL_EXPORTER_OTLP_"+name+"_ENDPOINT") != ""
}

// CheckEndpoint reports what is wrong with the URL of a collector.
func CheckEndpoint(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("the endpoint is not a URL: give one such as http://127.0.0.1:4318")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("endpoint %q must begin with http:// or https://, also for gRPC", redact.URL(text))
	case u.Host == "":
		return fmt.Errorf("endpoint %q names no host", redact.URL(text))
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("endpoint %q must not have a query, a fragment or a user: credentials go into OTEL_EXPORTER_OTLP_HEADERS", redact.URL(text))
	}
	return nil
}

// maxSpans returns how many spans may wait to be sent.
func (opt *Options) maxSpans() int {
	const usual, most = 2048, 65536
	n, err := strconv.Atoi(strings.TrimSpace(opt.Getenv("OTEL_BSP_MAX_QUEUE_SIZE")))
	if err != nil || n < 1 {
		return usual
	}
	return min(n, most)
}
