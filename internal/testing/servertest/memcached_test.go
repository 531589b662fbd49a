package servertest_test

import (
	"net"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

func TestMemcached(t *testing.T) {
	addr := ""
	t.Run("serves", func(t *testing.T) {
		addr, _ = servertest.Memcached(t, "")
		nc, err := net.DialTimeout("tcp", addr, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
	})
	if addr == "" {
		t.SkipNow() // The subtest said why.
	}
	if nc, err := net.DialTimeout("tcp", addr, time.Minute); err == nil {
		nc.Close()
		t.Error("memcached still answers after its test ended")
	}
}
