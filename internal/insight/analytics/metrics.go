package analytics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirlimit/weir/internal/insight/event"
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("weir_analytics_"+name, help, labels, nil)
}

var (
	eventsDesc       = desc("events_total", "Events that came from the queue, by what became of them: counted, left out since they had been before (duplicate), too late for what is kept, or refused by the database for what it says (set_aside).", "result")
	batchesDesc      = desc("batches_total", "Batches that came from the queue.")
	transactionsDesc = desc("transactions_total", "Transactions in which events were counted.")
	retriesDesc      = desc("retries_total", "Transactions that failed and were made again.")
	failingDesc      = desc("failing", "1 while the database takes no events.")
	waitingDesc      = desc("waiting_events", "Events that were taken from the queue and are not counted yet.")
	lagDesc          = desc("lag_seconds", "How old the newest event of the last transaction was when it was counted.")
	unreadableDesc   = desc("unreadable_messages_total", "Messages of the queue, or pieces of them, that are no events: put aside at the broker under the name with the ending .aside (aside), or left out since that took nothing for ten seconds (lost).", "result")
	forgottenDesc    = desc("forgotten_rows_total", "Rows that were deleted because they were too old or took too much room.")
)

// collector reads what a service did when it is asked.
type collector struct{ s *Service }

// Collector returns the service's metrics for Prometheus.
func (s *Service) Collector() prometheus.Collector { return collector{s} }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{eventsDesc, batchesDesc, transactionsDesc, retriesDesc, failingDesc, waitingDesc, lagDesc, forgottenDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	info := c.s.Info()
	count := func(d *prometheus.Desc, n int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	count(eventsDesc, info.Events-info.Late, "counted")
	count(eventsDesc, info.Duplicates, "duplicate")
	count(eventsDesc, info.Late, "late")
	count(eventsDesc, info.SetAside, "set_aside")
	count(batchesDesc, info.Batches)
	count(transactionsDesc, info.Transactions)
	count(retriesDesc, info.Retries)
	failing := 0.0
	if info.Failing != "" {
		failing = 1
	}
	gauge(failingDesc, failing)
	gauge(waitingDesc, float64(info.Waiting))
	gauge(lagDesc, float64(info.LagMS)/1000)
	count(forgottenDesc, c.s.state.forgotten.Load())
}

// unreadable is a source that counts the messages which are no events.
type unreadable interface {
	Aside() uint64
	Lost() uint64
}

// SourceCollector returns the metrics of a source for Prometheus, nil for one that
// carries nothing but events.
func SourceCollector(src event.Source) prometheus.Collector {
	if u, ok := src.(unreadable); ok {
		return sourceCollector{u}
	}
	return nil
}

type sourceCollector struct{ of unreadable }

// Describe implements prometheus.Collector.
func (c sourceCollector) Describe(ch chan<- *prometheus.Desc) { ch <- unreadableDesc }

// Collect implements prometheus.Collector.
func (c sourceCollector) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(unreadableDesc, prometheus.CounterValue, float64(c.of.Aside()), "aside")
	ch <- prometheus.MustNewConstMetric(unreadableDesc, prometheus.CounterValue, float64(c.of.Lost()), "lost")
}
