package memory

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/memlimit"
)

// Options configures a [Store].
type Options struct {
	// MaxBytes bounds the memory for the state of keys, at least MinBytes. Three
	// quarters are for tables, a quarter for the sketches of a full store; those
	// of approximate limits come on top, as their limits ask for them. While tables
	// grow, the process may hold twice as much until memory is collected. Zero means
	// a quarter of the memory that the process may use: the least of its control
	// group's limit, GOMEMLIMIT and the machine's memory.
	MaxBytes int64
	// Now tells the time in microseconds since the Unix epoch, for tests and
	// replays. It is called under a lock and must not use the store. Zero means
	// the store's own clock: monotonic, and kept in step with wall time.
	Now func() int64
	// Logger is told when the store is full and when it is no longer. Zero means
	// nobody is told.
	Logger *slog.Logger
}

// MinBytes is the least memory that a store works with.
const MinBytes = 1 << 20

// maxDirect is the most cells of a row that a table keeps in place.
const maxDirect = 4

// Store keeps the state of keys in this process. Safe for concurrent use.
type Store struct {
	seed  maphash.Seed
	clock *clock
	// tables[n] is for rows of n cells, the last for longer ones.
	tables [maxDirect + 2]*table
	closed atomic.Bool

	maxBytes int64 // for tables: what sketches leave
	maxSpare int   // cells kept for reuse, of each size
	bytes    atomic.Int64
	num      atomic.Uint64
	spares   [len(narrow)]spare

	reused, splits, shrinks, overflowed atomic.Uint64

	sketches sketches
	board    board

	logger *slog.Logger
	stop   chan struct{}
	full   bool // as last reported; the background work's own
	done   sync.WaitGroup
}

var _ weir.Store = (*Store)(nil)

// New returns an empty store. Close it to end its background work. MaxBytes
// below MinBytes are taken for MinBytes.
func New(o Options) *Store {
	s := newIdle(o)
	s.done.Go(s.sweepLoop)
	return s
}

