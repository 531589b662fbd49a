package event

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/weirlimit/weir"
)

// facts is what is kept of weir.Facts: texts are cut, and different ones told
// apart by the hash of the whole. A hash of zero means that nothing is known.
type facts struct {
	known   bool
	agent   agent
	address netip4or6
	// Hashes of whole values, of this process.
	addressHash, userHash, agentHash, pathHash uint64
	// userRest is a hash of the whole user, the same on every node, if he was cut.
	userRest uint64
	// Text i is from ends[i] to ends[i+1].
	ends [numTexts + 1]uint16
	text [MaxMethod + MaxHost + MaxPath + MaxUser + MaxTier]byte
}

// netip4or6 is a netip.Addr without its pointer: bytes is 0, 4 or 16.
type netip4or6 struct {
	bytes uint8
	addr  [16]byte
}

// The texts of facts, one behind the other.
const (
	textMethod = iota
	textHost
	textPath
	textUser
	textTier
	numTexts
)

func (f *facts) get(i int) string { return string(f.text[f.ends[i]:f.ends[i+1]]) }

// put appends the text of number i, of which at most max bytes are kept, and
// reports whether it was cut.
func (f *facts) put(i int, s string, max int) (cut bool) {
	if cut = len(s) > max; cut {
		s = s[:max]
		// A character that was cut in two is left out.
		for n := 1; n < utf8.UTFMax && n <= len(s); n++ {
			if c := s[len(s)-n]; utf8.RuneStart(c) {
				if !utf8.FullRuneInString(s[len(s)-n:]) {
					s = s[:len(s)-n]
				}
				break
			}
		}
	}
	f.ends[i+1] = f.ends[i] + uint16(copy(f.text[f.ends[i]:], s))
	return cut
}

// taker copies facts. Safe for concurrent use. Its hashes are this process's own:
// maphash takes a third of the time that hasher takes (BenchmarkObserve).
type taker struct {
	seed   maphash.Seed
	agents agents
}

// take copies what is known; known says whether it is anything. h hashes what every node is to hash alike.
func (t *taker) take(f *facts, from weir.Facts, h *hasher) {
	path, user, name := from.Path(), from.User(), from.Agent()
	f.put(textMethod, from.Method(), MaxMethod)
	f.put(textHost, from.Host(), MaxHost)
	f.put(textPath, path, MaxPath)
	f.userRest = 0
	if f.put(textUser, user, MaxUser) {
		f.userRest = h.of(user)
	}
	f.put(textTier, from.Tier(), MaxTier)
	f.pathHash, f.userHash, f.agentHash = t.hash(path), t.hash(user), t.hash(name)
	f.agent = agentNone
	if name != "" {
		f.agent = t.agents.of(name, f.agentHash)
	}
	f.takeAddress(from.Address(), h)
	f.known = f.ends[numTexts] > 0 || f.addressHash|f.agentHash != 0
}

func (f *facts) takeAddress(a netip.Addr, h *hasher) {
	f.address.bytes, f.addressHash = 0, 0
	if !a.IsValid() {
		return
	}
	f.address.bytes = uint8(a.BitLen() / 8)
	f.address.addr = a.As16()
	f.addressHash = mix(binary.LittleEndian.Uint64(f.address.addr[:])^h.a, binary.LittleEndian.Uint64(f.address.addr[8:])^h.b) | 1
}

// Addr returns the address, the zero Addr if there is none.
func (a *netip4or6) Addr() netip.Addr {
	switch a.bytes {
	case 4:
		return netip.AddrFrom16(a.addr).Unmap()
	case 16:
		return netip.AddrFrom16(a.addr)
	}
	return netip.Addr{}
}

// maxHashed is how many bytes of a fact tell it apart from others: a client can
// send as many as it likes.
const maxHashed = 512

// of returns the hash of a fact, zero if there is none.
func (h *hasher) of(s string) uint64 {
	if s == "" {
		return 0
	}
	return h.sum(s[:min(len(s), maxHashed)]) | 1
}

// hash is the same in this process.
func (t *taker) hash(s string) uint64 {
	if s == "" {
		return 0
	}
	return maphash.String(t.seed, s[:min(len(s), maxHashed)]) | 1
}

// small counts different hashes up to MaxDifferent. Most records have but one.
type small struct {
	first uint64
	more  []uint64
}

func (f *small) add(hash uint64) {
	switch {
	case hash == 0 || hash == f.first:
		return
	case f.first == 0:
		f.first = hash
		return
	case len(f.more) == MaxDifferent-1:
		return
	}
	if !slices.Contains(f.more, hash) {
		f.more = append(f.more, hash)
	}
}

func (f *small) count() int64 {
	if f.first == 0 {
		return 0
	}
	return int64(1 + len(f.more))
}

// about is what a record knows of who asked, before it has words.
type about struct {
	last                            facts
	users, agents, paths, addresses small
}

func (a *about) add(f *facts) {
	a.last = *f
	a.users.add(f.userHash)
	a.agents.add(f.agentHash)
	a.paths.add(f.pathHash)
	a.addresses.add(f.addressHash)
}

// report returns it in words, identities as n names them, or plain.
func (a *about) report(n *keyHasher, unhashed bool) *About {
	out := &About{
		Method: valid(a.last.get(textMethod)), Host: valid(a.last.get(textHost)), Path: valid(a.last.get(textPath)),
		User: valid(a.last.get(textUser)), Tier: valid(a.last.get(textTier)), Agent: agentWords[a.last.agent],
		Users: a.users.count(), Agents: a.agents.count(), Paths: a.paths.count(), Addresses: a.addresses.count(),
	}
	if out.Method == "" && a.last.agentHash == 0 {
		out.Agent = "" // who knows no method does not know that no name was sent
	}
	if addr := a.last.address.Addr(); addr.IsValid() {
		bits := 48
		if addr.Is4() {
			bits = 24
		}
		out.Address = addr.String()
		if network, err := addr.Prefix(bits); err == nil {
			out.Network = network.String()
		}
	}
	if unhashed {
		return out
	}
	out.Address, out.Network = n.identity(out.Address, 0), n.identity(out.Network, 0)
	out.User = n.identity(a.last.get(textUser), a.last.userRest)
	return out
}

// valid returns s as what JSON can carry, no longer than it was.
func valid(s string) string { return strings.ToValidUTF8(s, "?") }
