package stats

import (
	"sync"
	"sync/atomic"
)

// A Counter only grows. The zero value is ready; do not copy it.
type Counter struct{ now, sent atomic.Uint64 }

// Add adds n.
func (c *Counter) Add(n uint64) { c.now.Add(n) }

// Inc adds one.
func (c *Counter) Inc() { c.now.Add(1) }

// Set moves the counter to n, a total kept elsewhere.
func (c *Counter) Set(n uint64) { c.now.Store(n) }

// Value returns all that was added since the process started.
func (c *Counter) Value() uint64 { return c.now.Load() }

// latch returns what was added since the last latch.
func (c *Counter) latch() uint64 {
	now := c.now.Load()
	if now == c.sent.Load() {
		return 0
	}
	return now - c.sent.Swap(now)
}

// A Gauge goes up and down. The zero value is ready; do not copy it.
type Gauge struct{ v atomic.Uint64 }

// Set moves the gauge to n.
func (g *Gauge) Set(n uint64) { g.v.Store(n) }

// Add adds n, which may be negative, and returns where the gauge stands then.
func (g *Gauge) Add(n int64) uint64 { return g.v.Add(uint64(n)) }

// Value returns where the gauge stands.
func (g *Gauge) Value() uint64 { return g.v.Load() }

// timerShort is how many of the shortest durations, in milliseconds, are
// counted without a lock.
const timerShort = 64

// A Timer counts durations in whole milliseconds. The zero value is ready; do
// not copy it.
type Timer struct {
	short [timerShort]atomic.Uint64
	mu    sync.Mutex
	long  map[int64]uint64
}

// timerDistinct is how many different durations beyond timerShort are told apart
// between two flushes, which come every second. Beyond that, new ones are cut to
// whole seconds.
const timerDistinct = 4096

// Observe counts one event that took ms milliseconds.
func (t *Timer) Observe(ms int64) {
	if ms = max(ms, 0); ms < timerShort {
		t.short[ms].Add(1)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.long == nil {
		t.long = map[int64]uint64{}
	}
	if _, known := t.long[ms]; !known && len(t.long) >= timerDistinct {
		ms = ms / 1000 * 1000 // whole seconds, of which there are few
	}
	t.long[ms]++
}

// latch gives each duration seen since the last latch, and how often, to f.
func (t *Timer) latch(f func(ms int64, n uint64)) {
	for ms := range t.short {
		if t.short[ms].Load() != 0 {
			f(int64(ms), t.short[ms].Swap(0))
		}
	}
	t.mu.Lock()
	long := t.long
	t.long = nil
	t.mu.Unlock()
	for ms, n := range long {
		f(ms, n)
	}
}

func (s *Store) counter(name string) *Counter { return findOrMake(&s.mu, s.counters, name) }

func (s *Store) gauge(name string) *Gauge { return findOrMake(&s.mu, s.gauges, name) }

func (s *Store) timer(name string) *Timer { return findOrMake(&s.mu, s.timers, name) }

// findOrMake returns m[name], made if it is not there.
func findOrMake[T any](mu *sync.RWMutex, m map[string]*T, name string) *T {
	mu.RLock()
	v := m[name]
	mu.RUnlock()
	if v != nil {
		return v
	}
	mu.Lock()
	defer mu.Unlock()
	if v = m[name]; v == nil {
		v = new(T)
		m[name] = v
	}
	return v
}

// Generate has f called before every flush, to set gauges that are read from
// elsewhere.
func (s *Store) Generate(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A new slice: a flush may be walking the old one.
	s.makers = append(s.makers[:len(s.makers):len(s.makers)], f)
}
