package memcached_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memcached"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/shared"
)

// A server that Probe has not found is not asked until it says who it is; the others are.
func TestServerThatComesLater(t *testing.T) {
	there, gone := server(t), fmt.Sprint("127.0.0.1:", servertest.FreePort(t))
	s := open(t, memcached.Options{Servers: []string{there, gone}, Logger: slog.New(slog.DiscardHandler)})
	if err := s.Probe(t.Context()); !memcached.Unreachable(err) || s.NotReached() == nil {
		t.Fatal(err)
	}
	local := memory.New(memory.Options{})
	defer local.Close()
	node, err := shared.New(s, shared.Options{Local: local, Mode: params.ConsistencyStrict, Timeout: patient})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	l := yearly(t, "l", 10)
	l.Consistency.OnStoreError = params.OnErrorDeny
	count := func() (exact, degraded int) {
		for i := range 40 {
			ops := []weir.Op{{Key: fmt.Sprint(i), Limit: l, Cost: 1}}
			if err := node.Take(context.Background(), ops); err != nil {
				t.Fatal(err)
			}
			if ops[0].Decision.Guarantee().Degraded {
				degraded++
			} else {
				exact++
			}
		}
		return exact, degraded
	}
	if exact, degraded := count(); exact < 5 || degraded < 5 {
		t.Errorf("%d of the server that is there, %d of the other", exact, degraded)
	}
	servertest.Memcached(t, gone)
	servertest.Await(t, "the server to be found", func() bool { return s.NotReached() == nil })
	servertest.Await(t, "all to be exact", func() bool { _, degraded := count(); return degraded == 0 })
}
