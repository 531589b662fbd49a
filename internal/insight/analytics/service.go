package analytics

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/insight/analytics/count"
	"github.com/weirlimit/weir/internal/insight/analytics/report"
	"github.com/weirlimit/weir/internal/insight/analytics/retention"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/event"
)

// Service takes in events and answers questions. Safe for concurrent use. Make it
// with New.
type Service struct {
	db    rows.Database
	opt   Options
	state state
	// faults logs events that the database refuses, and questions that it does not answer.
	faults *faults.Log
	outage *faults.Outage
	// lastSystem is the report for which rows were counted last.
	lastSystem atomic.Pointer[report.System]
	rows       *retention.Sweeper

	// orders holds batches that wait for a transaction, places a token for each
	// event that may still wait.
	mu      sync.Mutex
	orders  []*order
	waiting int
	// free is closed, and made anew, when events have left.
	free chan struct{}
	// busy: a transaction is under way, and its end begins the next.
	busy bool
}

// order is a batch that waits to be counted.
type order struct {
	ctx   context.Context
	batch []event.Event
	done  chan error
}

// New returns a service on a database, which the caller closes after Run has
// returned.
func New(db rows.Database, opt Options) (*Service, error) {
	if db == nil {
		return nil, errors.New("analytics: the database is missing")
	}
	if err := opt.complete(db.Dialect().Defaults); err != nil {
		return nil, fmt.Errorf("analytics: %w", err)
	}
	s := &Service{db: db, opt: opt, faults: faults.New(opt.Log), outage: faults.NewOutage(opt.Log,
		"database unavailable; events wait in the queue, reports lack what came since, decisions are not affected", "database recovered"), free: make(chan struct{})}
	s.state.info.Started = opt.Now().UTC()
	s.rows = retention.New(db, &s.opt.Bounds, s.opt.Now, s.opt.Log, s.outage)
	return s, nil
}

// Run takes in what a source hands out until ctx ends or no more can come. It may
// be called for several sources at a time: what they hand out is counted together
// while the database is behind. Events whose transaction has not ended stay with
// the queue.
func (s *Service) Run(ctx context.Context, src event.Source) error {
	tidying, stop := context.WithCancel(ctx)
	var tidy sync.WaitGroup
	tidy.Go(func() { s.rows.KeepTidy(tidying) })
	err := src.Receive(ctx, s.takeBatch)
	stop()
	tidy.Wait()
	if err != nil {
		return fmt.Errorf("analytics: %w", err)
	}
	return nil
}

// Tidy merges the clients of whom a limit has too many and, with forget, deletes
// what is too old or takes too much room.
// Run does so every now and then.
func (s *Service) Tidy(ctx context.Context, forget bool) error {
	return s.rows.KeepBounds(ctx, forget)
}

// takeBatch counts a batch. It returns nil when that is safe.
func (s *Service) takeBatch(ctx context.Context, batch []event.Event) error {
	if len(batch) == 0 {
		return nil
	}
	if err := s.waitForRoom(ctx, len(batch)); err != nil {
		return err
	}
	o := &order{ctx: ctx, batch: batch, done: make(chan error, 1)}
	s.mu.Lock()
	s.orders = append(s.orders, o)
	lead := !s.busy
	s.busy = true
	s.mu.Unlock()
	s.state.changeInfo(func(info *report.ServiceInfo) { info.Batches++ })
	if lead {
		// The first of those who wait does the work of all that have come when it
		// begins, and passes it on.
		go s.countOrders()
	}
	return <-o.done
}

