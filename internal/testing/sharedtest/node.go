package sharedtest

import (
	"context"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/params"
)

// New opens a node's store over shared, the store of all nodes. An error says that the
// options cannot be. The suite closes the node, then shared and the stores of opt.
type New func(shared weir.Store, opt Options) (Node, error)

// A Node is the store of one node.
type Node interface {
	weir.Store
	// Forget resets key under l, on the node and on the store that counts it.
	Forget(ctx context.Context, key string, l *weir.Limit) (found bool, err error)
	Stats() Stats
}

// Options configures a node. A zero field means the store's default.
type Options struct {
	Local       weir.Store             // what the node counts alone
	Mode        params.ConsistencyMode // of limits that do not say; zero: leased where the algorithm allows it
	Timeout     time.Duration          // the budget of a decision; zero: 20 milliseconds
	Prompt      bool                   // shared ends each call within Timeout by itself
	MaxInFlight int                    // calls of shared at a time; zero: 512
	Servers     int                    // that keep the keys of shared, by their first letters; zero: one
	MaxBytes    int64                  // for lots, refusals and debts, at least minBytes; zero: 64 MiB
	RefusalLife time.Duration          // of a remembered refusal; negative: none is remembered; zero: a second
	Nodes       int                    // at least; zero: as many as have registered
	NodeTTL     time.Duration          // for which a silent node is counted; zero: ten seconds
	ProbeEvery  time.Duration          // of a store that is out; zero: a quarter of a second
	Region      string                 // empty: there are none
	Peers       []Peer                 // the other regions
	PeerTimeout time.Duration          // of a call of another region; zero: a second
	Now         func() int64           // the node's monotonic time in microseconds; nil: the process's own
}

// minBytes is the least MaxBytes that a node works with.
const minBytes = 1 << 20

// A Peer is the store of another region.
type Peer struct {
	Name  string
	Store weir.Store
}

// Stats counts since a node was opened, unless a field says otherwise.
type Stats struct {
	Nodes              int64         // that share the store now, as far as the node knows
	BreakerOpen        bool          // now: nothing is asked of the shared store
	Calls              uint64        // of the shared store
	Failed, Late       uint64        // of Calls; Late ones had no answer within the budget
	Held               uint64        // spends that were decided by units that the node held
	Fetched            uint64        // calls that brought units
	LeaseKeys          int           // keys with a lease now
	LeaseUnits         int64         // which they hold now
	Returned, Stranded uint64        // units that were returned unspent; that could not be
	Overshot           int64         // most units above an eventual limit that the node has seen
	Degraded           uint64        // requests that were decided by policy
	Debts              int           // keys with a debt now
	DebtPaid, DebtLost uint64        // units
	Lag                time.Duration // now: the longest that another region has not heard of something
	Capped             uint64        // units refused until other regions have heard
	Regions            []RegionStats // in the order of Options.Peers
}

// RegionStats is another region as a node sees it.
type RegionStats struct {
	BreakerOpen bool   // now: nothing is asked of the region
	Failures    uint64 // calls without an answer
}
