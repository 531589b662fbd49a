// Package redis keeps the state of keys in Redis or Valkey, so that a limit holds
// across all nodes that share the servers. A single server, a primary watched by
// Sentinels, a Redis Cluster, or a ring of independent servers; Redis 6.2 or
// later, or Valkey. See docs/reference/redis.md.
//
// Guarantee: every decision is the one that the limit's algorithm defines, by the
// server's clock, in one script: on all limits of a request or on none, whoever
// else decides at the same time on whatever node. A refusal writes nothing. Keys
// expire when they no longer matter, and never before.
//
// Where the keys of one request are on several servers, or in several slots of a
// cluster, no script sees all of them. The store then takes from one place after
// the other and gives back when a later one refuses: another request may for an
// instant be refused for what is given back, but never is too much admitted. A node
// that crashes in between leaves spent what it had taken so far. All limits on
// one key are in one place.
//
// What a server loses is lost: a replica that takes over without the last writes,
// or a restart without persistence, admits once more what was spent in them.
//
// A call that is not answered in time may have been applied. It is never sent
// twice, as it could then be charged twice; see [TimeoutError]. Only what a server
// answers with NOSCRIPT, MOVED, ASK or TRYAGAIN, and so did not apply, is sent again.
package redis
