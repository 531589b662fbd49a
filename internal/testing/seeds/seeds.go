// Package seeds chooses the seed of tests that draw their cases.
package seeds

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Of returns the seed of t's cases and logs it: WEIR_SEED where that is set, so
// that a run can be repeated; a random one where WEIR_SOAK is 1; else 1, so that a
// change is judged by the same cases each time.
func Of(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(1)
	if text := os.Getenv("WEIR_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("WEIR_SEED: %v", err)
		}
		seed = n
	} else if os.Getenv("WEIR_SOAK") == "1" {
		seed = rand.Uint64()
	}
	t.Logf("WEIR_SEED=%d repeats this run", seed)
	return seed
}
