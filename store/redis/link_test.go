package redis

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// A client that is made anew under those who ask fails none of them, and all that were left
// are closed.
func TestRenewedClientsAnswer(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	connect := func(context.Context) (rueidis.Client, error) {
		return rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{r.Addr}, ForceSingleClient: true, DisableCache: true, DisableRetry: true})
	}
	l := newLink(r.Addr, slog.New(slog.DiscardHandler), connect)
	if err := l.connectFirst(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	var asked atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for !over.Load() {
				l.useClient(func(client rueidis.Client) {
					for range 10 {
						if err := client.Do(t.Context(), client.B().Ping().Build()).Error(); err != nil {
							t.Error(err)
						}
					}
				})
				asked.Add(1)
			}
		})
	}
	for n := 0; n < 100 || asked.Load() < 100; n++ {
		if err := l.renewClient(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	over.Store(true)
	all.Wait()
	l.close()
	if err := l.renewClient(t.Context()); err != weir.ErrClosed {
		t.Errorf("renewed after the end: %v", err)
	}
	servertest.Await(t, "all clients to be closed", func() bool { return r.Fact(t, "connected_clients") == "1" })
}
