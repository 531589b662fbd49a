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
	// GivenBack counts limits that were charged on one server and given back as
	// another refused, Kept those of them that could not be.
	GivenBack, Kept uint64
	// Moved counts decisions on keys whose own server of a ring is lost.
	Moved uint64
	// Servers is how many servers a ring has, Lost how many of them are lost.
	Servers, Lost int
	// LostSlots is about how many slots of a cluster are on servers that do not answer.
	LostSlots int
}

var (
	redisRequests = desc("weir_redis_requests_total", "Requests that were sent to Redis to be decided.")
	redisScripts  = desc("weir_redis_scripts_total", "Scripts in which they were sent: requests under the same limits go together.")
	redisReloads  = desc("weir_redis_script_reloads_total", "Requests whose script a server did not know, as after a restart or a failover, and was sent again.")
	redisWaiting  = desc("weir_redis_waiting_requests", "Requests that wait to be sent to Redis.")
	redisBack     = desc("weir_redis_given_back_total", "Limits charged on one server of several and given back because another refused, by whether that could be done.", "result")
	redisMoved    = desc("weir_redis_moved_decisions_total", "Decisions on keys of a server of the ring that is lost, made by another one.")
	redisSlots    = desc("weir_redis_lost_slots", "About how many slots of the cluster are on servers that do not answer; none without a cluster.")
	redisServers  = desc("weir_redis_ring_servers", "Servers of the ring, by whether they answer; none without a ring.", "state")
)

var redisDescs = []*prometheus.Desc{redisRequests, redisScripts, redisReloads, redisWaiting, redisBack, redisMoved, redisSlots, redisServers}

func (s *Redis) collect(counter func(*prometheus.Desc, uint64, ...string), gauge func(*prometheus.Desc, float64, ...string)) {
	counter(redisRequests, s.Requests)
	counter(redisScripts, s.Scripts)
	counter(redisReloads, s.Reloads)
	gauge(redisWaiting, float64(s.Waiting))
	counter(redisBack, s.GivenBack-min(s.Kept, s.GivenBack), "given_back")
	counter(redisBack, s.Kept, "lost")
	counter(redisMoved, s.Moved)
	gauge(redisSlots, float64(s.LostSlots))
	gauge(redisServers, float64(s.Servers-s.Lost), "up")
	gauge(redisServers, float64(s.Lost), "lost")
}
