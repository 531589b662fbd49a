package metrics

import "github.com/prometheus/client_golang/prometheus"

// Events is what the observer of events says of itself.
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
	// SetAside counts events that the queue refused while it took others.
	SetAside uint64
	// Backlog is how many events wait, at most MaxBacklog.
	Backlog, MaxBacklog int
	// Away reports whether the queue takes nothing.
	Away bool
	// Readers is how many watch the live stream, Missed how many events they were too
	// slow for.
	Readers int
	Missed  uint64
}

var (
	eventsRequests   = desc("weir_requests_total", "Requests that were decided, each counted once however many limits it met, by what became of them: allowed, refused, or failed, as the store could not decide. None with --events off.", "result")
	eventsDropped    = desc("weir_events_dropped_total", "Decisions that no record tells of: more came at once than could be looked at (ring_full), or the queue did not take their events in time (queue_full). Roll-ups have them all.", "reason")
	eventsRollups    = desc("weir_events_rollups_dropped_total", "Roll-ups of limits that the queue did not take in time.")
	eventsPublished  = desc("weir_events_published_total", "Events that the queue has taken.")
	eventsFailures   = desc("weir_events_publish_failures_total", "Attempts to hand events to the queue that failed; they are made again.")
	eventsSetAside   = desc("weir_events_set_aside_total", "Events that the queue refused while it took others, such as one that is too large; they are lost.")
	eventsBacklog    = desc("weir_events_backlog", "Events that wait for the queue.")
	eventsMaxBacklog = desc("weir_events_max_backlog", "Most events that may wait for the queue.")
	eventsAway       = desc("weir_events_queue_away", "1 while the queue takes no events.")
	eventsReaders    = desc("weir_live_readers", "Readers of the live stream.")
	eventsMissed     = desc("weir_live_missed_total", "Events that readers of the live stream were too slow for.")
)

var eventsDescs = []*prometheus.Desc{eventsRequests, eventsDropped, eventsRollups, eventsPublished, eventsFailures, eventsSetAside, eventsBacklog, eventsMaxBacklog,
	eventsAway, eventsReaders, eventsMissed}

func (e *Events) collect(counter func(*prometheus.Desc, uint64, ...string), gauge func(*prometheus.Desc, float64, ...string)) {
	counter(eventsRequests, e.Allowed, "allowed")
	counter(eventsRequests, e.Refused, "refused")
	counter(eventsRequests, e.Undecided, "failed")
	counter(eventsDropped, e.Dropped, "ring_full")
	counter(eventsDropped, e.Discarded, "queue_full")
	counter(eventsRollups, e.Rollups)
	counter(eventsPublished, e.Published)
	counter(eventsFailures, e.Failures)
	counter(eventsSetAside, e.SetAside)
	gauge(eventsBacklog, float64(e.Backlog))
	gauge(eventsMaxBacklog, float64(e.MaxBacklog))
	gauge(eventsAway, oneIf(e.Away))
	gauge(eventsReaders, float64(e.Readers))
	counter(eventsMissed, e.Missed)
}