// waitForRoom waits until there is room for n events.
func (s *Service) waitForRoom(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		if s.waiting == 0 || s.waiting+n <= maxWaiting {
			s.addWaiting(n)
			s.mu.Unlock()
			return nil
		}
		free := s.free
		s.mu.Unlock()
		select {
		case <-free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// addWaiting counts events that wait. Requires: mu is held.
func (s *Service) addWaiting(n int) {
	s.waiting += n
	s.state.changeInfo(func(info *report.ServiceInfo) { info.Waiting = int64(s.waiting) })
}

// countOrders counts what waits, one transaction after the other, until nothing does.
func (s *Service) countOrders() {
	for {
		s.mu.Lock()
		orders := s.orders
		s.orders = nil
		s.busy = len(orders) > 0
		s.mu.Unlock()
		if len(orders) == 0 {
			return
		}
		var batch []event.Event
		for _, o := range orders {
			batch = append(batch, o.batch...)
		}
		ctx, cancel := untilAll(orders)
		err := s.countBatch(ctx, batch)
		cancel()
		s.mu.Lock()
		s.addWaiting(-len(batch))
		close(s.free)
		s.free = make(chan struct{})
		s.mu.Unlock()
		for _, o := range orders {
			o.done <- err
		}
	}
}

// untilAll returns a context that ends with the last of those of some orders: one source
// that ends takes no events of others along.
func untilAll(orders []*order) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(orders[0].ctx))
	var left atomic.Int64
	left.Store(int64(len(orders)))
	stops := make([]func() bool, len(orders))
	for i, o := range orders {
		stops[i] = context.AfterFunc(o.ctx, func() {
			if left.Add(-1) == 0 {
				cancel()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// countBatch counts events in one transaction, however often that has to be tried,
// until ctx ends. A transaction that takes too long is tried again by halves, and so is
// one with an event that the database refuses.
func (s *Service) countBatch(ctx context.Context, batch []event.Event) error {
	var down backoff.Backoff
	contended := backoff.Backoff{Min: 10 * time.Millisecond, Max: 100 * time.Millisecond}
	for {
		began := time.Now()
		t, err := s.transact(ctx, batch)
		if err == nil {
			s.counted(batch, t)
			s.outage.Succeeded()
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if rows.Refuses(err) {
			return s.siftBatch(ctx, batch, err)
		}
		s.state.noteFailure(err, s.opt.Now())
		if half := len(batch) / 2; half > 0 && !rows.MayRunAgain(err) && time.Since(began) >= slowTransaction {
			s.opt.Log.Warn("database slow; batch split in halves", "err", err, "events", len(batch))
			return s.countParts(ctx, batch[:half], batch[half:])
		}
		wait := &contended
		if !rows.MayRunAgain(err) {
			s.outage.Failed(err)
			wait = &down
		}
		if !wait.Sleep(ctx) {
			return ctx.Err()
		}
	}
}

// siftBatch counts a batch of which the database refuses an event for what it says: by halves,
// and that event, once it is alone, is set aside.
func (s *Service) siftBatch(ctx context.Context, batch []event.Event, why error) error {
	if half := len(batch) / 2; half > 0 {
		return s.countParts(ctx, batch[:half], batch[half:])
	}
	s.state.changeInfo(func(info *report.ServiceInfo) { info.Rejected++ })
	s.faults.Report("event rejected by the database; it is skipped", fmt.Errorf("%q: %w", batch[0].ID(), why))
	return nil
}

// countParts counts the parts of a batch one after the other.
func (s *Service) countParts(ctx context.Context, parts ...[]event.Event) error {
	for _, part := range parts {
		if err := s.countBatch(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// maxTransaction bounds one attempt.
const maxTransaction = time.Minute

// slowTransaction is how long a transaction that failed must have taken for its size to
// be the reason: below the time that PostgreSQL gives a statement, which is half a minute.
const slowTransaction = 20 * time.Second

func (s *Service) transact(ctx context.Context, batch []event.Event) (t count.Counted, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxTransaction)
	defer cancel()
	k := s.opt.KeptAt(s.opt.Now())
	err = s.db.Update(ctx, rows.RunStatements(func(in *rows.Statements) { t = count.AddEvents(in, batch, k, s.opt.MaxClients) }))
	return t, err
}

// counted notes what a transaction did.
func (s *Service) counted(batch []event.Event, t count.Counted) {
	now := s.opt.Now()
	var newest time.Time
	for i := range batch {
		if e := &batch[i]; e.Time.After(newest) {
			newest = e.Time
		}
	}
	s.rows.NoteRecords(batch)
	s.state.noteSuccess(now, max(now.Sub(newest), 0), t)
}
