package telemetry

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// producer turns what Prometheus would read into what OTLP sends.
//
// Names and labels stay as they are, so that a query for one is a query for the
// other; a unit is added where the name ends with one. An empty label is no
// attribute, as in Prometheus it is no label. Metrics that OpenTelemetry has a name
// for are sent under it as well, see semantic.
type producer struct{ gather func() prometheus.Gatherer }

var _ sdkmetric.Producer = producer{}

// Produce implements sdkmetric.Producer.
func (p producer) Produce(ctx context.Context) ([]metricdata.ScopeMetrics, error) {
	from := p.gather()
	if from == nil {
		return nil, nil
	}
	scopes, err := bridge.NewMetricProducer(bridge.WithGatherer(from)).Produce(ctx)
	for i := range scopes {
		s := &scopes[i]
		s.Scope.Name = scope
		for j := range s.Metrics {
			m := &s.Metrics[j]
			m.Unit = metricUnit(m.Name)
			m.Data = relabel(m.Data, present)
			if alike, ok := semantic(*m); ok {
				s.Metrics = append(s.Metrics, alike)
			}
		}
	}
	return scopes, err
}

// metricUnit returns the UCUM unit that a metric's name ends with, empty for none.
func metricUnit(name string) string {
	switch name = strings.TrimSuffix(name, "_total"); {
	case strings.HasSuffix(name, "_seconds"), strings.HasSuffix(name, ".duration"):
		return "s"
	case strings.HasSuffix(name, "_bytes"):
		return "By"
	case strings.HasSuffix(name, "_ratio"):
		return "1"
	}
	return ""
}

// semantic returns m under the name that OpenTelemetry's conventions have for it,
// and false where they have none. http.server.request.duration is measured under
// its own name, as its attributes are others than ours.
//
// Source: semantic conventions 1.43.0, RPC metrics.
func semantic(m metricdata.Metrics) (metricdata.Metrics, bool) {
	if m.Name != "weir_grpc_call_duration_seconds" {
		return m, false
	}
	m.Name, m.Description = "rpc.server.call.duration", "Duration of an incoming RPC."
	m.Data = relabel(m.Data, func(kv attribute.KeyValue) (attribute.KeyValue, bool) {
		switch v := kv.Value.AsString(); kv.Key {
		case "method":
			return attribute.String("rpc.method", strings.TrimPrefix(v, "/")), true
		case "code":
			return attribute.String("rpc.response.status_code", strings.Replace(upperSnake(v), "CANCELED", "CANCELLED", 1)), true
		}
		return kv, true
	}, attribute.String("rpc.system.name", "grpc"))
	return m, true
}

// upperSnake writes the name of a gRPC code as the conventions do: NotFound is
// NOT_FOUND.
func upperSnake(s string) string {
	var b strings.Builder
	last := rune('A')
	for i, r := range s {
		if i > 0 && unicode.IsUpper(r) && unicode.IsLower(last) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
		last = r
	}
	return b.String()
}

// present keeps an attribute that says something, with a status as the number that
// it is.
func present(kv attribute.KeyValue) (attribute.KeyValue, bool) {
	v := kv.Value.AsString()
	if kv.Key == "http.response.status_code" {
		if n, err := strconv.Atoi(v); err == nil {
			return attribute.Int(string(kv.Key), n), true
		}
	}
	return kv, v != ""
}

// relabel returns data whose points have the attributes that change makes of theirs,
// and those of more.
func relabel(data metricdata.Aggregation, change func(attribute.KeyValue) (attribute.KeyValue, bool), more ...attribute.KeyValue) metricdata.Aggregation {
	set := func(of attribute.Set) attribute.Set {
		kvs := make([]attribute.KeyValue, 0, of.Len()+len(more))
		for i := of.Iter(); i.Next(); {
			if kv, ok := change(i.Attribute()); ok {
				kvs = append(kvs, kv)
			}
		}
		return attribute.NewSet(append(kvs, more...)...)
	}
	points := func(of []metricdata.DataPoint[float64]) []metricdata.DataPoint[float64] {
		of = slices.Clone(of)
		for i := range of {
			of[i].Attributes = set(of[i].Attributes)
		}
		return of
	}
	switch d := data.(type) {
	case metricdata.Gauge[float64]:
		d.DataPoints = points(d.DataPoints)
		return d
	case metricdata.Sum[float64]:
		d.DataPoints = points(d.DataPoints)
		return d
	case metricdata.Histogram[float64]:
		d.DataPoints = slices.Clone(d.DataPoints)
		for i := range d.DataPoints {
			d.DataPoints[i].Attributes = set(d.DataPoints[i].Attributes)
		}
		return d
	}
	return data // summaries of the Go runtime have no labels
}
