package faults

import (
	"encoding/binary"
	"log/slog"
	"net/netip"
	"sync/atomic"
)

// maxNetworks is how many networks are remembered and logged.
const maxNetworks = 32

// Networks remembers the networks of peers, so that each is warned of once: the /24 of
// an IPv4 address and the /64 of an IPv6 address. It remembers the first 32 networks.
// Safe for concurrent use. The zero value is ready.
type Networks struct {
	seen [maxNetworks]atomic.Uint64
}

// Log returns a logger for one message about a peer, with its address, or nil if one
// of its network was logged before. The zero Addr, of a Unix socket, is a network of
// its own. The last network that is logged is said to be the last.
func (n *Networks) Log(log *slog.Logger, peer netip.Addr) *slog.Logger {
	isNew, isLast := n.add(peer)
	if !isNew {
		return nil
	}
	log = log.With("peer", peer)
	if isLast {
		log = log.With("further_networks", "are counted and no longer logged")
	}
	return log
}

// add remembers the network of a, and reports whether it is new, and whether no other
// will be.
func (n *Networks) add(a netip.Addr) (isNew, isLast bool) {
	network := networkOf(a)
	for i := range n.seen {
		at := &n.seen[i]
		if at.Load() == network {
			return false, false
		}
		if at.CompareAndSwap(0, network) {
			return true, i == maxNetworks-1
		}
		if at.Load() == network {
			return false, false
		}
	}
	return false, false
}

// networkOf returns a number for the network of a, never zero.
func networkOf(a netip.Addr) uint64 {
	const (
		unix = 1          // no network: ::/64 begins no address of a peer but ::1
		ipv4 = 0xff << 56 // where IPv6 has multicast, which is no peer
	)
	a = a.Unmap()
	if !a.IsValid() {
		return unix
	}
	b := a.As16()
	if a.Is4() {
		return ipv4 | uint64(binary.BigEndian.Uint32(b[12:])>>8)
	}
	return max(binary.BigEndian.Uint64(b[:8]), 2)
}
