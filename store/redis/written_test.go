package redis

import (
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/store/storetest"
)

func TestFamilyNeverMoreThanWritten(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	storetest.RunBound(t, openAt("redis://"+r.Addr))
}

func TestFamilyChangedNumbers(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	storetest.RunChanges(t, openAt("redis://"+r.Addr), true)
}
