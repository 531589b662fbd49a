// Package envoy puts a real Envoy before Weir: with the files of deploy/envoy as they are,
// ports apart; with every block of the pages about Envoy, taken from the page; and, beside
// the binary of envoyproxy/ratelimit, with every kind of action, hit, override and filter
// by which Envoy asks for limits.
package envoy
