package stats

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/statsd_exporter/pkg/mapper"
	"github.com/prometheus/statsd_exporter/pkg/registry"

	"github.com/weirlimit/weir/internal/regular"
)

// maxMappingBytes bounds a mapping file.
const maxMappingBytes = 1 << 20

// PrometheusOptions say how statistics become series.
type PrometheusOptions struct {
	// MappingFile says which, as statsd_exporter reads it. Zero means the
	// mapping built in.
	MappingFile string
	// Milliseconds has the mapping built in leave response times in
	// milliseconds. Zero means seconds.
	Milliseconds bool
	// Log is told what is wrong with the file. Nil means nobody is.
	Log *slog.Logger
}

// Prometheus keeps statistics as Prometheus series, by statsd_exporter's mapping
// of names to series and labels, with its own counters beside them.
type Prometheus struct {
	gatherer *prometheus.Registry
	log      *slog.Logger

	mu     sync.Mutex // guards the rest
	mapper *mapper.MetricMapper
	series *registry.Registry
	known  map[string]*mapped

	actions    *prometheus.CounterVec
	unmapped   prometheus.Counter
	seriesOf   *prometheus.GaugeVec
	conflicts  *prometheus.CounterVec
	events     *prometheus.CounterVec
	rejections *prometheus.CounterVec
}

// mapped is what one statistic becomes.
type mapped struct {
	mapping *mapper.MetricMapping
	name    string
	labels  prometheus.Labels
	found   bool // a mapping was
	broken  bool // its series cannot be made
}

// countedBy registers a counter with one label.
func countedBy(register promauto.Factory, name, help, label string) *prometheus.CounterVec {
	return register.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
}

// NewPrometheus returns the sink. With a mapping file that cannot be used no
// statistic is mapped: each is a series by its own name. That is logged.
func NewPrometheus(o PrometheusOptions) (*Prometheus, error) {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p := &Prometheus{gatherer: reg, log: o.Log, known: map[string]*mapped{}}
	register := promauto.With(reg)
	p.actions = countedBy(register, "statsd_exporter_events_actions_total", "The total number of StatsD events by action.", "action")
	p.unmapped = register.NewCounter(prometheus.CounterOpts{
		Name: "statsd_exporter_events_unmapped_total", Help: "The total number of StatsD events no mapping was found for.",
	})
	p.seriesOf = register.NewGaugeVec(prometheus.GaugeOpts{
		Name: "statsd_exporter_metrics_total", Help: "The total number of metrics.",
	}, []string{"type"})
	p.conflicts = countedBy(register, "statsd_exporter_events_conflict_total", "The total number of StatsD events with conflicting names.", "type")
	p.events = countedBy(register, "statsd_exporter_events_total", "The total number of StatsD events seen.", "type")
	p.rejections = countedBy(register, "statsd_exporter_events_error_total", "The total number of StatsD events discarded due to errors.", "reason")

	p.mapper = &mapper.MetricMapper{Registerer: reg}
	p.series = registry.NewRegistry(reg, p.mapper)
	if o.MappingFile != "" {
		read, err := mappingFile(o.MappingFile, o.Log)
		if err == nil {
			err = p.mapper.InitFromYAMLString(read)
		}
		if err != nil {
			o.Log.Error("invalid Prometheus mapping ignored; statistics keep their own names", "file", o.MappingFile, "err", err)
		}
		return p, nil
	}
	if err := p.mapper.InitFromYAMLString(defaultMapping(o.Milliseconds)); err != nil {
		return nil, fmt.Errorf("mapping built in: %w", err)
	}
	return p, nil
}

func mappingFile(path string, log *slog.Logger) (string, error) {
	data, err := regular.Read(path, maxMappingBytes)
	if err != nil {
		return "", err
	}
	data, err = modernizeMapping(data, log)
	return string(data), err
}

// Handler serves the series. It calls before first, which may flush timers to
// the sink.
func (p *Prometheus) Handler(before func()) http.Handler {
	inner := promhttp.InstrumentMetricHandler(p.gatherer, promhttp.HandlerFor(p.gatherer, promhttp.HandlerOpts{}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before()
		p.Flush()
		inner.ServeHTTP(w, r)
	})
}

// Flush implements Sink: series whose time to live is over are removed.
func (p *Prometheus) Flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.series.RemoveStaleMetrics()
}

