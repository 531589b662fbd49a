package counter_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// The client library lets a refresh of a cluster sleep on after it is closed.
func TestMain(m *testing.M) {
	servertest.Main(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}
