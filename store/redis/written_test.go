package redis

import (
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/store/storetest"
)

func TestFamilyNeverMoreThanWritten(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	var now atomic.Int64
	now.Store(1_700_000_000_000_000)
	storetest.NeverMoreThanWritten(t, openTold(t, "redis://"+r.Addr, now.Load), now.Store)
}
