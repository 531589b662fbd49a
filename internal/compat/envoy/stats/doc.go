// Package stats keeps the statistics that Envoy's rate limit service is known
// by: the same names, the same tags, the same numbers, sent to the same sinks
// (statsd, dogstatsd, Prometheus, or a log).
//
// A Store holds counters, gauges and timers; a Scope names them. Whoever counts
// keeps the *Counter and adds to it: an atomic addition, no lookup. Every flush
// interval the Store tells its Sink what has changed.
//
// Statistics are bounded. What rules name is always counted by its own name.
// Names that requests bring (overrides, values put into names, unknown domains)
// are counted by their own name up to Options.MaxKeys; beyond that all that are
// new share one series called "overflow" (see Store.Dynamic).
//
// Everything exported is safe for concurrent use.
package stats
