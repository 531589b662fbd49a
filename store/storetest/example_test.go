package storetest_test

import (
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/storetest"
)

// open opens the store that is tested: here the one in memory.
func open(t *testing.T, now func() int64) weir.Store {
	s := memory.New(memory.Options{MaxBytes: 64 << 20, Now: now})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// The tests of a store are one line each. These two are named TestConformance and
// TestBound in its own package.
func Example() {
	testConformance := func(t *testing.T) { storetest.Run(t, open, storetest.Options{}) }
	testBound := func(t *testing.T) { storetest.RunBound(t, open) }
	_, _ = testConformance, testBound
}
