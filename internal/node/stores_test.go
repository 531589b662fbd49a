package node

import (
	"log/slog"
	"strconv"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// store_local_max_bytes bounds of how many keys a node holds units.
func TestStoreHeld(t *testing.T) {
	redis := servertest.Redis(t)
	l := weir.PerHour(1000, algorithm.FixedWindow)
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	const keys = 4000
	held := func(memory config.Bytes) int64 {
		t.Helper()
		conf := config.Defaults()
		conf.Store, conf.StoreHeld = "redis://"+redis.Addr, memory
		o, err := openStoreOf(conf, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		for i := range keys {
			if d, err := o.TakeOne(t.Context(), strconv.Itoa(i), l, 1); err != nil || !d.Allowed() {
				t.Fatalf("key %d: %+v, %v", i, d, err)
			}
		}
		return o.shared().Leases
	}
	if n := held(64 << 20); n != keys {
		t.Errorf("%d of %d keys in 64 MiB", n, keys)
	}
	if n := held(1 << 20); n < keys/10 || n > keys/2 {
		t.Errorf("%d of %d keys in 1 MiB", n, keys)
	}
}
