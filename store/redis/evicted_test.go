package redis

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// A server that is short of memory for its clients evicts them, and Weir does not ask to be
// spared (CLIENT NO-EVICT): what fails may have been charged, nothing is admitted twice, and
// there are decisions again as soon as there is room.
func TestEvictedClientsComeAgain(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	do := r.Session(t) // spared, as it says when there is room again
	do("CLIENT", "NO-EVICT", "ON")
	evicted := func() (n int) {
		_, after, ok := strings.Cut(fmt.Sprint(do("INFO", "stats")), "evicted_clients:")
		if _, err := fmt.Sscan(after, &n); !ok || err != nil {
			t.Fatal("the server does not say how many clients it has evicted")
		}
		return n
	}
	for _, kind := range []string{"redis", "redis+ring"} {
		// Servers evict nobody as long as all clients need less than 128 KiB together.
		stores, prefix := make([]*Store, 16), newPrefix()
		for i := range stores {
			stores[i] = open(t, kind+"://"+r.Addr, Options{Timeout: long, Prefix: prefix})
		}
		const limit = 1 << 40
		l := perHour(t, limit, algorithm.FixedWindow)
		var passed, failed atomic.Int64
		var over atomic.Bool
		var all sync.WaitGroup
		for _, s := range stores {
			all.Go(func() {
				for !over.Load() {
					switch d, err := s.TakeOne(t.Context(), kind, l, 1); {
					case err != nil:
						failed.Add(1)
					case d.Allowed():
						passed.Add(1)
					}
				}
			})
		}
		for range 5 {
			before, known := passed.Load(), evicted()
			servertest.Await(t, "decisions", func() bool { return passed.Load() > before+20 })
			do("CONFIG", "SET", "maxmemory-clients", "1")
			servertest.Await(t, "clients to be evicted", func() bool { return evicted() > known })
			do("CONFIG", "SET", "maxmemory-clients", "0")
			before = passed.Load()
			servertest.Await(t, "decisions again", func() bool { return passed.Load() > before+20 })
		}
		over.Store(true)
		all.Wait()
		var d weir.Decision
		servertest.Await(t, "what remains", func() bool {
			var err error
			d, err = stores[0].TakeOne(t.Context(), kind, l, 0)
			return err == nil
		})
		if spent := limit - d.Remaining; spent < passed.Load() || spent > passed.Load()+failed.Load() {
			t.Errorf("%d spent, %d passed, %d failed", spent, passed.Load(), failed.Load())
		}
	}
}
