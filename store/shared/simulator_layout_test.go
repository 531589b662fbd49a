package shared

import (
	"errors"
	"slices"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/neighbor"
	"github.com/weirlimit/weir/store/internal/transport"
)

// A layout is how keys are spread over the servers.
type layout int

const (
	alone   layout = iota // one server has them all
	waiting               // each has some, which wait for it
	ring                  // the keys of a server that is lost move to others, and come back
	cluster               // each has slots of keys, of which a call takes one
	regions               // each has all keys, for the nodes of its region
)

// layouts are those of the seeds, in turn: as many as share no divisor with what else goes
// by a seed's turn. Most faults need one server only, and are found soonest there.
var layouts = [...]layout{alone, alone, alone, waiting, alone, alone, alone, cluster, alone, alone, alone, ring, alone, alone, alone, regions, alone}

// slots are so many in a cluster.
const slots = 16

var errMoved = errors.New("the server of this key is lost, and no other decides it")

// ownerOf returns which server has a key, of those that are in: none, which has it at last.
func (f *fleet) ownerOf(key string, isIn func(server int) bool) int {
	key, _, _ = neighbor.Cut(key)
	hash := tagOf(key, nil)
	if f.layout == cluster {
		return slotOf(key) % len(f.servers)
	}
	own, most, here, mostHere := 0, uint64(0), -1, uint64(0)
	for i, s := range f.servers {
		score := (hash ^ s.salt) * 0x9e3779b97f4a7c15
		score ^= score >> 29
		if score >= most {
			own, most = i, score
		}
		if score >= mostHere && isIn(i) {
			here, mostHere = i, score
		}
	}
	if here < 0 {
		return own
	}
	return here
}

// homeOf returns the server that has a key while none is lost.
func (f *fleet) homeOf(key string) *server {
	return f.servers[f.ownerOf(key, func(int) bool { return true })]
}

func slotOf(key string) int {
	key, _, _ = neighbor.Cut(key)
	return int(tagOf(key, nil) >> 40 % slots)
}

// A divider is a driver before several servers.
type divider struct{ *driver }

var _ transport.Divider = divider{}

// Part implements transport.Divider.
func (d divider) Part(key string) int {
	if d.layout == cluster {
		return slotOf(key)
	}
	if home, now := d.homeOf(key), d.Shard(key); d.servers[now] != home {
		return -1 - slices.Index(d.servers, home)*len(d.servers) - now
	}
	return d.Shard(key)
}

// Check implements transport.Divider.
func (d divider) Check([]weir.Op) error { return nil }

// LeavesTrace implements transport.Divider, as servers of Redis do.
func (d divider) LeavesTrace(l *weir.Limit) bool {
	return l.Traits()&weir.Lends == 0 || l.Algorithm == algorithm.SlidingWindow
}

// Undone implements transport.Divider.
func (d divider) Undone(_ int, err error) {
	if err != nil {
		d.unsureUndos++
	}
}

// isPinnedElsewhere reports whether a server is asked for a key that another one has, and
// that no other may decide.
func (f *fleet) isPinnedElsewhere(s *server, ops []weir.Op) bool {
	for i := range ops {
		if o := &ops[i]; o.Limit.Consistency.Pinned && f.homeOf(o.Key) != s {
			return true
		}
	}
	return false
}

// servedElsewhere labels what a server has charged whose key is another's, and forgives it:
// it knows nothing of what was charged there.
func (n *node) servedElsewhere(s *server, o *weir.Op) {
	if n.layout != ring || n.homeOf(o.Key) == s {
		return
	}
	o.Decision.Limit = o.Limit.From(weir.FromSuccessor)
	for at := range limits {
		if t := n.truths[at]; names[at] == o.Key && o.Verb != weir.Refund {
			t.forgive(o.Cost)
			t.failOver()
		}
	}
}

// isByPolicy reports whether a decision was made without a server.
func isByPolicy(d weir.Decision) bool {
	return d.Degraded() && d.Guarantee().Source != weir.FromSuccessor
}