// mapStatistic returns what the statistic becomes; false means that it is dropped.
// Requires: mu.
func (p *Prometheus) mapStatistic(name string, kind mapper.MetricType) (*mapped, bool) {
	key := string(kind) + " " + name
	m, ok := p.known[key]
	if !ok {
		m = &mapped{}
		m.mapping, m.labels, m.found = p.mapper.GetMapping(name, kind)
		if m.mapping == nil {
			m.mapping = &mapper.MetricMapping{Ttl: p.mapper.Defaults.Ttl}
		}
		if m.labels == nil {
			m.labels = prometheus.Labels{}
		}
		if m.name = mapper.EscapeMetricName(name); m.found {
			m.name = mapper.EscapeMetricName(m.mapping.Name)
		}
		p.known[key] = m // as many as the Store has statistics
	}
	switch {
	case m.mapping.Action == mapper.ActionTypeDrop:
		p.actions.WithLabelValues("drop").Inc()
		return m, false
	case m.found && m.mapping.Name == "":
		p.rejections.WithLabelValues("empty_metric_name").Inc()
		return m, false
	case m.found:
		p.actions.WithLabelValues(string(m.mapping.Action)).Inc()
	default:
		p.unmapped.Inc()
	}
	return m, true
}

func (m *mapped) help() string {
	return cmp.Or(m.mapping.HelpText, "Metric autogenerated by statsd_exporter.")
}

func (m *mapped) scaleValue(v float64) float64 {
	if m.mapping.Scale.Set {
		v *= m.mapping.Scale.Val
	}
	return v
}

// A getter is one of the registry's methods that return a series.
type getter[T any] func(string, prometheus.Labels, string, *mapper.MetricMapping, *prometheus.GaugeVec) (T, error)

// getSeries returns the series of a statistic and counts the event. False means that
// there is none: the name is taken by another kind of series, or the mapping
// asks for what the Prometheus library panics of, such as buckets that do not
// increase. Requires: p.mu.
func getSeries[T any](p *Prometheus, m *mapped, kind string, from getter[T]) (series T, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			p.log.Error("statistic without series: invalid mapping", "series", m.name, "err", r)
			m.broken = true
		}
		if !ok {
			p.conflicts.WithLabelValues(kind).Inc()
		}
	}()
	if m.broken {
		return series, false
	}
	series, err := from(m.name, m.labels, m.help(), m.mapping, p.seriesOf)
	if err != nil {
		p.log.Debug("statistic has no series", "series", m.name, "err", err)
		return series, false
	}
	p.events.WithLabelValues(kind).Inc()
	return series, true
}

// Counter implements Sink.
func (p *Prometheus) Counter(name string, delta uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, ok := p.mapStatistic(name, mapper.MetricTypeCounter)
	if !ok {
		return
	}
	by := m.scaleValue(float64(delta))
	if by < 0 {
		p.rejections.WithLabelValues("illegal_negative_counter").Inc()
		return
	}
	if c, ok := getSeries(p, m, "counter", p.series.GetCounter); ok {
		c.Add(by)
	}
}

// Gauge implements Sink.
func (p *Prometheus) Gauge(name string, value uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, ok := p.mapStatistic(name, mapper.MetricTypeGauge)
	if !ok {
		return
	}
	if g, ok := getSeries(p, m, "gauge", p.series.GetGauge); ok {
		g.Set(m.scaleValue(float64(value)))
	}
}

// Timer implements Sink.
func (p *Prometheus) Timer(name string, ms int64, n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, ok := p.mapStatistic(name, mapper.MetricTypeObserver)
	if !ok {
		return
	}
	kind := m.mapping.ObserverType
	if kind == mapper.ObserverTypeDefault {
		kind = p.mapper.Defaults.ObserverType
	}
	from := getter[prometheus.Observer](p.series.GetSummary)
	if kind == mapper.ObserverTypeHistogram {
		from = p.series.GetHistogram
	}
	o, ok := getSeries(p, m, "observer", from)
	if !ok {
		return
	}
	for range n {
		o.Observe(m.scaleValue(float64(ms)))
	}
	// The first was counted with the lookup.
	p.events.WithLabelValues("observer").Add(float64(n - 1))
	if m.found {
		p.actions.WithLabelValues(string(m.mapping.Action)).Add(float64(n - 1))
	} else {
		p.unmapped.Add(float64(n - 1))
	}
}
