package metrics

// Redis is what a store on Redis or Valkey says of itself. Counts are since it was
// reached.
type Redis struct {
	// Requests were decided, in so many Scripts. Reloads of them a server did not
	// know and was sent again.
	Requests, Scripts, Reloads uint64
	// Waiting is how many requests wait to be sent.
	Waiting int
	// RolledBack counts limits that were charged on one server and given back as
	// another refused, Kept those of them that could not be.
	RolledBack, Kept uint64
	// Moved counts decisions on keys whose own server of a ring is lost.
	Moved uint64
	// Servers is how many servers a ring has, Lost how many of them are lost.
	Servers, Lost int
	// LostSlots is about how many slots of a cluster are on servers that do not answer.
	LostSlots int
}

func (s Redis) collect(out sink) {
	out.counter("weir_redis_requests_total", "Decisions sent to Redis.", s.Requests)
	out.counter("weir_redis_scripts_total", "Scripts that carried them: decisions under the same limits are batched.", s.Scripts)
	out.counter("weir_redis_script_reloads_total", "Scripts sent again because a server did not have them, as after a restart or a failover.", s.Reloads)
	out.gauge("weir_redis_queued_requests", "Decisions that wait to be sent to Redis.", float64(s.Waiting))
	rollbacks := out.counters("weir_redis_rollbacks_total", "Limits charged on one server and refunded because a limit on another server refused, by whether the refund succeeded.", "result")
	rollbacks.count(s.RolledBack-min(s.Kept, s.RolledBack), "success")
	rollbacks.count(s.Kept, "failure")
	out.counter("weir_redis_failover_decisions_total", "Decisions made by another server of the ring because the key's own server is down.", s.Moved)
	out.gauge("weir_redis_unavailable_slots", "Estimated number of cluster slots on servers that are down; 0 without a cluster.", float64(s.LostSlots))
	servers := out.gauges("weir_redis_ring_servers", "Servers of the ring, by state; 0 without a ring.", "state")
	servers.set(float64(s.Servers-s.Lost), "up")
	servers.set(float64(s.Lost), "down")
}
