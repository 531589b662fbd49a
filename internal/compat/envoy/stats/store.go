package stats

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// DefaultMaxKeys is how many keys that requests bring are counted by name.
// One takes about 300 bytes, and twelve Prometheus series at most.
const DefaultMaxKeys = 10_000

// A Sink is where statistics go. The Store calls it from one goroutine at a
// time, with full names, tags included (see Scope).
type Sink interface {
	Counter(name string, delta uint64) // delta is never 0
	Gauge(name string, value uint64)
	Timer(name string, ms int64, n uint64) // n events that took ms milliseconds each
	Flush()
}

// Options say what a Store does.
type Options struct {
	// Sink receives the statistics. Zero means none: they are counted, and
	// thrown away at each flush.
	Sink Sink
	// Tags are put on every name that this package makes itself, and on those
	// of TopScope. Zero means none.
	Tags map[string]string
	// MaxKeys bounds the keys that Dynamic and UnknownDomain count by name.
	// Zero means DefaultMaxKeys.
	MaxKeys int
}

// A Store holds statistics and flushes them to a sink. Make it with New.
type Store struct {
	sink Sink
	tags map[string]string

	mu       sync.RWMutex // guards the maps and generators, not the values
	counters map[string]*Counter
	gauges   map[string]*Gauge
	timers   map[string]*Timer
	makers   []func()

	keys keys

	flushing sync.Mutex // one flush at a time; taken before mu
}

// New returns an empty store. It starts nothing: see Run.
func New(o Options) *Store {
	s := &Store{
		sink:     o.Sink,
		tags:     o.Tags,
		counters: map[string]*Counter{},
		gauges:   map[string]*Gauge{},
		timers:   map[string]*Timer{},
	}
	if s.sink == nil {
		s.sink = nowhere{}
	}
	s.keys.init(s.TopScope("ratelimit").Scope("service").Scope("rate_limit"), cmp.Or(max(o.MaxKeys, 0), DefaultMaxKeys))
	return s
}

// Run flushes every interval, and timers every second, until ctx ends; then it
// flushes once more and returns. A zero or negative interval is ten seconds.
func (s *Store) Run(ctx context.Context, interval time.Duration) {
	all := time.NewTicker(cmp.Or(max(interval, 0), 10*time.Second))
	defer all.Stop()
	timers := time.NewTicker(time.Second)
	defer timers.Stop()
	for {
		select {
		case <-all.C:
			s.Flush()
		case <-timers.C:
			s.FlushTimers()
		case <-ctx.Done():
			s.Flush()
			return
		}
	}
}

// Flush tells the sink what counters have gained since the last flush, what
// gauges stand at, and what timers have seen. Counters that gained nothing are
// not mentioned.
func (s *Store) Flush() {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.mu.RLock()
	makers := s.makers
	s.mu.RUnlock()
	for _, generate := range makers {
		generate()
	}
	s.keys.flushTo(s.sink)
	s.mu.RLock()
	defer s.mu.RUnlock()
	for name, c := range s.counters {
		if d := c.latch(); d != 0 {
			s.sink.Counter(name, d)
		}
	}
	for name, g := range s.gauges {
		s.sink.Gauge(name, g.Value())
	}
	s.flushTimers()
	s.sink.Flush()
}

// FlushTimers tells the sink what timers have seen since they were last
// flushed, and nothing else.
func (s *Store) FlushTimers() {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.flushTimers() {
		s.sink.Flush()
	}
}

// flushTimers requires flushing and mu.
func (s *Store) flushTimers() (any bool) {
	for name, t := range s.timers {
		t.latch(func(ms int64, n uint64) {
			any = true
			s.sink.Timer(name, ms, n)
		})
	}
	return any
}

type nowhere struct{}

func (nowhere) Counter(string, uint64)      {}
func (nowhere) Gauge(string, uint64)        {}
func (nowhere) Timer(string, int64, uint64) {}
func (nowhere) Flush()                      {}
