package metrics

import "github.com/prometheus/client_golang/prometheus"

// Events is the state of the observer of events.
type Events struct {
	// Allowed, Refused and Undecided count requests, each once however many limits it met.
	Allowed, Refused, Undecided uint64
	// Dropped counts decisions that found the ring full, Discarded those in events
	// that the queue did not take in time.
	Dropped, Discarded uint64
	// Rollups counts roll-ups that it did not take.
	Rollups uint64
	// Published counts events that the queue took, Failures attempts that failed.
	Published, Failures uint64
	// Rejected counts events that the queue rejected while it accepted others.
	Rejected uint64
	// Backlog is how many events wait, at most MaxBacklog.
	Backlog, MaxBacklog int
	// Up reports whether the queue accepts events.
	Up bool
	// Readers is how many read the live stream, LiveDropped how many events they were
	// too slow for.
	Readers     int
	LiveDropped uint64
}

var (
	eventsRequests   = desc("weir_requests_total", "Decided requests, each counted once whatever the number of its limits, by result: allowed, refused, or failed because the store could not decide. Absent with --events off.", "result")
	eventsDropped    = desc("weir_events_dropped_total", "Decisions without an event: the ring buffer was full (ring_full), or the queue did not accept the events in time (queue_full). Rollups count them all.", "reason")
	eventsRollups    = desc("weir_events_rollups_dropped_total", "Rollups of limits that the queue did not accept in time.")
	eventsPublished  = desc("weir_events_published_total", "Events that the queue accepted.")
	eventsFailures   = desc("weir_events_publish_failures_total", "Failed attempts to publish events; they are retried.")
	eventsRejected   = desc("weir_events_rejected_total", "Events that the queue rejected while it accepted others, such as one that is too large; they are lost.")
	eventsBacklog    = desc("weir_events_backlog", "Events that wait to be published.")
	eventsMaxBacklog = desc("weir_events_max_backlog", "Maximum number of events that may wait to be published.")
	eventsQueueUp    = desc("weir_events_queue_up", "1 while the queue accepts events.")
	liveReaders      = desc("weir_live_readers", "Readers of the live stream.")
	liveDropped      = desc("weir_live_events_dropped_total", "Events dropped because a reader of the live stream was too slow.")
)

var eventsDescs = []*prometheus.Desc{eventsRequests, eventsDropped, eventsRollups, eventsPublished, eventsFailures, eventsRejected, eventsBacklog, eventsMaxBacklog,
	eventsQueueUp, liveReaders, liveDropped}

func (e *Events) collect(counter writeCounter, gauge writeGauge) {
	counter(eventsRequests, e.Allowed, "allowed")
	counter(eventsRequests, e.Refused, "refused")
	counter(eventsRequests, e.Undecided, "failed")
	counter(eventsDropped, e.Dropped, "ring_full")
	counter(eventsDropped, e.Discarded, "queue_full")
	counter(eventsRollups, e.Rollups)
	counter(eventsPublished, e.Published)
	counter(eventsFailures, e.Failures)
	counter(eventsRejected, e.Rejected)
	gauge(eventsBacklog, float64(e.Backlog))
	gauge(eventsMaxBacklog, float64(e.MaxBacklog))
	gauge(eventsQueueUp, oneIf(e.Up))
	gauge(liveReaders, float64(e.Readers))
	counter(liveDropped, e.LiveDropped)
}
