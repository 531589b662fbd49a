package memory_test

import (
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/storetest"
)

func open(t *testing.T, now func() int64) weir.Store {
	s := memory.New(memory.Options{Now: now, MaxBytes: 64 << 20})
	t.Cleanup(func() { s.Close() })
	return s
}

func TestConformance(t *testing.T) { storetest.Run(t, open, storetest.Options{}) }

func TestConformanceOnItsOwnClock(t *testing.T) {
	storetest.Run(t, open, storetest.Options{Live: true})
}

func TestFamilyNeverMoreThanWritten(t *testing.T) {
	t.Parallel()
	storetest.RunBound(t, open)
}

func TestFamilyChangedNumbers(t *testing.T) {
	t.Parallel()
	storetest.RunChanges(t, open, false)
}
