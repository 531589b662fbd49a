package memcached

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/background"
	"github.com/weirlimit/weir/internal/lateness"
	"github.com/weirlimit/weir/params"
)

// Store keeps counts in Memcached. Safe for concurrent use.
type Store struct {
	prefix  string
	timeout time.Duration
	now     func() int64
	servers []*server

	// refused holds the tags of keys that were refused lately. They are looked at
	// before they are charged, so that further refusals write nothing. Forgetting
	// one, or taking another for it, costs a round trip and no more.
	refused [1024]atomic.Uint64

	undone, kept atomic.Uint64
	// version is what the server that was probed last calls itself.
	version atomic.Pointer[string]

	// meter tells how late this process is by itself.
	meter  *lateness.Meter
	closed chan struct{}
	once   sync.Once
	err    error // of closing
}

var _ weir.Store = (*Store)(nil)

// New returns a store. It connects to nobody: [Store.Probe] does.
func New(o Options) (*Store, error) {
	o, err := o.orDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{prefix: o.Prefix, timeout: o.Timeout, now: o.Now, meter: lateness.New(), closed: make(chan struct{})}
	for _, addr := range o.Servers {
		s.servers = append(s.servers, newServer(addr, &o, s.closed))
	}
	for _, v := range s.servers {
		v.all = s.servers
	}
	return s, nil
}

// Close implements weir.Store. It waits for the calls under way, no longer than
// their timeout.
func (s *Store) Close() error {
	s.once.Do(func() {
		close(s.closed)
		var errs []error
		for _, v := range s.servers {
			errs = append(errs, v.close())
		}
		s.meter.Close()
		s.err = errors.Join(errs...)
	})
	return s.err
}

// Stats is what a store has counted since it was made.
type Stats struct {
	// Undone is how many charges were taken back, as another request was faster
	// or another limit of the same request refused.
	Undone uint64
	// Kept is how many charges should have been taken back and could not be in
	// time: they count until their window ends.
	Kept uint64
	// Foreign is how many keys held what is no count, and began anew.
	Foreign uint64
}

// Stats returns what was counted so far.
func (s *Store) Stats() Stats {
	return Stats{Undone: s.undone.Load(), Kept: s.kept.Load(), Foreign: s.foreign()}
}

// Check says why a store of this kind cannot serve l, nil if it can.
func Check(l *weir.Limit) error {
	const elsewhere = "or keep it in another store, such as memory: or redis://"
	switch {
	case l.Algorithm == nil:
		return fmt.Errorf("limit %q: no algorithm", l.Name)
	case l.Algorithm.Name() != algorithm.FixedWindow.Name():
		return fmt.Errorf("limit %q: Memcached can only count, so it cannot keep %s: use fixed_window, %s", l.Name, l.Algorithm.Name(), elsewhere)
	case l.Anchor == params.AnchorFirst:
		return fmt.Errorf("limit %q: Memcached cannot keep when a window began, so none can begin with the first request: anchor it to the epoch or the calendar, %s", l.Name, elsewhere)
	}
	if l.Pool != nil {
		if err := Check(l.Pool); err != nil {
			return fmt.Errorf("limit %q: its pool: %w", l.Name, err)
		}
	}
	if l.Ban != nil {
		if err := Check(l.Ban); err != nil {
			return fmt.Errorf("limit %q: its ban: %w", l.Name, err)
		}
	}
	return nil
}

// Restarts says why a store of this kind counts l from zero where it has counted for
// old, an earlier version of the same limit; empty if it goes on. A count is known by
// the end of its window.
func Restarts(l, old *weir.Limit) string {
	why := l.Restarts(old)
	if why == "" && (l.Period != old.Period || l.Phase != old.Phase || l.Anchor != old.Anchor ||
		l.Calendar != old.Calendar || l.Location.String() != old.Location.String()) {
		why = "in Memcached a count is known by the end of its window"
	}
	return why
}

// servable is Check for a single op: as long as all is well it costs nothing.
func servable(l *weir.Limit) error {
	if l.Cells == 0 {
		return fault("limit %q was not compiled: call its Compile, or give it to weir.New", l.Name)
	}
	if l.Algorithm == algorithm.FixedWindow && l.Anchor != params.AnchorFirst {
		return nil
	}
	return &RejectedError{fmt.Errorf("store memcached: %w", Check(l))}
}

// RejectedError: Memcached cannot keep a limit of the call. Others are decided as ever.
type RejectedError struct{ Err error }

func (e *RejectedError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *RejectedError) Unwrap() error { return e.Err }

// Rejected returns true: the error says nothing of whether the servers answer, as
// package shared asks.
func (e *RejectedError) Rejected() bool { return true }

// TakeOne implements weir.Store.
func (s *Store) TakeOne(ctx context.Context, key string, l *weir.Limit, cost int64) (weir.Decision, error) {
	ops := [1]weir.Op{{Key: key, Limit: l, Cost: cost}}
	if err := s.Take(ctx, ops[:]); err != nil {
		return weir.Decision{}, err
	}
	return ops[0].Decision, nil
}

// Take implements weir.Store. Ops on the same key and limit are decided as a
// sequence. The deadline of ctx shortens the timeout; that ctx was canceled is
// noticed between steps.
func (s *Store) Take(ctx context.Context, ops []weir.Op) error {
	select {
	case <-s.closed:
		return weir.ErrClosed
	default:
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c := call{Store: s, ctx: ctx, ops: ops, now: s.now()}
	if err := c.locate(); err != nil {
		return err
	}
	begin := time.Now()
	end := begin.Add(s.timeout)
	if b := background.Of(ctx); b != nil {
		end = begin.Add(max(s.timeout, b.Timeout))
	}
	if d, ok := ctx.Deadline(); ok && d.Before(end) {
		end = d
	}
	own := s.meter.Allow()
	c.end, c.deadline = due{end, own}, due{begin.Add(end.Sub(begin) / 4 * 3), own}
	if err := c.run(); err != nil {
		for i := range ops {
			ops[i].Charged, ops[i].Borrowed = false, false
		}
		return err
	}
	c.remember()
	return nil
}

// wasRefused reports whether k was refused lately.
func (s *Store) wasRefused(k *counter) bool {
	return s.refused[k.tag>>1%uint64(len(s.refused))].Load() == k.tag
}

// noteRefused remembers that k was refused, or that it no longer is.
func (s *Store) noteRefused(k *counter, refused bool) {
	slot := &s.refused[k.tag>>1%uint64(len(s.refused))]
	switch {
	case refused:
		slot.Store(k.tag)
	case slot.Load() == k.tag:
		slot.Store(0)
	}
}

// foreign returns how many keys held what is no count.
func (s *Store) foreign() (n uint64) {
	for _, v := range s.servers {
		n += v.foreign.Load()
	}
	return n
}
