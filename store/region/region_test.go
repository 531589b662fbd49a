package region_test

import (
	"errors"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/internal/testing/sharedtest"
	"github.com/weirlimit/weir/store/region"
	"github.com/weirlimit/weir/store/tier"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// TestShared runs what is promised of several regions, in memory and on real servers, on
// nodes whose shared store is that of a region.
func TestShared(t *testing.T) { sharedtest.RunSome(t, openNode, "region", "lost server") }

// node is a node of a region.
type node struct {
	*tier.Store
	region *region.Store // nil without others
}

func openNode(shared weir.Store, opt sharedtest.Options) (sharedtest.Node, error) {
	n := node{}
	if opt.Region != "" || len(opt.Peers) > 0 {
		var peers []region.Peer
		for _, p := range opt.Peers {
			peers = append(peers, region.Peer(p))
		}
		r, err := region.New(shared, region.Options{Name: opt.Region, Peers: peers, PeerTimeout: opt.PeerTimeout, MaxBytes: opt.MaxBytes / 8, ProbeEvery: opt.ProbeEvery, Now: opt.Now})
		if err != nil {
			return nil, err
		}
		n.region, shared = r, r
	}
	s, err := tier.New(shared, tier.Options{
		Local: opt.Local, Mode: opt.Mode, Timeout: opt.Timeout, Prompt: opt.Prompt, MaxInFlight: opt.MaxInFlight, MaxBytes: opt.MaxBytes,
		RefusalLife: opt.RefusalLife, Nodes: opt.Nodes, NodeTTL: opt.NodeTTL, ProbeEvery: opt.ProbeEvery, Now: opt.Now,
	})
	n.Store = s
	return n, err
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
	out := sharedtest.Stats{Nodes: st.Nodes, BreakerOpen: st.Away, Calls: st.Calls, Failed: st.Failed, Late: st.Late, Degraded: st.Degraded, Held: st.Held, Fetched: st.Fetched}
	if n.region != nil {
		r := n.region.Stats()
		out.Lag, out.Capped, out.Overshot = r.Lag, r.Capped, r.Overshot
		for _, p := range r.Peers {
			out.Regions = append(out.Regions, sharedtest.RegionStats{BreakerOpen: p.Open, Failures: p.Failures})
		}
	}
	return out
}
