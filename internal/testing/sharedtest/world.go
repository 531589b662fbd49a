package sharedtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

// world is regions, each with a store of its own and so many nodes.
type world struct {
	*fleet            // all nodes
	stores  []*faulty // of the regions
	regions [][]Node
	// paths are how each region reaches each other.
	paths [][]*faulty
}

// newWorld returns regions of so many nodes each.
func newWorld(t *testing.T, newNode New, regions, nodes int, opt Options) *world {
	t.Helper()
	return worldOf(t, newNode, regions, regions*nodes, opt)
}

// worldOf returns so many nodes in so many regions.
func worldOf(t *testing.T, newNode New, regions, all int, opt Options) *world {
	t.Helper()
	w := &world{fleet: &fleet{T: t, newNode: newNode}}
	for range regions {
		w.stores = append(w.stores, newFaulty(t, opt.Now))
	}
	w.shared = w.stores[0]
	for i := range regions {
		var paths []*faulty
		opt, nodes := opt, (all+regions-1-i)/regions
		opt.Region, opt.Nodes, opt.Peers = fmt.Sprint("r", i), nodes, nil
		for j, to := range w.stores {
			p := &faulty{Store: to, mended: make(chan struct{})}
			if paths = append(paths, p); j != i {
				opt.Peers = append(opt.Peers, Peer{Name: fmt.Sprint("r", j), Store: p})
			}
		}
		w.paths = append(w.paths, paths)
		var own []Node
		f := &fleet{T: t, newNode: newNode, shared: w.stores[i]}
		for range nodes {
			own = append(own, f.node(opt))
		}
		w.nodes = append(w.nodes, own...)
		w.regions = append(w.regions, own)
	}
	return w
}

// cutOff lets every call between regions meet a fault.
func (w *world) cutOff(x fault) {
	for i, paths := range w.paths {
		for j, p := range paths {
			if i != j {
				p.set(x)
			}
		}
	}
}

// far lets every call between regions take d.
func (w *world) far(d time.Duration) {
	for _, paths := range w.paths {
		for _, p := range paths {
			p.delay.Store(int64(d))
		}
	}
}

// calls returns the calls of regions' own stores, and those between regions.
func (w *world) calls() (own, between int64) {
	for i, s := range w.stores {
		own += s.calls.Load()
		for j, p := range w.paths[i] {
			if j != i {
				between += p.calls.Load()
			}
		}
	}
	return own - between, between
}

// list starts a node of a region that knows the regions of a list.
func (w *world) list(region int, all ...int) Node {
	opt := Options{Region: fmt.Sprint("r", region), Nodes: 1}
	for _, i := range all {
		if i != region {
			opt.Peers = append(opt.Peers, Peer{Name: fmt.Sprint("r", i), Store: w.paths[region][i]})
		}
	}
	return (&fleet{T: w.T, newNode: w.newNode, shared: w.stores[region]}).node(opt)
}

func (w *world) close(nodes ...Node) {
	w.Helper()
	for _, s := range nodes {
		if err := s.Close(); err != nil {
			w.Error(err)
		}
	}
}

// offer asks each node so often for a unit, and returns how many passed.
func (w *world) offer(key string, l *weir.Limit, times int, nodes ...Node) (n int64) {
	for range times {
		for _, s := range nodes {
			if w.take(s, key, l, 1).Allowed() {
				n++
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	return n
}

// replaced is a store that another replaces.
type replaced struct {
	weir.Store
	by   weir.Store
	lost atomic.Bool
}

func (r *replaced) Take(ctx context.Context, ops []weir.Op) error {
	if r.lost.Load() {
		return r.by.Take(ctx, ops)
	}
	return r.Store.Take(ctx, ops)
}
