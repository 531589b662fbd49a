package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/weirlimit/weir/limits"
)

// RESP is what the front end for Redis clients says of itself.
type RESP struct {
	// Limits are those whose counters count CL.THROTTLE.
	Limits []limits.Ref
	// Clients is how many are connected, Most how many may be.
	Clients, Most int64
	// The rest counts since start: connections let in and turned away, commands,
	// failed authentications, connections that broke the protocol, those that
	// took too long, and those for whose commands there was no room.
	Accepted, Refused, Commands, WrongPasswords, Malformed, Slow, NoRoom uint64
}

func (r RESP) collect(out sink) {
	out.gauge("weir_resp_clients", "Connected Redis clients.", float64(r.Clients))
	out.gauge("weir_resp_max_clients", "Maximum number of connected Redis clients.", float64(r.Most))
	connections := out.counters("weir_resp_connections_total", "Connections of Redis clients, by whether they were accepted.", "result")
	connections.count(r.Accepted, "accepted")
	connections.count(r.Refused, "refused")
	out.counter("weir_resp_commands_total", "Commands of Redis clients.", r.Commands)
	out.counter("weir_resp_auth_failures_total", "Wrong passwords of Redis clients.", r.WrongPasswords)
	closed := out.counters("weir_resp_connections_closed_total", "Connections of Redis clients that were closed: a protocol error or an exceeded bound (malformed), a client that was too slow (slow), or no memory for large commands (memory).", "reason")
	closed.count(r.Malformed, "malformed")
	closed.count(r.Slow, "slow")
	closed.count(r.NoRoom, "memory")
}

// RESPBatch returns what is to be told of every batch of commands that came with
// one read, and how long its replies took.
func (m *Metrics) RESPBatch() func(commands int, took time.Duration) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "weir_resp_batch_duration_seconds",
		Help: "Time from reading a batch of pipelined commands of a Redis client to writing the last reply.",
		// From ten microseconds, what one decision takes with its system calls.
		Buckets: []float64{1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1},
	})
	m.registry.MustRegister(h)
	return func(_ int, took time.Duration) { h.Observe(took.Seconds()) }
}
