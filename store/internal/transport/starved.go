package transport

import (
	"time"

	"github.com/weirlimit/weir/store/internal/clock"
)

// starved adds up how long calls of a shard waited while none was in flight: they waited for
// this node, which gave no worker its turn, and not for the store.
type starved struct{ total, until clock.Node }

// maxStarved is how much longer a caller waits at most, in microseconds.
const maxStarved = 1_000_000

// updateStarved adds the time since the last look, before anything changes, and returns the time.
// Requires: mu.
func updateStarved(s *shard) (now clock.Node) {
	now = s.q.env.Now()
	if s.live > 0 && len(s.flight) == 0 {
		s.starved.total += now - s.starved.until
	}
	s.starved.until = now
	return now
}

// extraWait returns how much longer the caller of c waits, whose time is over.
func extraWait(c *Call) time.Duration {
	s := c.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	now := updateStarved(s)
	c.ends = max(c.ends, c.until+min(s.starved.total-c.starved, maxStarved))
	return time.Duration(max(c.ends-now, 0)) * time.Microsecond
}
