package redis

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

// Clients that read a counter, compare, and write it admit too much; a script does
// not, whoever else is at it.
func TestReadThenWriteLoses(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	const clients, tries, limit = 64, 20, 100
	admitted := func(take func(client int) bool) int64 {
		var passed atomic.Int64
		each(clients, func(client int) {
			for range tries {
				if take(client) {
					passed.Add(1)
				}
			}
		})
		return passed.Load()
	}

	stores := make([]*Store, 4) // as many nodes, sharing a server
	prefix := newPrefix()
	for i := range stores {
		stores[i] = open(t, "redis://"+r.Addr, Options{Prefix: prefix, Timeout: long})
	}
	l := perHour(t, limit, algorithm.SlidingWindow)
	if got := admitted(func(client int) bool {
		d, err := stores[client%len(stores)].TakeOne(t.Context(), "k", l, 1)
		if err != nil {
			t.Error(err)
		}
		return err == nil && d.Allowed()
	}); got != limit {
		t.Errorf("scripts admitted %d of %d", got, limit)
	}

	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{r.Addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := admitted(func(int) bool {
		used, err := c.Do(t.Context(), c.B().Get().Key("naive").Build()).AsInt64()
		if err != nil && !rueidis.IsRedisNil(err) {
			t.Error(err)
		}
		if used >= limit {
			return false
		}
		if err := c.Do(t.Context(), c.B().Set().Key("naive").Value(strconv.FormatInt(used+1, 10)).Build()).Error(); err != nil {
			t.Error(err)
		}
		return true
	}); got <= limit {
		t.Errorf("reading, then writing admitted %d of %d: the race was not reproduced", got, limit)
	}
}
