//go:build !race

package envoy_test

// raced: the race detector allocates, and empties pools.
const raced = false
