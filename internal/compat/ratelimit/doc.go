// Package ratelimit runs a node in the place of Envoy's rate limit service:
// configured by its environment variables, listening where it listens, telling
// what it tells. `weir ratelimit` is this package and a log.
//
// New builds everything that can be refused at once; Run waits for the store and
// the first rules as that service does, serves, and drains when its context
// ends.
package ratelimit
