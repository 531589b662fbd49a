package analytics

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/faults"
)

const (
	// tidyEvery is how often rows are looked through that may have to go.
	tidyEvery = 5 * time.Second
	// forgetEvery is how often rows that are too old are deleted.
	forgetEvery = time.Minute
	// step is how many rows go in one transaction, so that others do not wait long.
	step = 2000
)

// sweeper keeps the rows of a service within their bounds. Safe for concurrent use.
type sweeper struct {
	db     Database
	opt    *Options
	state  *state
	outage *faults.Outage

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
	grain Grain
	at    int64
}

// note notes the minute and the hour of an instant as changed. Requires: mu is held.
func (s *sweeper) note(at time.Time) {
	s.changed[group{Minute, Minute.of(at)}] = true
	s.changed[group{Hour, Hour.of(at)}] = true
}

// tidy keeps the rows within their bounds until ctx ends.
func (s *sweeper) tidy(ctx context.Context) {
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	logged := false
	for {
		err := s.tidyOnce(ctx)
		if err != nil && ctx.Err() == nil && !logged && !s.outage.IsReported() {
			s.opt.Log.Warn("retention cleanup failed; will retry", "err", err)
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
func (s *sweeper) tidyOnce(ctx context.Context) error {
	if !s.sweeps.TryLock() {
		return nil
	}
	defer s.sweeps.Unlock()
	if time.Since(s.tidied) < tidyEvery/2 {
		return nil
	}
	forget := time.Since(s.forgotten) >= forgetEvery
	if err := s.keepBounds(ctx, forget); err != nil {
		return err
	}
	s.tidied = time.Now()
	if forget {
		s.forgotten = time.Now()
	}
	return nil
}

// keepBounds merges and deletes the rows that are too many, and those that are too old if forget is true.
func (s *sweeper) keepBounds(ctx context.Context, forget bool) error {
	err := s.bound(ctx)
	if err == nil && forget {
		err = s.forget(ctx)
	}
	if err == nil {
		err = s.trim(ctx)
	}
	if err != nil {
		return fmt.Errorf("analytics: %w", err)
	}
	return nil
}

// forget deletes what is too old.
func (s *sweeper) forget(ctx context.Context) error {
	k := s.opt.kept(s.opt.Now())
	var all []old
	add := func(t table, rows string, args ...any) { all = append(all, old{t.deletion(rows), args}) }
	for _, g := range grains {
		for _, t := range countTables {
			add(t, "grain = $1 AND at < $2 LIMIT $3", int64(g), k.counts[g])
		}
	}
	for _, g := range grains[:2] {
		add(clientsTable, "grain = $1 AND at < $2 LIMIT $3", int64(g), k.clients[g])
	}
	add(wordsTable, "at < $1 LIMIT $2", k.clients[Hour])
	add(arrivalsTable, "at < $1 LIMIT $2", k.arrivals*1e6)
	// The last row of a source is what later ones are compared with.
	add(lossesTable, `at < $1 AND EXISTS (SELECT 1 FROM losses n WHERE n.source_id = losses.source_id AND n.at > losses.at AND n.at < $1) LIMIT $2`, k.counts[Hour])
	add(lateTable, "at < $1 LIMIT $2", k.counts[Hour])
	add(seenTable, "last < $1 LIMIT $2", k.seen)
	add(tableOf("sources", "id"), `last < $1 AND NOT EXISTS (SELECT 1 FROM seen WHERE seen.source_id = sources.id) LIMIT $2`, k.counts[Hour])
	add(lossesTable, `NOT EXISTS (SELECT 1 FROM sources WHERE sources.id = losses.source_id) LIMIT $1`)
	add(tableOf("limits", "id"), `last < $1 AND NOT EXISTS (SELECT 1 FROM rollups WHERE rollups.grain = 3 AND rollups.limit_id = limits.id) LIMIT $2`, k.counts[Day])
	for _, o := range all {
		if err := s.deleteAll(ctx, o); err != nil {
			return err
		}
	}
	return s.boundArrivals(ctx)
}
