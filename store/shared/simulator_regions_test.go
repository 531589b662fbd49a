package shared

import (
	"context"
	"fmt"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/store/internal/transport"
	"github.com/weirlimit/weir/store/region"
)

// A link is what is between two regions.
type link struct {
	*fleet
	from, to int
	takes    int64 // one way, in microseconds
	// cutUntil is until when nothing passes, slowUntil until when it takes slowBy more.
	cutUntil, slowUntil, slowBy int64
}

// joinRegions links the region of a server with those that are there, whose clock and
// failures it has: windows are those of a region's own clock.
func (f *fleet) joinRegions(s *server) {
	first := f.servers[0]
	s.drift, f.failsOver = first.drift, false
	f.asked = []int{atWindow, atBucket, atTally}
	for _, other := range f.servers[:s.index] {
		takes := 1 + f.Int64N(80_000)
		f.links = append(f.links, &link{fleet: f, from: s.index, to: other.index, takes: takes})
	}
}

func (l *link) delay() int64 {
	d := l.takes + l.Int64N(l.takes/4+1)
	if l.now < l.slowUntil {
		d += l.Int64N(l.slowBy)
	}
	return d
}

// disturb cuts a link for a while, or has it be slow.
func (l *link) disturb(us int64) {
	if l.IntN(2) == 0 {
		l.cutUntil = l.now + 8*us
		return
	}
	l.slowUntil, l.slowBy = l.now+8*us, 1+l.Int64N(3_000_000)
}

// home returns the server of the node's region.
func (n *node) home() *server { return n.servers[int(n.index)%len(n.servers)] }

// homeAt returns the server that has a limit's key, for the node.
func (n *node) homeAt(at int) *server {
	if n.layout == regions {
		return n.home()
	}
	return n.homes[at]
}

// sharedStore returns what the node takes for the shared store.
func (n *node) sharedStore() weir.Store {
	if n.layout != regions {
		return &driver{node: n, reached: n.servers}
	}
	own := n.home()
	opt := region.Options{Name: fmt.Sprint("region", own.index)}
	for _, l := range n.links {
		if l.from != own.index && l.to != own.index {
			continue
		}
		to := n.servers[l.from+l.to-own.index]
		opt.Peers = append(opt.Peers, region.Peer{Name: fmt.Sprint("region", to.index), Store: &driver{node: n, reached: []*server{to}, link: l}})
	}
	s, err := region.New(&regionDriver{driver{node: n, reached: []*server{own}}}, opt)
	if err != nil {
		n.Fatal(err)
	}
	n.region = s
	return s
}

// A regionDriver is a driver of which a region's store is told that it is simulated.
type regionDriver struct{ driver }

var _ transport.Simulated = (*regionDriver)(nil)

// Ticks implements transport.Simulated.
func (r *regionDriver) Ticks() int64 { return int64(r.node.ticks()) }

// Wall implements transport.Simulated.
func (r *regionDriver) Wall() int64 { return int64(r.node.wallTime()) }

// Go implements transport.Simulated.
func (r *regionDriver) Go(f func()) { r.node.start(r.node.machine, 0, f) }

// Park implements transport.Simulated.
func (r *regionDriver) Park(ctx context.Context, gate chan struct{}, d time.Duration) bool {
	return r.node.park(ctx, gate, d) == transport.Opened
}

// Uint64 implements transport.Simulated.
func (r *regionDriver) Uint64() uint64 { return r.node.Uint64() }
