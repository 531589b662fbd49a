package shared_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/internal/testing/sharedtest"
	"github.com/weirlimit/weir/store/internal/transport"
	"github.com/weirlimit/weir/store/region"
	"github.com/weirlimit/weir/store/shared"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// TestShared runs the suite of stores of nodes that share one.
func TestShared(t *testing.T) { sharedtest.Run(t, openNode) }

// openNode is New in the words of the suite.
func openNode(store weir.Store, opt sharedtest.Options) (sharedtest.Node, error) {
	n := node{}
	if opt.Servers > 1 {
		store = servers{store, opt.Servers}
	}
	if opt.Region != "" || len(opt.Peers) > 0 {
		var peers []region.Peer
		for _, p := range opt.Peers {
			peers = append(peers, region.Peer(p))
		}
		r, err := region.New(store, region.Options{Name: opt.Region, Peers: peers, PeerTimeout: opt.PeerTimeout, MaxBytes: opt.MaxBytes / 8, ProbeEvery: opt.ProbeEvery, Now: opt.Now})
		if err != nil {
			return nil, err
		}
		n.region, store = r, r
	}
	s, err := shared.New(store, shared.Options{
		Local: opt.Local, Mode: opt.Mode, Timeout: opt.Timeout, MaxInFlight: opt.MaxInFlight, MaxBytes: opt.MaxBytes,
		RefusalLife: opt.RefusalLife, Nodes: opt.Nodes, NodeTTL: opt.NodeTTL, ProbeEvery: opt.ProbeEvery, Now: opt.Now,
	})
	n.Store = s
	return n, err
}

// servers are a store as the driver of several, of which a call takes keys of one.
type servers struct {
	weir.Store
	n int
}

var _ transport.Divider = servers{}

func (s servers) Driver() (transport.Driver, transport.Tuning) {
	return s, transport.Tuning{Workers: 64, Batch: 1}
}

func (s servers) Shards() int { return s.n }

func (s servers) Shard(key string) int { return int(key[0]) % s.n }

func (s servers) Part(key string) int { return s.Shard(key) }

func (s servers) Check([]weir.Op) error { return nil }

func (s servers) LeavesTrace(l *weir.Limit) bool { return l.Traits()&weir.Lends == 0 }

func (s servers) Undone(int, error) {}

// Probe asks for a key that the server keeps.
func (s servers) Probe(shard int, within time.Duration) error {
	keys := []string{"gone", "here", "i"}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	i := slices.IndexFunc(keys, func(key string) bool { return s.Shard(key) == shard })
	return s.Store.Take(ctx, []weir.Op{{Key: keys[i], Limit: probed, Cost: 1, Verb: weir.Peek}})
}

var probed = func() *weir.Limit {
	l := weir.PerMinute(1, algorithm.FixedWindow)
	if err := l.Compile(); err != nil {
		panic(err)
	}
	return l
}()

// Send fails a call with keys of several servers.
func (s servers) Send(shard int, calls []*transport.Call) {
	for _, c := range calls {
		if i := slices.IndexFunc(c.Ops, func(o weir.Op) bool { return o.Role != weir.Deny && s.Shard(o.Key) != shard }); i >= 0 {
			c.Finish(&transport.Result{Outcome: transport.Failed, Err: fmt.Errorf("%s is not of server %d", c.Ops[i].Key, shard)})
			continue
		}
		transport.DriverOver(s.Store).Send(0, []*transport.Call{c})
	}
}

// node is a store, and that of its region, with their figures in the words of the suite.
type node struct {
	*shared.Store
	region *region.Store // nil without others
}

func (n node) Close() error {
	err := n.Store.Close()
	if n.region != nil {
		err = errors.Join(err, n.region.Close())
	}
	return err
}

func (n node) Stats() sharedtest.Stats {
	st := n.Store.Stats()
	out := sharedtest.Stats{
		Nodes: st.Nodes, BreakerOpen: st.BreakerOpen, Calls: st.Calls, Failed: st.Failed, Late: st.Late,
		Held: st.Held, Fetched: st.Fetched, LeaseKeys: st.LeaseKeys, LeaseUnits: st.LeaseUnits,
		Returned: st.Returned, Stranded: st.Stranded, Overshot: st.Overshot, Degraded: st.Degraded,
		Debts: st.Debts, DebtPaid: st.DebtPaid, DebtLost: st.DebtLost,
	}
	if n.region != nil {
		r := n.region.Stats()
		out.Lag, out.Capped, out.Overshot = r.Lag, r.Capped, r.Overshot
		for _, p := range r.Peers {
			out.Regions = append(out.Regions, sharedtest.RegionStats{BreakerOpen: p.Open, Failures: p.Failures})
		}
	}
	return out
}
