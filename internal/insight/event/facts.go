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

func (f *facts) readText(i int) string { return string(f.text[f.ends[i]:f.ends[i+1]]) }

// appendText appends the text of number i, of which at most max bytes are kept, and
// reports whether it was cut.
func (f *facts) appendText(i int, s string, max int) (cut bool) {
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

// takeFacts copies what is known; known says whether it is anything. h hashes what every node is to hash alike.
func (t *taker) takeFacts(f *facts, from weir.Facts, h *hasher) {
	path, user, name := from.Path(), from.User(), from.Agent()
	f.appendText(textMethod, from.Method(), MaxMethod)
	f.appendText(textHost, from.Host(), MaxHost)
	f.appendText(textPath, path, MaxPath)
	f.userRest = 0
	if f.appendText(textUser, user, MaxUser) {
		f.userRest = h.hashFact(user)
	}
	f.appendText(textTier, from.Tier(), MaxTier)
	f.pathHash, f.userHash, f.agentHash = t.hashLocally(path), t.hashLocally(user), t.hashLocally(name)
	f.agent = agentNone
	if name != "" {
		f.agent = t.agents.classOfAgent(name, f.agentHash)
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

// hashFact returns the hash of a fact, zero if there is none.
func (h *hasher) hashFact(s string) uint64 {
	if s == "" {
		return 0
	}
	return h.hashText(s[:min(len(s), maxHashed)]) | 1
}

// hashLocally is the same in this process.
func (t *taker) hashLocally(s string) uint64 {
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

func (f *small) addHash(hash uint64) {
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

func (f *small) countDistinct() int64 {
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

func (a *about) addFacts(f *facts) {
	a.last = *f
	a.users.addHash(f.userHash)
	a.agents.addHash(f.agentHash)
	a.paths.addHash(f.pathHash)
	a.addresses.addHash(f.addressHash)
}

// buildAbout returns it in words, identities as n names them, or plain.
func (a *about) buildAbout(n *keyHasher, unhashed bool) *About {
	out := &About{
		Method: validText(a.last.readText(textMethod)), Host: validText(a.last.readText(textHost)), Path: validText(a.last.readText(textPath)),
		User: validText(a.last.readText(textUser)), Tier: validText(a.last.readText(textTier)), Agent: agentWords[a.last.agent],
		Users: a.users.countDistinct(), Agents: a.agents.countDistinct(), Paths: a.paths.countDistinct(), Addresses: a.addresses.countDistinct(),
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
	out.User = n.identity(a.last.readText(textUser), a.last.userRest)
	return out
}

// validText returns s as what JSON can carry, no longer than it was.
func validText(s string) string { return strings.ToValidUTF8(s, "?") }
