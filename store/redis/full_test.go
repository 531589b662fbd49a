package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
)

// TestFullServerStaysOut: while the server's memory is full the breaker stays open, though it
// answers reads and some scripts, and it closes once a write passes.
func TestFullServerStaysOut(t *testing.T) {
	t.Parallel()
	server := servertest.Redis(t)
	s := newShared(t, open(t, "redis://"+server.Addr, Options{}), params.ConsistencyStrict, nil)
	window, asked := perHour(t, 1000, algorithm.FixedWindow), 0
	decides := func() bool {
		asked++
		ops := []weir.Op{{Key: fmt.Sprint(asked), Limit: window, Cost: 1}}
		return s.Take(t.Context(), ops) == nil && !ops[0].Decision.Guarantee().Degraded
	}
	servertest.Await(t, "the first decision", decides)
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	servertest.Await(t, "the breaker to open", func() bool { return !decides() && s.Stats().BreakerOpen })
	// While it is open no decision calls the server: these are probes.
	for calls := s.Stats().Calls; s.Stats().Calls < calls+8; time.Sleep(time.Millisecond) {
		if !s.Stats().BreakerOpen {
			t.Fatal("the breaker closes")
		}
		decides()
	}
	server.Do(t, "CONFIG", "SET", "maxmemory", "0")
	servertest.Await(t, "a write to pass", func() bool { return !s.Stats().BreakerOpen && decides() })
	if keys := fmt.Sprint(server.Do(t, "KEYS", "*:probe")); keys != "[]" {
		t.Errorf("a probe leaves %s", keys)
	}
}
