package memcached

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"strconv"

	"github.com/weirlimit/weir"
)

// A counter is one key of a call: where it is kept and what is known of it.
type counter struct {
	key string
	// tag stands for the key in the set of keys that were refused lately.
	tag uint64
	// end is the end of the window, in microseconds since the Unix epoch; expire
	// is what Memcached is told of it.
	end    int64
	expire int32

	// count is what others and earlier calls have spent, as far as is known.
	count int64
	// seen is what the server said last, mine what this call has added to it.
	seen, mine int64
}

// keyBytes is how much of a key's SHA-256 is kept. Nobody finds two keys of the
// same 128 bits by chance, and whoever searches for 2^64 steps finds two of his
// own.
const keyBytes = 16

// locateCounter fills in the counter for key under l in the window that ends at end.
func (s *Store) locateCounter(c *counter, key string, l *weir.Limit, end int64) {
	h := make([]byte, 0, 256)
	h = binary.AppendUvarint(h, uint64(len(l.Scope)))
	h = append(h, l.Scope...)
	h = append(h, key...)
	sum := sha256.Sum256(h)

	k := append(h[:0], s.prefix...)
	k = base64.RawURLEncoding.AppendEncode(k, sum[:keyBytes])
	k = append(k, '.')
	k = strconv.AppendInt(k, end, 10)

	id := binary.LittleEndian.Uint64(sum[:])
	c.key, c.end = string(k), end
	c.tag = mixBits(id^uint64(end)) | 1
}

// serverOf returns the index of the server that ranks highest for a key: rendezvous hashing,
// so that another list of servers moves only what it must.
//
// Source: Thaler and Ravishankar, "Using name-based mappings to increase hit
// rates", 1998.
func (s *Store) serverOf(id uint64) (best int) {
	if len(s.servers) == 1 {
		return 0
	}
	highest := mixBits(id ^ s.servers[0].hash)
	for i, v := range s.servers[1:] {
		if rank := mixBits(id ^ v.hash); rank > highest {
			best, highest = i+1, rank
		}
	}
	return best
}

// hash returns the 64-bit FNV-1a hash of text.
func hash(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// mixBits is the finalizer of MurmurHash3: every bit of its result depends on all of
// x.
func mixBits(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

const (
	// grace is how many seconds a count outlives its window, for nodes whose
	// clocks are behind. The server's clock ticks in seconds: one of them is lost.
	grace = 10
	// maxRelative is the most seconds that Memcached takes for a period of time;
	// larger numbers are instants, by its wall clock.
	maxRelative = 30 * 24 * 60 * 60
	// graceLong takes the place of grace where the server's wall clock counts.
	graceLong = 24 * 60 * 60
)

// encodeExpiry returns what to tell Memcached of a window with left microseconds to
// go: never zero, which means for ever. wall is the node's time in seconds.
func encodeExpiry(left, wall int64) (int32, error) {
	seconds := left/1_000_000 + grace
	if left%1_000_000 > 0 {
		seconds++
	}
	if seconds <= maxRelative {
		return int32(seconds), nil
	}
	at := wall + seconds + graceLong
	if at > math.MaxInt32 {
		return 0, fmt.Errorf("store memcached: a window ends after 18 January 2038, which Memcached cannot store: use a period of at most 29 days")
	}
	return int32(at), nil
}
