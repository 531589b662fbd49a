package counter

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"math"
	"sync"

	"github.com/weirlimit/weir/internal/sketch"
)

// MemoryOptions configures a Memory.
type MemoryOptions struct {
	// MaxBytes bounds the memory for counters, about. Zero means 256 MiB.
	MaxBytes int64
}

const (
	defaultMemory = 256 << 20
	// bytesPerKey is what a map of entries takes for each, while it grows
	// included.
	bytesPerKey = 96
	// shards is a power of two.
	shards = 64
	// depth of the sketches that take over when a shard is full.
	depth = 4
)

// ErrClosed is the answer of a closed store.
var ErrClosed = errors.New("the store of the counters is closed")

// Memory keeps counters in this process, and forgets them with it. A key is kept
// as a keyed hash of 128 bits. When memory is full, counters of windows that are
// over make room; then new keys share counters in a sketch, which can count too
// much and never too little, until their windows are over. Safe for concurrent
// use.
type Memory struct {
	seeds  [2]maphash.Seed
	shards [shards]shard
}

// hash names a key.
type hash [2]uint64

// entry is a counter in a shard.
type entry struct {
	count uint64
	end   int64
}

type shard struct {
	mu      sync.Mutex
	entries map[hash]entry
	room    int
	width   int
	// swept is when the shard was last searched for windows that are over, due the
	// number of entries at which it is to be again.
	swept    int64
	due      int
	overflow []overflow
	// shared counts hits on the sketches.
	shared uint64
	// Shards lie in cache lines of their own.
	_ [64]byte
}

// overflow counts what finds no room: the keys of one length of window.
type overflow struct {
	period int64
	// end is when the last window that was counted here is over: from then on
	// the sketch is empty.
	end    int64
	sketch *sketch.CountMin
}

// maxOverflows is how many lengths of window have a sketch of their own. Others
// share the last one.
const maxOverflows = 8

// NewMemory returns an empty store.
func NewMemory(o MemoryOptions) *Memory {
	o.MaxBytes = cmp.Or(max(o.MaxBytes, 0), defaultMemory)
	m := &Memory{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	// Three quarters are for entries, a quarter for the sketches.
	room := max(o.MaxBytes/4*3/bytesPerKey/shards, 8)
	width := max(o.MaxBytes/4/shards/maxOverflows/depth/4, 16)
	for i := range m.shards {
		m.shards[i] = shard{entries: map[hash]entry{}, room: int(room), due: min(fewest, int(room)), width: int(width)}
	}
	return m
}

// Add implements Store.
func (m *Memory) Add(_ context.Context, now int64, hits []Hit) error {
	return m.eachHit(now, hits, (*shard).changeCounter)
}

// Look implements Looker.
func (m *Memory) Look(_ context.Context, now int64, hits []Hit) error {
	return m.eachHit(now, hits, func(s *shard, key hash, now int64, h *Hit) error {
		h.Count = s.readCount(key, now, h)
		return nil
	})
}

// eachHit does it for all hits, also behind one that fails, as Redis does.
func (m *Memory) eachHit(now int64, hits []Hit, do func(*shard, hash, int64, *Hit) error) (failed error) {
	for i := range hits {
		h := &hits[i]
		key := hash{maphash.Bytes(m.seeds[0], h.Key), maphash.Bytes(m.seeds[1], h.Key)}
		s := &m.shards[key[1]&(shards-1)]
		s.mu.Lock()
		err := error(ErrClosed)
		if s.entries != nil {
			err = do(s, key, now, h)
		}
		s.mu.Unlock()
		if err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// readCount returns where the counter of a key stands.
func (s *shard) readCount(key hash, now int64, h *Hit) uint64 {
	if e, ok := s.entries[key]; ok {
		if e.end <= now {
			return 0
		}
		return e.count
	}
	if o := s.findOverflow(h.Period, now); o != nil {
		return o.sketch.Estimate(key[0])
	}
	return 0
}

// changeCounter changes the counter of a key.
func (s *shard) changeCounter(key hash, now int64, h *Hit) error {
	e, ok := s.entries[key]
	if ok && e.end <= now {
		e = entry{}
	}
	switch {
	case h.Back:
		e.count -= min(e.count, h.Hits)
	case h.Hits > math.MaxInt64-e.count:
		// As Redis does.
		return replyError(h.command("INCRBY"), "increment or decrement would overflow")
	default:
		e.count += h.Hits
	}
	h.Count = e.count
	if !ok {
		if len(s.entries) >= s.due {
			s.sweep(now)
		}
		if s.readCount(key, now, h) > 0 || len(s.entries) >= s.room {
			s.countShared(key, now, h)
			return nil
		}
		if h.Hits == 0 || h.Back {
			return nil
		}
	}
	// Limits of different units share a counter when their windows begin
	// together: it is kept for the longest.
	e.end = max(e.end, h.End)
	s.entries[key] = e
	return nil
}

// fewest is how many entries a shard has before it is swept.
const fewest = 256

// sweep drops what is over, once a second at most. It is due again when there is
// twice as much, or no room: so half of what is kept is needed, and sweeping costs
// an insertion little.
func (s *shard) sweep(now int64) {
	if now == s.swept {
		return
	}
	s.swept = now
	for k, e := range s.entries {
		if e.end <= now {
			delete(s.entries, k)
		}
	}
	s.due = min(max(2*len(s.entries), fewest), s.room)
}

// countShared counts a key that finds no room. Nothing can be given back here: other
// keys would lose theirs.
func (s *shard) countShared(key hash, now int64, h *Hit) {
	if h.Back || h.Hits == 0 {
		h.Count = s.readCount(key, now, h)
		return
	}
	o := s.findOverflow(h.Period, now)
	if o == nil {
		o = s.makeOverflow(h.Period)
	}
	s.shared++
	o.end = max(o.end, h.End)
	h.Count = min(o.sketch.AddUnits(key[0], h.Hits), math.MaxInt64)
}

// findOverflow returns the sketch for a length of window, nil if there is none yet. It is
// empty when all windows counted in it are over.
func (s *shard) findOverflow(period, now int64) *overflow {
	for i := range s.overflow {
		o := &s.overflow[i]
		if o.period == period || i == maxOverflows-1 {
			if o.end <= now {
				o.sketch.Reset()
			}
			return o
		}
	}
	return nil
}

func (s *shard) makeOverflow(period int64) *overflow {
	c, err := sketch.NewCountMin(depth, s.width)
	if err != nil {
		panic("counter: " + err.Error()) // The bounds of width are those of the sketch.
	}
	s.overflow = append(s.overflow, overflow{period: period, sketch: c})
	return &s.overflow[len(s.overflow)-1]
}

// Close implements Store: it frees the counters.
func (m *Memory) Close() error {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		s.entries, s.overflow = nil, nil
		s.mu.Unlock()
	}
	return nil
}
