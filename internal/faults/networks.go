package faults

import (
	"hash/maphash"
	"log/slog"
	"net/netip"
	"sync/atomic"
)

// maxNetworks is how many networks are remembered and logged.
const maxNetworks = 32

// Networks remembers the networks of peers, so that each is warned of once: the /24 of
// an IPv4 address and the /64 of an IPv6 address. It remembers the first 32 networks.
// Safe for concurrent use. The zero value is not ready, see NewNetworks.
type Networks struct {
	seed maphash.Seed
	seen [maxNetworks]atomic.Uint64
}

// NewNetworks returns an empty set of networks.
func NewNetworks() *Networks { return &Networks{seed: maphash.MakeSeed()} }

// Warn logs a warning about a peer, with its address, unless one of its network was
// logged before. The zero Addr, of a Unix socket, is a network of its own. The last
// network that is logged is said to be the last.
func (n *Networks) Warn(log *slog.Logger, peer netip.Addr, msg string, args ...any) {
	isNew, isLast := n.add(peer)
	if !isNew {
		return
	}
	log.Warn(msg, append([]any{"peer", peer}, args...)...)
	if isLast {
		log.Warn("further networks of peers are no longer logged", "about", msg)
	}
}

// add remembers the network of a, and reports whether it is new, and whether no other
// will be.
func (n *Networks) add(a netip.Addr) (isNew, isLast bool) {
	hash := max(maphash.Comparable(n.seed, networkOf(a)), 1) // zero is a free place
	for i := range n.seen {
		at := &n.seen[i]
		if at.Load() == hash {
			return false, false
		}
		if at.CompareAndSwap(0, hash) {
			return true, i == maxNetworks-1
		}
		if at.Load() == hash {
			return false, false
		}
	}
	return false, false
}

func networkOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 64
	if a.Is4() {
		bits = 24
	}
	p, err := a.Prefix(bits)
	if err != nil { // the zero Addr
		return netip.Prefix{}
	}
	return p
}
