package retention

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/event"
)

const (
	// tidyEvery is how often rows are looked through that may have to go.
	tidyEvery = 5 * time.Second
	// forgetEvery is how often rows that are too old are deleted.
	forgetEvery = time.Minute
	// step is how many rows go in one transaction, so that others do not wait long.
	step = 2000
)

// Sweeper keeps the rows of a service within their bounds. Safe for concurrent use.
type Sweeper struct {
	db     rows.Database
	bounds *rows.Bounds
	now    func() time.Time
	log    *slog.Logger
	outage *faults.Outage
	pruned atomic.Int64

	mu sync.Mutex
	// changed are the times of clients of which there may be too many rows.
	changed map[group]bool

	// sweeps is held by the one that looks rows through, of however many sources run; the
	// rest is when that was last.
	sweeps            sync.Mutex
	tidied, forgotten time.Time
}

// group is the clients of a limit in a minute or an hour; of all limits, as the
// database numbers them.
type group struct {
	grain rows.Grain
	at    int64
}

// New returns a sweeper of a database. It is silent while an outage is reported.
func New(db rows.Database, bounds *rows.Bounds, now func() time.Time, log *slog.Logger, outage *faults.Outage) *Sweeper {
	s := &Sweeper{db: db, bounds: bounds, now: now, log: log, outage: outage, changed: map[group]bool{}}
	// A process before this one may have left too many rows.
	for _, ago := range [...]time.Duration{0, time.Minute, time.Hour} {
		s.noteTime(now().Add(-ago))
	}
	return s
}

// noteTime notes the minute and the hour of an instant as changed. Requires: mu is held.
func (s *Sweeper) noteTime(at time.Time) {
	s.changed[group{rows.Minute, rows.Minute.FindStart(at)}] = true
	s.changed[group{rows.Hour, rows.Hour.FindStart(at)}] = true
}

// NoteRecords notes when the clients of a batch were there.
func (s *Sweeper) NoteRecords(batch []event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range batch {
		if r := batch[i].Record; r != nil {
			s.noteTime(r.First)
		}
	}
}

// CountPruned returns how many rows were deleted.
func (s *Sweeper) CountPruned() int64 { return s.pruned.Load() }

// KeepTidy keeps the rows within their bounds until ctx ends.
func (s *Sweeper) KeepTidy(ctx context.Context) {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	logged := false
	for {
		err := s.tidyOnce(ctx)
		if err != nil && ctx.Err() == nil && !logged && !s.outage.IsReported() {
			s.log.Warn("retention cleanup failed; will retry", "err", err)
		}
		logged = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// tidyOnce does what is due, unless another does.
func (s *Sweeper) tidyOnce(ctx context.Context) error {
	if !s.sweeps.TryLock() {
		return nil
	}
	defer s.sweeps.Unlock()
	if time.Since(s.tidied) < tidyEvery/2 {
		return nil
	}
	forget := time.Since(s.forgotten) >= forgetEvery
	if err := s.KeepBounds(ctx, forget); err != nil {
		return err
	}
	s.tidied = time.Now()
	if forget {
		s.forgotten = time.Now()
	}
	return nil
}

// KeepBounds merges and deletes the rows that are too many, and those that are too old if forget is true.
func (s *Sweeper) KeepBounds(ctx context.Context, forget bool) error {
	err := s.boundClients(ctx)
	if err == nil && forget {
		err = s.forgetOld(ctx)
	}
	if err == nil {
		err = s.trimToSize(ctx)
	}
	if err != nil {
		return fmt.Errorf("analytics: %w", err)
	}
	return nil
}

// forgetOld deletes what is too old.
func (s *Sweeper) forgetOld(ctx context.Context) error {
	k := s.bounds.KeptAt(s.now())
	var all []old
	add := func(t rows.Table, rows string, args ...any) { all = append(all, old{t.DeleteStatement(rows), args}) }
	for _, g := range rows.Grains {
		for _, t := range rows.CountTables {
			add(t, "grain = $1 AND at < $2 LIMIT $3", int64(g), k.Counts[g])
		}
	}
	for _, g := range rows.Grains[:2] {
		add(rows.ClientsTable, "grain = $1 AND at < $2 LIMIT $3", int64(g), k.Clients[g])
	}
	add(rows.WordsTable, "at < $1 LIMIT $2", k.Clients[rows.Hour])
	add(rows.ArrivalsTable, "at < $1 LIMIT $2", k.Arrivals*1e6)
	// The last row of a source is what later ones are compared with.
	add(rows.LossesTable, `at < $1 AND EXISTS (SELECT 1 FROM losses n WHERE n.source_id = losses.source_id AND n.at > losses.at AND n.at < $1) LIMIT $2`, k.Counts[rows.Hour])
	add(rows.LateTable, "at < $1 LIMIT $2", k.Counts[rows.Hour])
	add(rows.SeenTable, "last < $1 LIMIT $2", k.Seen)
	add(rows.Table{Name: "sources", Keys: []string{"id"}}, `last < $1 AND NOT EXISTS (SELECT 1 FROM seen WHERE seen.source_id = sources.id) LIMIT $2`, k.Counts[rows.Hour])
	add(rows.LossesTable, `NOT EXISTS (SELECT 1 FROM sources WHERE sources.id = losses.source_id) LIMIT $1`)
	add(rows.Table{Name: "limits", Keys: []string{"id"}}, `last < $1 AND NOT EXISTS (SELECT 1 FROM rollups WHERE rollups.grain = 3 AND rollups.limit_id = limits.id) LIMIT $2`, k.Counts[rows.Day])
	for _, o := range all {
		if err := s.deleteAll(ctx, o); err != nil {
			return err
		}
	}
	return s.boundArrivals(ctx)
}
