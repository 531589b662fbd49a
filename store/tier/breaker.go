package tier

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	// failuresInRow opens the breaker.
	failuresInRow = 5
	// failuresOfLast opens it, of the last so many calls.
	failuresOfLast = 10
	lastCalls      = 20
)

// A breaker is open while the shared store is taken to be away: nobody then
// waits for it. Whoever probes the store closes it.
//
// Safe for concurrent use.
type breaker struct {
	open atomic.Bool

	mu   sync.Mutex
	row  int    // failures since the last success
	last uint32 // the last calls, 1 for a failure, newest lowest
	seen int    // how many of them there were
}

// note counts a call that has ended and reports whether it opened the breaker.
func (b *breaker) note(failed bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open.Load() {
		return false
	}
	b.last <<= 1
	b.seen = min(b.seen+1, lastCalls)
	if !failed {
		b.row = 0
		return false
	}
	b.row++
	b.last |= 1
	b.last &= 1<<lastCalls - 1
	if b.row < failuresInRow && (b.seen < lastCalls || bits.OnesCount32(b.last) < failuresOfLast) {
		return false
	}
	b.open.Store(true)
	return true
}

// trip opens the breaker at once and reports whether it was closed.
func (b *breaker) trip() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.open.Swap(true)
}

// reset closes the breaker and reports whether it was open.
func (b *breaker) reset() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.row, b.last, b.seen = 0, 0, 0
	return b.open.Swap(false)
}
