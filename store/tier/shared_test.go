package tier_test

import (
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/internal/testing/sharedtest"
	"github.com/weirlimit/weir/store/region"
	"github.com/weirlimit/weir/store/tier"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// TestShared runs the suite of stores of nodes that share one.
func TestShared(t *testing.T) { sharedtest.Run(t, openNode) }

// openNode is New in the words of the suite.
func openNode(shared weir.Store, opt sharedtest.Options) (sharedtest.Node, error) {
	var peers []region.Peer
	for _, p := range opt.Peers {
		peers = append(peers, region.Peer(p))
	}
	s, err := tier.New(shared, tier.Options{
		Local: opt.Local, Mode: opt.Mode, Timeout: opt.Timeout, Prompt: opt.Prompt, MaxInFlight: opt.MaxInFlight, MaxBytes: opt.MaxBytes,
		RefusalLife: opt.RefusalLife, Nodes: opt.Nodes, NodeTTL: opt.NodeTTL, ProbeEvery: opt.ProbeEvery,
		Region: opt.Region, Peers: peers, PeerTimeout: opt.PeerTimeout, Now: opt.Now,
	})
	if err != nil {
		return nil, err
	}
	return node{s}, nil
}

// node is a store with its figures in the words of the suite.
type node struct{ *tier.Store }

func (n node) Stats() sharedtest.Stats {
	st := n.Store.Stats()
	out := sharedtest.Stats{
		Nodes: st.Nodes, BreakerOpen: st.Away, Calls: st.Calls, Failed: st.Failed, Late: st.Late,
		Held: st.Held, Fetched: st.Fetched, LeaseKeys: st.LeaseKeys, LeaseUnits: st.LeaseUnits,
		Returned: st.Returned, Stranded: st.Stranded, Overshot: st.Overshot, Degraded: st.Degraded,
		Debts: st.Debts, DebtPaid: st.DebtPaid, DebtLost: st.DebtLost, Lag: st.Lag, Capped: st.Capped,
	}
	for _, r := range st.Regions {
		out.Regions = append(out.Regions, sharedtest.RegionStats{BreakerOpen: r.Open, Failures: r.Failures})
	}
	return out
}
