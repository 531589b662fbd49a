package redis

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/store/storetest"
)

// prefixes give every store of the tests keys of its own.
var prefixes atomic.Int64

func newPrefix() string { return fmt.Sprint("t", prefixes.Add(1)) }

// openTold opens a store that is told the time, or that goes by the server's
// clock if now is nil. It is patient: the race detector is slow.
func openTold(t testing.TB, url string, now func() int64) *Store {
	t.Helper()
	a, err := parse(url, Options{Prefix: newPrefix(), Timeout: long})
	if err != nil {
		t.Fatal(err)
	}
	head := serverTime
	if now != nil {
		head = toldTime
	}
	s, err := a.open(t.Context(), head)
	if err != nil {
		t.Fatal(err)
	}
	s.told = now
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestSingle(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	run := storetest.Run
	if testing.Short() {
		run = storetest.RunBriefly
	}
	run(t, func(t *testing.T, now func() int64) weir.Store {
		return openTold(t, "redis://"+r.Addr, now)
	})
}

func TestSingleLive(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	storetest.RunLive(t, func(t *testing.T, _ func() int64) weir.Store {
		return openTold(t, "redis+unix://"+r.Socket, nil)
	})
}
