package metrics

import "github.com/prometheus/client_golang/prometheus"

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

var (
	redisRequests  = desc("weir_redis_requests_total", "Decisions sent to Redis.")
	redisScripts   = desc("weir_redis_scripts_total", "Scripts that carried them: decisions under the same limits are batched.")
	redisReloads   = desc("weir_redis_script_reloads_total", "Scripts sent again because a server did not have them, as after a restart or a failover.")
	redisQueued    = desc("weir_redis_queued_requests", "Decisions that wait to be sent to Redis.")
	redisRollbacks = desc("weir_redis_rollbacks_total", "Limits charged on one server and refunded because a limit on another server refused, by whether the refund succeeded.", "result")
	redisFailover  = desc("weir_redis_failover_decisions_total", "Decisions made by another server of the ring because the key's own server is down.")
	redisSlots     = desc("weir_redis_unavailable_slots", "Estimated number of cluster slots on servers that are down; 0 without a cluster.")
	redisServers   = desc("weir_redis_ring_servers", "Servers of the ring, by state; 0 without a ring.", "state")
)

var redisDescs = []*prometheus.Desc{redisRequests, redisScripts, redisReloads, redisQueued, redisRollbacks, redisFailover, redisSlots, redisServers}

func (s *Redis) collect(counter writeCounter, gauge writeGauge) {
	counter(redisRequests, s.Requests)
	counter(redisScripts, s.Scripts)
	counter(redisReloads, s.Reloads)
	gauge(redisQueued, float64(s.Waiting))
	counter(redisRollbacks, s.RolledBack-min(s.Kept, s.RolledBack), "success")
	counter(redisRollbacks, s.Kept, "failure")
	counter(redisFailover, s.Moved)
	gauge(redisSlots, float64(s.LostSlots))
	gauge(redisServers, float64(s.Servers-s.Lost), "up")
	gauge(redisServers, float64(s.Lost), "down")
}
