package redis

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/storecalls"
	"github.com/weirlimit/weir/store/internal/transport"
)

// Store keeps the state of keys in Redis or Valkey. Safe for concurrent use.
type Store struct {
	inside
	name string // the URL, without the password
	opt  Options
	// queue is that of Take. bound is that which drives the servers, package shared's if
	// there is one: its breakers say which are lost.
	queue *transport.Queue
	bound atomic.Pointer[transport.Queue]
	nodes nodes
	// watcher is told of calls, if anybody is.
	watcher storecalls.Watcher
	plans   plans
	stats   counters
	faults  *faults.Log
	closed  atomic.Bool
	// ending are the calls that end places whose callers have left. None begins once the
	// store is closed, which life guards.
	life   sync.Mutex
	ending sync.WaitGroup
	end    context.CancelFunc // of the list of versions
	// version is what the server that was examined last calls itself.
	version *atomic.Pointer[string]

	// nowFunc tells the time in tests. Nil means that the server does.
	nowFunc func() int64
}

var _ weir.Store = (*Store)(nil)

// Version returns the name and version of the server, of several that which was reached
// last, such as "Redis 7.0.15".
func (s *Store) Version() string {
	if v := s.version.Load(); v != nil {
		return *v
	}
	return ""
}

// Close implements weir.Store. Calls that are under way fail.
func (s *Store) Close() error {
	s.life.Lock()
	closed := s.closed.Swap(true)
	s.life.Unlock()
	if !closed {
		s.end()
		s.ending.Wait()
		s.nodes.close()
		s.queue.Close()
	}
	return nil
}

// readClock returns this process's time, or the test's.
func (s *Store) readClock() int64 {
	if s.nowFunc != nil {
		return s.nowFunc()
	}
	return time.Now().UnixMicro()
}

// refuses returns why nothing can be asked of l.
func (s *Store) refuses(l *weir.Limit, id int64, v weir.Verb) error {
	switch {
	case s.closed.Load():
		return weir.ErrClosed
	case l.Traits()&weir.Leases != 0 && id == 0 && v != weir.Peek:
		return weir.ErrNoLease
	}
	return nil
}

// whyLost returns why a call was not sent: its server is lost, with all others or alone.
func (s *Store) whyLost() error {
	if len(s.nodes.pipelines()) == 1 || s.bound.Load().IsOpen() {
		return errLost
	}
	return errLostPart
}

// hasSlots reports whether the servers have a slot for each key, and a script takes keys
// of one.
func (s *Store) hasSlots() bool {
	_, ok := s.nodes.(*cluster)
	return ok
}

// appendTime appends the time that a test tells.
func (s *Store) appendTime(c *call) {
	if s.nowFunc != nil {
		real, now := time.Now().UnixMilli(), s.nowFunc()
		c.args = append(c.args, strconv.FormatInt(now, 10), strconv.FormatInt(max(real-now/1000, 0)+3600_000, 10))
	}
}
