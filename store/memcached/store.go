package memcached

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/storecalls"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/transport"
)

// maxWaiting is how many calls wait for a connection to a server at most.
const maxWaiting = 16384

// Store keeps counts in Memcached. Safe for concurrent use.
type Store struct {
	inside
	prefix  string
	now     func() int64
	servers []*server

	// refused holds the tags of keys that were refused lately. They are looked at
	// before they are charged, so that further refusals write nothing. Forgetting
	// one, or taking another for it, costs a round trip and no more.
	refused [1024]atomic.Uint64

	undone, kept atomic.Uint64
	// version is what the server that was probed last calls itself.
	version atomic.Pointer[string]

	queue  *transport.Queue
	tuning transport.Tuning
	log    *slog.Logger
	// watcher is told of calls, if anybody is.
	watcher storecalls.Watcher
	closed  atomic.Bool
}

var _ weir.Store = (*Store)(nil)

// New returns a store. It connects to nobody: [Store.Probe] does.
func New(o Options) (*Store, error) {
	o, err := o.orDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{prefix: o.Prefix, now: o.Now, log: o.Logger, tuning: o.queueTuning()}
	s.inside = inside{s}
	for _, addr := range o.Servers {
		s.servers = append(s.servers, newServer(addr, &o))
	}
	s.queue = transport.NewOwnQueue(s, transport.Options{Budget: o.Timeout, Timeout: max(o.Timeout, time.Second), Waiting: maxWaiting})
	return s, nil
}

// Close implements weir.Store. It waits for the calls under way, no longer than
// their timeout and a second.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.queue.Close()
	var errs []error
	for _, v := range s.servers {
		errs = append(errs, v.close())
	}
	return errors.Join(errs...)
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
	st := Stats{Undone: s.undone.Load(), Kept: s.kept.Load()}
	for _, v := range s.servers {
		st.Foreign += v.foreign.Load()
	}
	return st
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
		return storeErrorf("limit %q was not compiled: call its Compile, or give it to weir.New", l.Name)
	}
	if l.Algorithm == algorithm.FixedWindow && l.Anchor != params.AnchorFirst {
		return nil
	}
	return fmt.Errorf("store memcached: %w", Check(l))
}

// TakeOne implements weir.Store.
func (s *Store) TakeOne(ctx context.Context, key string, l *weir.Limit, cost int64) (weir.Decision, error) {
	ops := [1]weir.Op{{Key: key, Limit: l, Cost: cost}}
	if err := s.Take(ctx, ops[:]); err != nil {
		return weir.Decision{}, err
	}
	return ops[0].Decision, nil
}

// Take implements weir.Store. Ops on the same key and limit are decided as a
// sequence. The deadline of ctx shortens the timeout. A call that was sent when ctx
// ended may be charged.
func (s *Store) Take(ctx context.Context, ops []weir.Op) error {
	if s.closed.Load() {
		return weir.ErrClosed
	}
	_, err := s.queue.DecideByClass(ctx, transport.ClassOf(ctx), nil, ops)
	if err == nil {
		return nil
	}
	for i := range ops {
		ops[i].Answer = weir.Answer{Decision: ops[i].Decision, Now: ops[i].Now}
	}
	return s.explain(err)
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
