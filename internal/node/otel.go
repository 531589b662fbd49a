package node

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/telemetry"
)

// openTelemetry begins to send, where somebody has said where to.
func (s *Server) openTelemetry() error {
	opt := s.conf.OTel.Options()
	opt.Version, opt.Log = s.build.Version, s.log
	opt.Gather = func() prometheus.Gatherer {
		if !s.opened.Load() {
			return nil // what is read is still being made
		}
		return s.metrics.Gatherer()
	}
	opt.Store = s.store.name
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

// tracerOf returns what follows decisions, nil where nothing does.
func tracerOf(t *telemetry.Telemetry) weir.Tracer {
	if !t.Tracing() {
		return nil
	}
	return t
}

// measure times the requests that next answers, and follows those with a trace.
func (s *Server) measure(opt telemetry.HTTPOptions, next http.Handler) http.Handler {
	return s.telemetry.TraceHTTP(opt, s.metrics.Instrument(opt.Frontend, next))
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
