package shared

import (
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/clock"
	"github.com/weirlimit/weir/store/internal/eventual"
	"github.com/weirlimit/weir/store/internal/leased"
	"github.com/weirlimit/weir/store/internal/lot"
	"github.com/weirlimit/weir/store/internal/outage"
	"github.com/weirlimit/weir/store/internal/permit"
	"github.com/weirlimit/weir/store/internal/transport"
)

// leastTimeout is the least timeout of calls that no decision waits for: longer than a
// healthy store stalls, and short enough that what has no answer is returned within a
// second.
const leastTimeout = 750 * time.Millisecond

// Bounds of what waits for a store: about so many calls, so many of one key.
const maxWaiting, maxWaitingForKey = 16_384, 4096

// newQueue returns the queue before the shared store, or before the servers of one that
// has a driver.
func (s *Store) newQueue(opt *Options) *transport.Queue {
	driver, tuning := transport.DriverOf(s.shared)
	s.maintenance.shards, s.outage.Failed = int64(driver.Shards()), s.maintenance.keepFailures(&tuning)
	waiting := max(maxWaiting/driver.Shards(), maxWaitingForKey)
	return transport.New(driver, s.env, transport.Options{
		Budget: opt.Timeout, Timeout: max(opt.Timeout, leastTimeout), Workers: opt.MaxInFlight, Batch: 1, Waiting: waiting, PerKey: maxWaitingForKey,
		ProbeEvery: opt.ProbeEvery, Seed: s.env.Rand(), Probe: s.renewNode, Opened: s.maintenance.breakerOpened, Closed: s.maintenance.breakerClosed, Mark: s.mark, Owes: func(o *weir.Op) bool { return s.outage.Owes(o) }, Tuning: tuning,
	})
}

// wireDeciders makes the deciders.
func (s *Store) wireDeciders(opt *Options) {
	begin := func(f func()) bool { return s.queue.Launch(f) == nil }
	fetch := func(f *lot.Flight, ops []weir.Op) (clock.Node, error) {
		sent, err := s.queue.DecideForFlight(f.Context, &f.Flight, ops)
		return sent, s.observe(ops, sent, err)
	}
	all := lot.Env{Clock: s.clock, Table: s.table, Returns: s.returns, Refusals: s.refusals, Nodes: s.nodes.count, Mark: s.mark, Rand: s.env.Rand, Go: begin, Fetch: fetch}
	s.leased = &leased.Env{Env: all}
	s.permits = &permit.Env{Env: all}
	s.eventual = &eventual.Env{Env: all}
	s.outage = outage.New(&outage.Env{
		Env: all, Local: s.local,
		Terms: func(l *weir.Limit) (*outage.Terms, error) {
			p, err := s.policies.forLimit(l)
			if err != nil {
				return nil, err
			}
			return p.outage, nil
		},
		IsOpen: func(key string) bool { return s.queue.IsShardOpen(s.queue.ShardOfKey(key)) },
		Once:   s.callEachOnce,
	}, opt.MaxBytes/8)
}
