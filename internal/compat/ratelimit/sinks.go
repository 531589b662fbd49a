package ratelimit

import (
	"io"
	"log/slog"
	"net"
	"strconv"

	"github.com/weirlimit/weir/internal/compat/envoy/settings"
	"github.com/weirlimit/weir/internal/compat/envoy/stats"
)

// sinks are where statistics go: at most one of them is set.
type sinks struct {
	sink stats.Sink // nil: nowhere
	prom *stats.Prometheus
	end  func() error
}

// openSinks opens what the settings ask for; lines go to w when they ask for
// nothing and do not refuse either.
func openSinks(s *settings.Settings, lookup settings.Lookup, w io.Writer, log *slog.Logger) (sinks, error) {
	nothing := func() error { return nil }
	addr := net.JoinHostPort(s.StatsdHost, strconv.Itoa(s.StatsdPort))
	switch {
	case s.DisableStats:
		log.Info("Stats disabled")
		return sinks{end: nothing}, nil
	case s.UseDogStatsd:
		list, err := s.Mogrifiers(lookup)
		if err != nil {
			return sinks{}, err
		}
		d, err := stats.NewDogStatsd(addr, list)
		if err != nil {
			return sinks{}, err
		}
		log.Info("Stats initialized for dogstatsd")
		return sinks{sink: d, end: d.Close}, nil
	case s.UseStatsd:
		log.Info("Stats initialized for statsd")
		d := stats.NewStatsd(s.StatsdProtocol, addr, log)
		return sinks{sink: d, end: d.Close}, nil
	case s.UsePrometheus:
		p, err := stats.NewPrometheus(stats.PrometheusOptions{
			MappingFile: s.PrometheusMapperYAML, Milliseconds: s.PrometheusMilliseconds, Log: log,
		})
		if err != nil {
			return sinks{}, err
		}
		log.Info("Stats initialized for Prometheus")
		return sinks{sink: p, prom: p, end: nothing}, nil
	}
	log.Info("Stats initialized for stdout")
	return sinks{sink: stats.Lines{W: w}, end: nothing}, nil
}
