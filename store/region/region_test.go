package region_test

import (
	"errors"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/internal/testing/sharedtest"
	"github.com/weirlimit/weir/store/region"
	"github.com/weirlimit/weir/store/shared"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// TestShared runs what is promised of several regions, in memory and on real servers, on
// nodes whose shared store is that of a region.
func TestShared(t *testing.T) { sharedtest.RunSome(t, openNode, "region", "lost server") }

// node is a node of a region.
type node struct {
	*shared.Store
	region *region.Store // nil without others
}

func openNode(store weir.Store, opt sharedtest.Options) (sharedtest.Node, error) {
	n := node{}
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

func (n node) Close() error {
	err := n.Store.Close()
	if n.region != nil {
		err = errors.Join(err, n.region.Close())
	}
	return err
}

func (n node) Stats() sharedtest.Stats {
	st := n.Store.Stats()
	out := sharedtest.Stats{Nodes: st.Nodes, BreakerOpen: st.BreakerOpen, Calls: st.Calls, Failed: st.Failed, Late: st.Late, Degraded: st.Degraded, Held: st.Held, Fetched: st.Fetched}
	if n.region != nil {
		r := n.region.Stats()
		out.Lag, out.Capped, out.Overshot = r.Lag, r.Capped, r.Overshot
		for _, p := range r.Peers {
			out.Regions = append(out.Regions, sharedtest.RegionStats{BreakerOpen: p.Open, Failures: p.Failures})
		}
	}
	return out
}
