// Package envoy is compatible mode: it answers as envoyproxy/ratelimit does, so
// that whoever runs that service changes an image name and nothing else.
//
// The rules files and their error texts, the matching, the counters and their
// keys, the statuses, headers, metadata and statistics are those of that service
// at commit f2fb157 of July 2026. docs/how-to/envoy-ratelimit.md lists what deviates, and why.
//
// A Service decides. It implements Envoy's rate limit service (gRPC), and JSON
// returns the same over HTTP. Rules come from Load or LoadXDS, all or nothing.
// Counters are kept by a counter.Store: in this process, in Redis under the
// names that envoyproxy/ratelimit gives them, or in Memcached.
//
// Windows are fixed and aligned to the Unix epoch, by the clock of this node in
// whole seconds. What is refused is counted too. The counters of one request are
// changed one by one.
package envoy
