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
	// writesFor is how long blocks are written at a time, so that rows do not become too
	// many meanwhile.
	writesFor = 30 * time.Second
	// step is how many rows go in one transaction, so that others do not wait long.
	step = 2000
)

// sweeper keeps the rows of a service within their bounds, and writes the blocks of
// clients. Safe for concurrent use.
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
	if err := s.tidyFor(ctx, forget, writesFor); err != nil {
		return err
	}
	s.tidied = time.Now()
	if forget {
		s.forgotten = time.Now()
	}
	return nil
}

// tidyFor is Tidy, which begins no more blocks after so much time.
func (s *sweeper) tidyFor(ctx context.Context, forget bool, writes time.Duration) error {
	if err := s.bound(ctx); err != nil {
		return fmt.Errorf("analytics: %w", err)
	}
	if forget {
		if err := s.forget(ctx); err != nil {
			return fmt.Errorf("analytics: %w", err)
		}
		if err := s.writeBlocks(ctx, writes); err != nil {
			return fmt.Errorf("analytics: blocks of clients: %w", err)
		}
	}
	if err := s.trim(ctx); err != nil {
		return fmt.Errorf("analytics: %w", err)
	}
	return nil
}

// bound merges clients beyond those that a limit keeps in a minute or an hour.
func (s *sweeper) bound(ctx context.Context) error {
	s.mu.Lock()
	changed := s.changed
	s.changed = map[group]bool{}
	s.mu.Unlock()
	for g := range changed {
		if err := s.boundGroup(ctx, g); err != nil {
			s.mu.Lock()
			for g := range changed {
				s.changed[g] = true
			}
			s.mu.Unlock()
			return err
		}
	}
	return nil
}

func (s *sweeper) boundGroup(ctx context.Context, g group) error {
	over := map[int64]bool{}
	err := s.db.View(ctx, func(tx Tx) error {
		return query(tx, func(r Row) { over[r.Int(0)] = true },
			`SELECT limit_id FROM clients WHERE grain = $1 AND at = $2 AND client <> '' GROUP BY limit_id HAVING COUNT(*) > $3`,
			int64(g.grain), g.at, int64(s.opt.MaxClients+s.opt.MaxClients/4))
	})
	if err != nil {
		return err
	}
	for limit := range over {
		if err := s.boundLimit(ctx, g, limit); err != nil {
			return err
		}
	}
	if g.grain == Hour {
		return s.boundWords(ctx, g.at)
	}
	return nil
}

