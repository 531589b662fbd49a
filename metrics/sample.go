package metrics

import "github.com/prometheus/client_golang/prometheus"

// writeCounter and writeGauge write one sample, with the values of its labels.
type (
	writeCounter func(d *prometheus.Desc, n uint64, labels ...string)
	writeGauge   func(d *prometheus.Desc, v float64, labels ...string)
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
