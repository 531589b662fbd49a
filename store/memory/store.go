package memory

import (
	"context"
	"log/slog"
	"sync/atomic"

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

// Store keeps the state of keys in this process. Safe for concurrent use.
type Store struct {
	inside
	clock    *clock
	tables   tables
	closed   atomic.Bool
	sketches sketches
	board    board
	sweeper  sweeper
	versions versions
}

var _ weir.Store = (*Store)(nil)

// New returns an empty store. Close it to end its background work. MaxBytes
// below MinBytes are taken for MinBytes.
func New(o Options) *Store {
	s := newIdle(o)
	s.sweeper.done.Go(s.sweeper.sweepUntilStop)
	return s
}

// newIdle returns a store without background work.
func newIdle(o Options) *Store {
	if o.MaxBytes <= 0 {
		o.MaxBytes = memlimit.Bytes() / 4
	}
	o.MaxBytes = max(o.MaxBytes, MinBytes)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{clock: newClock(o.Now)}
	s.inside = inside{s}
	s.sketches.init(o.MaxBytes / 4)
	s.tables.init(o.MaxBytes-s.sketches.maxBytes, &s.sketches)
	w := &s.sweeper
	w.clock, w.tables, w.sketches, w.logger, w.stop = s.clock, &s.tables, &s.sketches, o.Logger, make(chan struct{})
	return s
}

// Close implements weir.Store. It waits for the background work to end; calls
// that are under way finish.
func (s *Store) Close() error {
	if !s.closed.Swap(true) {
		close(s.sweeper.stop)
	}
	s.sweeper.done.Wait()
	return nil
}

// TakeOne implements weir.Store. It does not allocate.
func (s *Store) TakeOne(_ context.Context, key string, l *weir.Limit, cost int64) (weir.Decision, error) {
	if uint64(cost) > weir.MaxCost {
		return weir.Decision{}, weir.ErrCost
	}
	// The usual case is spelled out: another call would cost it a twentieth
	// (BenchmarkTakeHot).
	if uint(l.Cells-1) < maxDirect && l.Traits()&(weir.Grows|weir.Leases|weir.Sketches) == 0 && !s.closed.Load() {
		tag := s.tables.tagOfKey(key, l)
		t := s.tables.bySize[l.Cells]
		g := t.lockSegment(tag)
		a := weir.Ask{Cost: cost, Now: g.decisionTime(s.clock)}
		if at, found := g.findRow(tag); found {
			d := l.Algorithm.Step(g.cellsAt(at), l, a)
			g.mu.Unlock()
			return d, nil
		}
		d, _, err := s.oneSlowly(t, g, tag, key, l, a)
		return d, err
	}
	d, _, err := s.stepKey(key, l, weir.Ask{Cost: cost})
	return d, err
}

// stepKey steps one key and returns the time of the decision, which it fills in.
func (s *Store) stepKey(key string, l *weir.Limit, a weir.Ask) (weir.Decision, int64, error) {
	t := s.tables.tableFor(l)
	if t == nil || s.closed.Load() || l.Traits()&(weir.Sketches|weir.Leases) != 0 {
		if err := s.refuses(l, &a); err != nil {
			return weir.Decision{}, 0, err
		}
		if l.Traits()&weir.Sketches != 0 {
			return s.oneSketched(key, l, a)
		}
	}
	tag := s.tables.tagOfKey(key, l)
	g := t.lockSegment(tag)
	a.Now = g.decisionTime(s.clock)
	if at, found := g.findRow(tag); found && t.slabs == nil {
		d := l.Algorithm.Step(g.cellsAt(at), l, a)
		g.mu.Unlock()
		return d, a.Now, nil
	}
	return s.oneSlowly(t, g, tag, key, l, a)
}

// oneSlowly steps a key that is new, or whose cells are elsewhere. It unlocks g,
// the segment of tag.
func (s *Store) oneSlowly(t *table, g *segment, tag uint64, key string, l *weir.Limit, a weir.Ask) (weir.Decision, int64, error) {
	if len(s.versions.listWith(l)) > 1 {
		g.mu.Unlock()
		o, err := s.oneOfVersions(key, l, a)
		return o.Decision, o.Now, err
	}
	full := false
	for {
		p := slot{table: t, segment: g, tag: tag}
		p.findRow(a.Now)
		if !p.needsRow() {
			if d, ok := p.stepRow(l, a, false); ok {
				g.mu.Unlock()
				return d, a.Now, nil
			}
			full = true // no memory for the row's cells
		}
		switch {
		case !full:
			full = !t.makeRoom(g, 1, a.Now)
			if g.coversTag(tag) {
				continue
			}
			g.mu.Unlock()
		default:
			if o := p.overflowFor(l, a.Now); o != nil {
				d := p.estimate(o, l, a)
				g.mu.Unlock()
				s.sketches.overflowed.Add(1)
				return d, a.Now, nil
			}
			g.mu.Unlock()
			s.sketches.openOverflow(l, a.Now)
		}
		g = t.lockSegment(tag)
		a.Now = g.decisionTime(s.clock)
	}
}
