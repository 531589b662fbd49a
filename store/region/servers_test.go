package region_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/transport"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/region"
)

// servers are a store of several shards, each of which decides its own keys, and may stall.
// The first letter of a key says of which it is.
type servers struct {
	weir.Store // Take is of a key of one shard
	shards     []*memory.Store
	stalls     []atomic.Bool
	mu         sync.Mutex
	opened     []int // the shards whose breakers have opened
}

func newServers(t testing.TB, shards int, now func() int64) *servers {
	s := &servers{stalls: make([]atomic.Bool, shards)}
	for range shards {
		m := memory.New(memory.Options{MaxBytes: 1 << 20, Now: now})
		t.Cleanup(func() { m.Close() })
		s.shards = append(s.shards, m)
	}
	return s
}

func (s *servers) Take(ctx context.Context, ops []weir.Op) error {
	shard := s.Shard(ops[0].Key)
	if s.stalls[shard].Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.shards[shard].Take(ctx, ops)
}

func (s *servers) Driver() (transport.Driver, transport.Tuning) {
	return s, transport.Tuning{Opened: func(shard int, _ error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.opened = append(s.opened, shard)
	}}
}

func (s *servers) Shards() int { return len(s.shards) }

func (s *servers) Shard(key string) int { return int(key[0]-'a') % len(s.shards) }

func (s *servers) Send(shard int, calls []*transport.Call) {
	for _, c := range calls {
		for i := range c.Ops {
			if s.Shard(c.Ops[i].Key) != shard {
				panic("an op of another shard")
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), c.Within)
		var r *transport.Result
		if err := s.Take(ctx, c.Ops); err != nil {
			r = &transport.Result{Outcome: transport.Failed, MayRun: true, Err: err}
		}
		cancel()
		c.Finish(r)
	}
}

func (s *servers) Probe(shard int, within time.Duration) error {
	if s.stalls[shard].Load() {
		time.Sleep(within)
		return errors.New("no answer")
	}
	return nil
}

func (s *servers) Part(key string) int          { return s.Shard(key) }
func (s *servers) Check([]weir.Op) error        { return nil }
func (s *servers) LeavesTrace(*weir.Limit) bool { return false }
func (s *servers) Undone(int, error)            {}

// newPair returns a region that is asked directly, and another that a queue drives, each
// with a store of so many shards and another region.
func newPair(t *testing.T, shards int) (stores [2][2]*servers, regions [2]*region.Store, q *transport.Queue) {
	now := func() int64 { return time.Now().UnixMicro() }
	for i := range regions {
		stores[i] = [2]*servers{newServers(t, shards, now), newServers(t, shards, now)}
		r, err := region.New(stores[i][0], region.Options{Name: "a", Peers: []region.Peer{{Name: "b", Store: stores[i][1]}}})
		if err != nil {
			t.Fatal(err)
		}
		regions[i] = r
	}
	driver, tuning := regions[1].Driver()
	base := time.Now()
	env := transport.NewEnv(func() clock.Node { return clock.Node(time.Since(base).Microseconds() + 1) }, nil)
	return stores, regions, transport.New(driver, env, transport.Options{
		Budget: 20 * time.Millisecond, Timeout: time.Second, Workers: 4, Batch: 1, Waiting: 100, PerKey: 10, ProbeEvery: time.Second, Tuning: tuning,
	})
}
