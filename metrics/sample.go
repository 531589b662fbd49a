package metrics

import "github.com/prometheus/client_golang/prometheus"

// sink takes what metrics there are, or their samples: one of the two is nil.
type sink struct {
	descs   chan<- *prometheus.Desc
	samples chan<- prometheus.Metric
}

// family is the series of one metric.
type family struct {
	sink
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func (s sink) family(kind prometheus.ValueType, name, help string, labels ...string) family {
	f := family{s, prometheus.NewDesc(name, help, labels, nil), kind}
	if s.descs != nil {
		s.descs <- f.desc
	}
	return f
}

// counters and gauges tell of a metric with labels. Its samples follow.
func (s sink) counters(name, help string, labels ...string) family {
	return s.family(prometheus.CounterValue, name, help, labels...)
}

func (s sink) gauges(name, help string, labels ...string) family {
	return s.family(prometheus.GaugeValue, name, help, labels...)
}

// counter and gauge tell of a metric without labels and its sample.
func (s sink) counter(name, help string, n uint64) { s.counters(name, help).count(n) }

func (s sink) gauge(name, help string, v float64) { s.gauges(name, help).set(v) }

func (f family) count(n uint64, labels ...string) { f.set(float64(n), labels...) }

func (f family) set(v float64, labels ...string) {
	if f.samples != nil {
		f.samples <- prometheus.MustNewConstMetric(f.desc, f.kind, v, labels...)
	}
}

// writeMetrics tells what collect makes of what read returns; read is nil where there is
// nothing to be told of. That there are such metrics is told in any case.
func writeMetrics[S any](out sink, read func() S, collect func(S, sink)) {
	switch {
	case out.descs != nil:
		var zero S
		collect(zero, out)
	case read != nil:
		collect(read(), out)
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