// boundWords deletes the words of an hour beyond as many of a kind as there are
// clients of a limit, those with the fewest limited requests.
func (s *sweeper) boundWords(ctx context.Context, at int64) error {
	type wordKind struct {
		limit            int64
		kind, word       string
		limited, allowed int64
	}
	var all []wordKind
	err := s.db.View(ctx, func(tx Tx) error {
		err := query(tx, func(r Row) { all = append(all, wordKind{limit: r.Int(0), kind: r.Text(1)}) },
			`SELECT limit_id, kind FROM words WHERE at = $1 GROUP BY limit_id, kind HAVING COUNT(*) > $2`, at, int64(s.opt.MaxClients+s.opt.MaxClients/4))
		for i := range all {
			w := &all[i]
			if err == nil {
				err = query(tx, func(r Row) { w.limited, w.allowed, w.word = r.Int(0), r.Int(1), r.Text(2) },
					`SELECT refused + shadow + delayed, allowed, word FROM words WHERE at = $1 AND limit_id = $2 AND kind = $3
						ORDER BY refused + shadow + delayed DESC, allowed DESC, word LIMIT 1 OFFSET $4`, at, w.limit, w.kind, int64(s.opt.MaxClients-1))
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, w := range all {
		err := s.deleteAll(ctx, old{`DELETE FROM words WHERE at = $1 AND limit_id = $2 AND kind = $3 AND word IN (
			SELECT word FROM words WHERE at = $1 AND limit_id = $2 AND kind = $3 AND (refused + shadow + delayed < $4
				OR refused + shadow + delayed = $4 AND (allowed < $5 OR allowed = $5 AND word > $6)) LIMIT $7) RETURNING 1`,
			[]any{at, w.limit, w.kind, w.limited, w.allowed, w.word}})
		if err != nil {
			return err
		}
	}
	return nil
}

// clientRank is where a client stands among those of a limit and a time.
type clientRank struct {
	limited, units int64
	client         string
}

// boundLimit merges the clients of a limit behind the last that is kept.
func (s *sweeper) boundLimit(ctx context.Context, g group, limit int64) error {
	var last *clientRank
	err := s.db.View(ctx, func(tx Tx) error {
		return query(tx, func(r Row) { last = &clientRank{r.Int(0), r.Int(1), r.Text(2)} },
			`SELECT refused + delayed + shadow, units, client FROM clients WHERE grain = $1 AND at = $2 AND limit_id = $3 AND client <> ''
				ORDER BY refused + delayed + shadow DESC, units DESC, client LIMIT 1 OFFSET $4`,
			int64(g.grain), g.at, limit, int64(s.opt.MaxClients-1))
	})
	if err != nil || last == nil {
		return err
	}
	for {
		gone := 0
		err := updateRows(ctx, s.db, func(tx Tx) (err error) {
			gone, err = mergeClients(tx, g, limit, last)
			return err
		})
		if err != nil || gone < step {
			return err
		}
	}
}

// mergeClients puts clients of a limit that stand behind another into one row, as
// many as a step has, and returns how many those were.
func mergeClients(tx Tx, g group, limit int64, last *clientRank) (gone int, err error) {
	if err := exec(tx, touchBlock, int64(g.grain), floor(g.at, blockSeconds(g.grain)), limit); err != nil {
		return 0, err
	}
	rest := none()
	err = query(tx, func(r Row) {
		var c cells
		c.scan(r, 0)
		rest.add(c.merged())
		gone++
	}, `DELETE FROM clients WHERE grain = $1 AND at = $2 AND limit_id = $3 AND client IN (
			SELECT client FROM clients WHERE grain = $1 AND at = $2 AND limit_id = $3 AND client <> ''
			AND (refused + delayed + shadow < $4 OR refused + delayed + shadow = $4 AND (units < $5 OR units = $5 AND client > $6))
			LIMIT $7) RETURNING `+columnList,
		int64(g.grain), g.at, limit, last.limited, last.units, last.client, int64(step))
	if err != nil || gone == 0 {
		return 0, err
	}
	return gone, exec(tx, upsertClient, rest.args([]any{int64(g.grain), g.at, limit, ""})...)
}

// old are rows that are older than what is kept. The statements delete at most as
// many as their last argument.
type old struct {
	statement string
	args      []any
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
		add(blocksTable, "grain = $1 AND at < $2 LIMIT $3", int64(g), floor(k.clients[g], blockSeconds(g)))
	}
	add(wordsTable, "at < $1 LIMIT $2", k.clients[Hour])
	add(arrivalsTable, "at < $1 LIMIT $2", k.arrivals*1e6)
	// The last row of a source is what later ones are compared with.
	add(lossesTable, `at < $1 AND EXISTS (SELECT 1 FROM losses n WHERE n.source_id = losses.source_id AND n.at > losses.at AND n.at < $1) LIMIT $2`, k.counts[Hour])
	add(lateTable, "at < $1 LIMIT $2", k.counts[Hour])
	add(seenTable, "last < $1 LIMIT $2", k.seen)
	// A label that was replaced or taken back would count again without the one that did.
	add(labelsTable, `expires < $1 AND NOT EXISTS (SELECT 1 FROM labels o WHERE o.client = labels.client AND o.domain = labels.domain
		AND o.rule = labels.rule AND o.name = labels.name AND o.id < labels.id AND o.expires >= $1) LIMIT $2`, s.opt.Now().AddDate(-1, 0, 0).Unix())
	add(tableOf("sources", "id"), `last < $1 AND NOT EXISTS (SELECT 1 FROM seen WHERE seen.source_id = sources.id) LIMIT $2`, k.counts[Hour])
	add(lossesTable, `NOT EXISTS (SELECT 1 FROM sources WHERE sources.id = losses.source_id) LIMIT $1`)
	add(tableOf("limits", "id"), `last < $1 AND NOT EXISTS (SELECT 1 FROM rollups WHERE rollups.grain = 3 AND rollups.limit_id = limits.id) LIMIT $2`, k.counts[Day])
	for _, g := range grains[:2] {
		if err := s.cutBlocks(ctx, g, k.clients[g]-1); err != nil {
			return err
		}
	}
	for _, o := range all {
		if err := s.deleteAll(ctx, o); err != nil {
			return err
		}
	}
	return s.boundArrivals(ctx)
}

// deleteAll deletes rows step by step.
func (s *sweeper) deleteAll(ctx context.Context, o old) error {
	for {
		gone, err := s.deleteSome(ctx, o.statement, append(append([]any{}, o.args...), int64(step)))
		if err != nil || gone < step {
			return err
		}
	}
}

// deleteSome is deleteRows of rows that are told of as pruned.
func (s *sweeper) deleteSome(ctx context.Context, statement string, args []any) (gone int64, err error) {
	gone, err = s.deleteRows(ctx, statement, args)
	s.state.forgotten.Add(gone)
	return gone, err
}

// deleteRows runs a statement that deletes rows in a transaction of its own, and returns
// how many those were.
func (s *sweeper) deleteRows(ctx context.Context, statement string, args []any) (gone int64, err error) {
	err = updateRows(ctx, s.db, func(tx Tx) error {
		gone = 0
		return query(tx, func(Row) { gone++ }, statement, args...)
	})
	if err != nil {
		return 0, err
	}
	return gone, nil
}

// boundArrivals deletes the oldest arrivals beyond the bound.
func (s *sweeper) boundArrivals(ctx context.Context) error {
	var from int64
	err := s.db.View(ctx, func(tx Tx) error {
		n := int64(0)
		return query(tx, func(r Row) {
			if n += r.Int(1); n > s.opt.MaxArrivals && from == 0 {
				from = r.Int(0) + 60_000_000
			}
		}, `SELECT at / 60000000 * 60000000, CAST(SUM(n) AS BIGINT) FROM arrivals GROUP BY 1 ORDER BY 1 DESC`)
	})
	if err != nil || from == 0 {
		return err
	}
	return s.deleteAll(ctx, old{arrivalsTable.deletion("at < $1 LIMIT $2"), []any{from}})
}
