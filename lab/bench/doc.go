// Package bench compares Weir with other Go rate limiters, in its own module so
// that they never enter a user's module graph.
//
//	go test -bench . ./...          the usual Go benchmarks
//	go run ./cmd/compare -write     every comparison, into docs/reference/generated/benchmarks.md
//	go run ./cmd/capacity -write    memory and rate per algorithm, into docs/reference/generated/capacity.md
//
// Every limiter stands behind the same func(key string) bool, written as its
// users would write it, see package peer.
package bench
