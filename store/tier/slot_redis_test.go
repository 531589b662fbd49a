package tier_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/store/redis"
	"github.com/weirlimit/weir/store/tier"
)

// Four nodes on a real Redis hand out places at full speed: never more than there
// are, with far fewer calls than questions, and when all is over the server has none
// left taken.
func TestPlacesOnRedis(t *testing.T) {
	t.Parallel()
	r := servertest.Redis(t)
	var nodes []*tier.Store
	var server *redis.Store
	for range 4 {
		s, shared := redisNode(t, r, tier.Options{Nodes: 4, Timeout: 5 * time.Second})
		nodes, server = append(nodes, s), shared
	}
	const count = 60
	l := compiled(t, &weir.Limit{Name: "places", Algorithm: algorithm.Concurrency, Count: count, Period: time.Minute}, leased)
	var inside, most, asked, got, ids atomic.Int64
	end := time.Now().Add(time.Second)
	var clients sync.WaitGroup
	for i := range 100 {
		s, rng := nodes[i%4], rand.New(rand.NewPCG(uint64(i), 7))
		clients.Go(func() {
			for time.Now().Before(end) {
				o := []weir.Op{{Key: "k", Limit: l, Cost: 1, ID: ids.Add(1)}}
				if err := s.Take(context.Background(), o); err != nil || o[0].Decision.Guarantee().Degraded {
					t.Errorf("%+v, %v", o[0].Decision, err)
					return
				}
				wait := time.Duration(rng.Int64N(int64(4 * time.Millisecond)))
				if asked.Add(1); !o[0].Charged {
					<-time.After(wait)
					continue
				}
				got.Add(1)
				now := inside.Add(1)
				for old := most.Load(); now > old && !most.CompareAndSwap(old, now); {
					old = most.Load()
				}
				<-time.After(wait)
				inside.Add(-1)
				if err := s.Take(context.Background(), []weir.Op{o[0].Undo(1)}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
	var calls uint64
	for _, s := range nodes {
		calls += s.Stats().Calls
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	look := []weir.Op{{Key: "k", Limit: l, Cost: 1, Verb: weir.Peek, ID: 1}}
	if err := server.Take(context.Background(), look); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d got a place, %d at most at once, by %d calls", got.Load(), asked.Load(), most.Load(), calls)
	if n := look[0].Decision.Remaining; n != count {
		t.Errorf("%d of %d places are free when all is over", n, count)
	}
	if most.Load() > count || most.Load() < count*9/10 || uint64(asked.Load()+got.Load()) < 3*calls {
		t.Errorf("%d of %d at once; %d questions, %d calls", most.Load(), count, asked.Load(), calls)
	}
}