// newIdle returns a store without background work.
func newIdle(o Options) *Store {
	if o.MaxBytes <= 0 {
		o.MaxBytes = memlimit.Bytes() / 4
	}
	o.MaxBytes = max(o.MaxBytes, MinBytes)
	s := &Store{
		seed:   maphash.MakeSeed(),
		clock:  newClock(o.Now),
		logger: o.Logger,
		stop:   make(chan struct{}),
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.sketches.init(s, o.MaxBytes/4)
	s.maxBytes = o.MaxBytes - s.sketches.maxBytes
	s.maxSpare = int(min(s.maxBytes/64/(128<<10), 8))
	for cells := 1; cells <= maxDirect; cells++ {
		s.tables[cells] = newTable(s, cells+1, nil)
	}
	s.tables[maxDirect+1] = newTable(s, 2, newSlabs(s))
	return s
}

// Close implements weir.Store. It waits for the background work to end; calls
// that are under way finish.
func (s *Store) Close() error {
	if !s.closed.Swap(true) {
		close(s.stop)
	}
	s.done.Wait()
	return nil
}

func (s *Store) now() int64 { return s.clock.now(0) }

// nowIn returns the time for a decision in g, which is locked.
//
// It is told under the lock: else a spend that was told it earlier could come later,
// find a key that is full only until now, and refuse a unit too many.
func (s *Store) nowIn(g *segment) int64 {
	g.latest = s.clock.now(g.latest)
	return g.latest
}

// nowAmong returns the time for a decision in all of locks, which are locked.
func (s *Store) nowAmong(locks lockSet) int64 {
	last := int64(0)
	for _, g := range locks {
		last = max(last, g.latest)
	}
	now := s.clock.now(last)
	for _, g := range locks {
		g.latest = now
	}
	return now
}

// tag returns what stands for key under l. It is never zero. For one limit, two
// keys share a tag only if their hashes are equal.
func (s *Store) tag(key string, l *weir.Limit) uint64 {
	return tagOf(maphash.String(s.seed, key), l)
}

// tagOf is tag of a key with the hash.
func tagOf(hash uint64, l *weir.Limit) uint64 {
	tag := hash ^ l.ID()
	if tag == 0 {
		return 1
	}
	return tag
}

// table returns the table for the keys of l.
func (s *Store) table(l *weir.Limit) *table {
	if l.Cells > maxDirect || l.Traits()&weir.Grows != 0 {
		return s.tables[maxDirect+1]
	}
	return s.tables[l.Cells]
}

// TakeOne implements weir.Store. It does not allocate.
func (s *Store) TakeOne(_ context.Context, key string, l *weir.Limit, cost int64) (weir.Decision, error) {
	if uint64(cost) > weir.MaxCost {
		return weir.Decision{}, weir.ErrCost
	}
	// The usual case is spelled out: another call would cost it a twentieth
	// (BenchmarkTakeHot).
	if uint(l.Cells-1) < maxDirect && l.Traits()&(weir.Grows|weir.Leases|weir.Sketches) == 0 && !s.closed.Load() {
		tag := s.tag(key, l)
		t := s.tables[l.Cells]
		g := t.lock(tag)
		a := weir.Ask{Cost: cost, Now: s.nowIn(g)}
		if at, found := g.find(tag); found {
			d := l.Algorithm.Step(g.row(at), l, a)
			g.mu.Unlock()
			return d, nil
		}
		d, _ := s.oneSlowly(t, g, tag, l, a)
		return d, nil
	}
	d, _, err := s.one(key, l, weir.Ask{Cost: cost})
	return d, err
}

// one steps one key and returns the time of the decision, which it fills in.
func (s *Store) one(key string, l *weir.Limit, a weir.Ask) (weir.Decision, int64, error) {
	t := s.table(l)
	if t == nil || s.closed.Load() || l.Traits()&(weir.Sketches|weir.Leases) != 0 {
		if err := s.refuses(l, &a); err != nil {
			return weir.Decision{}, 0, err
		}
		if l.Traits()&weir.Sketches != 0 {
			return s.oneSketched(key, l, a)
		}
	}
	tag := s.tag(key, l)
	g := t.lock(tag)
	a.Now = s.nowIn(g)
	if at, found := g.find(tag); found && t.slabs == nil {
		d := l.Algorithm.Step(g.row(at), l, a)
		g.mu.Unlock()
		return d, a.Now, nil
	}
	d, now := s.oneSlowly(t, g, tag, l, a)
	return d, now, nil
}

// refuses returns why nothing can be asked of l.
func (s *Store) refuses(l *weir.Limit, a *weir.Ask) error {
	switch {
	case s.closed.Load():
		return weir.ErrClosed
	case l.Cells == 0:
		return fmt.Errorf("store memory: limit %q was not compiled: call its Compile, or give it to weir.New", l.Name)
	case l.Traits()&weir.Leases != 0 && a.ID == 0 && a.Verb != weir.Peek:
		return weir.ErrNoLease
	case l.Traits()&weir.Sketches != 0 && a.Verb == weir.Refund:
		return weir.ErrRefund
	}
	return nil
}

// oneSlowly steps a key that is new, or whose cells are elsewhere. It unlocks g,
// the segment of tag.
func (s *Store) oneSlowly(t *table, g *segment, tag uint64, l *weir.Limit, a weir.Ask) (weir.Decision, int64) {
	full := false
	for {
		p := slot{table: t, segment: g, tag: tag}
		p.find(a.Now)
		if !p.needsRow() {
			if d, ok := p.step(l, a, false); ok {
				g.mu.Unlock()
				return d, a.Now
			}
			full = true // no memory for the row's cells
		}
		switch {
		case !full:
			full = !t.makeRoom(g, 1, a.Now)
			if g.covers(tag) {
				continue
			}
			g.mu.Unlock()
		default:
			if o := p.sketch(l, a.Now); o != nil {
				d := p.estimate(o, l, a)
				g.mu.Unlock()
				s.overflowed.Add(1)
				return d, a.Now
			}
			g.mu.Unlock()
			s.sketches.open(l, a.Now)
		}
		g = t.lock(tag)
		a.Now = s.nowIn(g)
	}
}

// fits reports whether tables may take so many bytes more.
func (s *Store) fits(bytes int64) bool { return s.bytes.Load()+bytes <= s.maxBytes }

func (s *Store) account(bytes int64) { s.bytes.Add(bytes) }

func (s *Store) nextNum() uint64 { return s.num.Add(1) }

// sweepEvery is how often the background work does a part of its round.
const sweepEvery = time.Second

// report logs when the store becomes full and when it is no longer. It runs in
// the background: nobody waits for a log.
func (s *Store) report(now int64) {
	live := s.sketches.expire(now)
	switch {
	case live > 0 && !s.full:
		s.full = true
		s.logger.Warn("memory store full; new keys are decided from a sketch and may be refused early; raise max_bytes",
			"bytes", s.bytes.Load(), "max_bytes", s.maxBytes+s.sketches.maxBytes)
	case live == 0 && s.full:
		s.full = false
		s.logger.Warn("memory store below its maximum; all keys are decided exactly",
			"overflowed_decisions", s.overflowed.Load())
	}
}
