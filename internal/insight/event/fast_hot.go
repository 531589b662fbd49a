package event

import (
	"sync/atomic"

	"github.com/weirlimit/weir"
)

// fastCounters counts the decisions that come a thousand times a second: one client, one
// limit, one outcome, one cost. They take no place in the ring, and another
// processor need not read them one by one.
//
// An entry is a tag in its upper half, and in its lower a count and fastReported: the
// first decision after a flush goes through the ring, with all that is known of it.
// Only the reader of the ring changes tags, and takes the count in the same step,
// so that no decision is counted under another's tag or lost.
type fastCounters struct {
	entries [fastSize]atomic.Uint64
	cells   [fastSize]*fastCell // the reader's
}

const (
	fastSize = 256
	// fastFrom is how many decisions there must be between two flushes.
	fastFrom = 256
	// fastReported says that a decision went through the ring since the last flush.
	fastReported = 1 << 31
)

// fastCell is what the decisions have in common that an entry counts.
type fastCell struct {
	record
	tag uint32
}

// indexAndTag returns the place and the tag of a decision.
func indexAndTag(hash uint64, l *weir.Limit, outcome weir.Outcome, cost int64, decided bool) (index int, tag uint32) {
	kind := uint64(outcome)<<1 | 1
	if decided {
		kind |= 1 << 8
	}
	h := mix(hash^l.ID(), uint64(cost)<<9^kind^fold)
	return int(h % fastSize), uint32(h>>32) | 1
}

// countDecision counts a decision, and returns false if its entry is not hot, or it is to
// go through the ring nevertheless.
func (h *fastCounters) countDecision(index int, tag uint32) bool {
	e := &h.entries[index]
	for {
		v := e.Load()
		if uint32(v>>32) != tag || uint32(v) == 1<<32-1 {
			return false
		}
		if v&fastReported == 0 {
			if e.CompareAndSwap(v, v|fastReported) {
				return false
			}
			continue
		}
		if e.CompareAndSwap(v, v+1) {
			return true
		}
	}
}

// install makes the decisions of a record hot, unless another has the place. All
// of them must be of one cost, and decide alike.
func (h *fastCounters) install(r *record, hash uint64) {
	if r.cost%r.count != 0 || r.decisive != 0 && r.decisive != r.count {
		return
	}
	cost := r.cost / r.count
	index, tag := indexAndTag(hash, r.limit, r.outcome, cost, r.decisive > 0)
	if h.cells[index] != nil {
		return
	}
	c := &fastCell{record: *r, tag: tag}
	c.cost, c.about, c.answers, c.arrivals = cost, nil, nil, nil
	h.cells[index] = c
	h.entries[index].Store(uint64(tag) << 32)
}

// takeCounts calls each with what was counted since the last call, and lets go of what
// is hot no more.
func (h *fastCounters) takeCounts(each func(*fastCell, int64)) {
	for i, c := range h.cells {
		if c == nil {
			continue
		}
		n := counted(h.entries[i].Swap(uint64(c.tag) << 32))
		if n < fastFrom {
			n += counted(h.entries[i].Swap(0))
			h.cells[i] = nil
		}
		if n > 0 {
			each(c, n)
		}
	}
}

func counted(entry uint64) int64 { return int64(entry & (fastReported - 1)) }
