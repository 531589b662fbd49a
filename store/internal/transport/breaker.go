package transport

import (
	"math/bits"
	"sync/atomic"
)

const (
	// failuresInRow opens the breaker.
	failuresInRow = 5
	// failuresOfLast opens it, of the last so many calls.
	failuresOfLast = 10
	lastCalls      = 20
	// maxProbes is how many probes of a shard may be without an answer, as the driver
	// does not end them.
	maxProbes = 16
)

// A Breaker is the circuit breaker of one shard. It opens by failures, and is closed by
// a probe. All but isOpen is guarded by the shard.
type Breaker struct {
	isOpen atomic.Bool
	row    int    // failures since the last success
	last   uint32 // the last calls, 1 for a failure, newest lowest
	seen   int    // how many of them there were
	probes int    // under way, those left behind included
}

// record counts the end of a call and reports whether it opened the breaker. RunsOnly: by
// failures in a row alone.
func (b *Breaker) record(failed, runsOnly bool) bool {
	if b.isOpen.Load() {
		return false
	}
	b.last <<= 1
	b.seen = min(b.seen+1, lastCalls)
	if !failed {
		b.row = 0
		return false
	}
	b.row++
	b.last = (b.last | 1) & (1<<lastCalls - 1)
	if b.row < failuresInRow && (runsOnly || b.seen < lastCalls || bits.OnesCount32(b.last) < failuresOfLast) {
		return false
	}
	b.isOpen.Store(true)
	return true
}

// close closes the breaker and forgets what was recorded.
func (b *Breaker) close() {
	b.row, b.last, b.seen = 0, 0, 0
	b.isOpen.Store(false)
}

// IsOpen reports whether the breakers of all shards are open: the store is away.
func (q *Queue) IsOpen() bool {
	for i := range q.shards {
		if !q.shards[i].breaker.isOpen.Load() {
			return false
		}
	}
	return true
}

// IsShardOpen reports whether the breaker of a shard is open.
func (q *Queue) IsShardOpen(shard int) bool { return q.shards[shard].breaker.isOpen.Load() }
