package metrics

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

func (e Events) collect(out sink) {
	requests := out.counters("weir_requests_total", "Decided requests, each counted once whatever the number of its limits, by result: allowed, refused, or failed because the store could not decide. Absent with --events off.", "result")
	requests.count(e.Allowed, "allowed")
	requests.count(e.Refused, "refused")
	requests.count(e.Undecided, "failed")
	dropped := out.counters("weir_events_dropped_total", "Decisions without an event: the ring buffer was full (ring_full), or the queue did not accept the events in time (queue_full). Rollups count them all.", "reason")
	dropped.count(e.Dropped, "ring_full")
	dropped.count(e.Discarded, "queue_full")
	out.counter("weir_events_rollups_dropped_total", "Rollups of limits that the queue did not accept in time.", e.Rollups)
	out.counter("weir_events_published_total", "Events that the queue accepted.", e.Published)
	out.counter("weir_events_publish_failures_total", "Failed attempts to publish events; they are retried.", e.Failures)
	out.counter("weir_events_rejected_total", "Events that the queue rejected while it accepted others, such as one that is too large; they are lost.", e.Rejected)
	out.gauge("weir_events_backlog", "Events that wait to be published.", float64(e.Backlog))
	out.gauge("weir_events_max_backlog", "Maximum number of events that may wait to be published.", float64(e.MaxBacklog))
	out.gauge("weir_events_queue_up", "1 while the queue accepts events.", oneIf(e.Up))
	out.gauge("weir_live_readers", "Readers of the live stream.", float64(e.Readers))
	out.counter("weir_live_events_dropped_total", "Events dropped because a reader of the live stream was too slow.", e.LiveDropped)
}
