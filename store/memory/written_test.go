package memory

import (
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/store/storetest"
)

func TestFamilyNeverMoreThanWritten(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	s := New(Options{MaxBytes: 64 << 20, Now: now.Load})
	defer s.Close()
	storetest.NeverMoreThanWritten(t, s, now.Store)
}
