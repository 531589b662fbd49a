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
	a, err := parseURL(url, Options{Prefix: newPrefix(), Timeout: long})
	if err != nil {
		t.Fatal(err)
	}
	head := serverTime
	if now != nil {
		head = timeArgument
	}
	s, err := a.openStore(t.Context(), head)
	if err != nil {
		t.Fatal(err)
	}
	s.nowFunc = now
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// openAt opens stores at url, whose time is what a test sets.
func openAt(url string) storetest.Open {
	return func(t *testing.T, now func() int64) weir.Store { return openTold(t, url, now) }
}

func TestSingle(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	storetest.Run(t, openAt("redis://"+r.Addr), storetest.Options{Brief: testing.Short()})
}

func TestSingleLive(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	storetest.Run(t, openAt("redis+unix://"+r.Socket), storetest.Options{Live: true})
}
