package transport

import (
	"sync/atomic"

	"github.com/weirlimit/weir/internal/breaker"
)

// maxProbes is how many probes of a shard may be without an answer, as the driver does not
// end them.
const maxProbes = 16

// A Breaker is the circuit breaker of one shard. It opens by failures, and is closed by
// a probe. All but isOpen is guarded by the shard.
type Breaker struct {
	isOpen   atomic.Bool
	failures breaker.Failures
	probes   int // under way, those left behind included
}

// recordCall counts the end of a call and reports whether it opened the breaker. RunsOnly: by
// failures in a row alone.
func (b *Breaker) recordCall(failed, runsOnly bool) bool {
	if b.isOpen.Load() {
		return false
	}
	if b.failures.Record(failed); !failed || !b.failures.IsRow() && (runsOnly || !b.failures.AreMany()) {
		return false
	}
	b.isOpen.Store(true)
	return true
}

// close closes the breaker and forgets what was recorded.
func (b *Breaker) close() {
	b.failures = breaker.Failures{}
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
