package analytics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirlimit/weir/internal/insight/event"
)

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("weir_analytics_"+name, help, labels, nil)
}

var (
	eventsDesc       = newDesc("events_total", "Events read from the queue, by result: counted, already counted (duplicate), older than the retention (late), or rejected by the database for their content (rejected).", "result")
	batchesDesc      = newDesc("batches_total", "Batches read from the queue.")
	transactionsDesc = newDesc("transactions_total", "Transactions in which events were counted.")
	retriesDesc      = newDesc("retries_total", "Transactions that failed and were retried.")
	databaseUpDesc   = newDesc("database_up", "1 while the database accepts events.")
	pendingDesc      = newDesc("pending_events", "Events read from the queue and not yet counted.")
	lagDesc          = newDesc("lag_seconds", "Age of the newest event of the last transaction when it was committed.")
	invalidDesc      = newDesc("invalid_messages_total", "Messages of the queue, or parts of them, that are not events: moved to the dead-letter queue, the name with the suffix .dlq (dead_letter), or dropped because it accepted nothing for ten seconds (dropped).", "result")
	prunedDesc       = newDesc("pruned_rows_total", "Rows deleted because of their age or to bound the size of the database.")
)

// collector reads what a service did when it is asked.
type collector struct{ s *Service }

// Collector returns the service's metrics for Prometheus.
func (s *Service) Collector() prometheus.Collector { return collector{s} }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

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
	count(eventsDesc, info.Rejected, "rejected")
	count(batchesDesc, info.Batches)
	count(transactionsDesc, info.Transactions)
	count(retriesDesc, info.Retries)
	up := 1.0
	if info.Failing != "" {
		up = 0
	}
	gauge(databaseUpDesc, up)
	gauge(pendingDesc, float64(info.Waiting))
	gauge(lagDesc, float64(info.LagMS)/1000)
	count(prunedDesc, c.s.rows.CountPruned())
}

// unreadable is a source that counts the messages which are no events.
type unreadable interface {
	DeadLetters() uint64
	Dropped() uint64
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
func (c sourceCollector) Describe(ch chan<- *prometheus.Desc) { ch <- invalidDesc }

// Collect implements prometheus.Collector.
func (c sourceCollector) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(invalidDesc, prometheus.CounterValue, float64(c.of.DeadLetters()), "dead_letter")
	ch <- prometheus.MustNewConstMetric(invalidDesc, prometheus.CounterValue, float64(c.of.Dropped()), "dropped")
}
