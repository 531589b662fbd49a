package retention

import (
	"context"
	"maps"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// boundClients merges clients beyond those that a limit keeps in a minute or an hour.
func (s *Sweeper) boundClients(ctx context.Context) error {
	s.mu.Lock()
	changed := s.changed
	s.changed = map[group]bool{}
	s.mu.Unlock()
	for g := range changed {
		if err := s.boundGroup(ctx, g); err != nil {
			s.mu.Lock()
			maps.Copy(s.changed, changed)
			s.mu.Unlock()
			return err
		}
	}
	return nil
}

func (s *Sweeper) boundGroup(ctx context.Context, g group) error {
	over := map[int64]bool{}
	err := rows.ViewRows(ctx, s.db, func(in *rows.Statements) {
		in.ReadRows(func(r rows.Row) { over[r.Int(0)] = true },
			`SELECT limit_id FROM clients WHERE grain = $1 AND at = $2 AND client <> '' GROUP BY limit_id HAVING COUNT(*) > $3`,
			int64(g.grain), g.at, int64(s.bounds.MaxClients+s.bounds.MaxClients/4))
	})
	if err != nil {
		return err
	}
	for limit := range over {
		if err := s.boundLimit(ctx, g, limit); err != nil {
			return err
		}
	}
	if g.grain == rows.Hour {
		return s.boundWords(ctx, g.at)
	}
	return nil
}

// boundWords deletes the words of an hour beyond as many of a kind as there are
// clients of a limit, those with the fewest limited requests.
func (s *Sweeper) boundWords(ctx context.Context, at int64) error {
	type wordKind struct {
		limit            int64
		kind, word       string
		limited, allowed int64
	}
	var all []wordKind
	err := rows.ViewRows(ctx, s.db, func(in *rows.Statements) {
		in.ReadRows(func(r rows.Row) { all = append(all, wordKind{limit: r.Int(0), kind: r.Text(1)}) },
			`SELECT limit_id, kind FROM words WHERE at = $1 GROUP BY limit_id, kind HAVING COUNT(*) > $2`, at, int64(s.bounds.MaxClients+s.bounds.MaxClients/4))
		for i := range all {
			w := &all[i]
			in.ReadRows(func(r rows.Row) { w.limited, w.allowed, w.word = r.Int(0), r.Int(1), r.Text(2) },
				`SELECT refused + shadow + delayed, allowed, word FROM words WHERE at = $1 AND limit_id = $2 AND kind = $3
					ORDER BY refused + shadow + delayed DESC, allowed DESC, word LIMIT 1 OFFSET $4`, at, w.limit, w.kind, int64(s.bounds.MaxClients-1))
		}
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
func (s *Sweeper) boundLimit(ctx context.Context, g group, limit int64) error {
	var last *clientRank
	err := rows.ViewRows(ctx, s.db, func(in *rows.Statements) {
		in.ReadRows(func(r rows.Row) { last = &clientRank{r.Int(0), r.Int(1), r.Text(2)} },
			`SELECT refused + delayed + shadow, units, client FROM clients WHERE grain = $1 AND at = $2 AND limit_id = $3 AND client <> ''
				ORDER BY refused + delayed + shadow DESC, units DESC, client LIMIT 1 OFFSET $4`,
			int64(g.grain), g.at, limit, int64(s.bounds.MaxClients-1))
	})
	if err != nil || last == nil {
		return err
	}
	for {
		gone := 0
		err := rows.UpdateRows(ctx, s.db, func(in *rows.Statements) { gone = mergeClients(in, g, limit, last) })
		if err != nil || gone < step {
			return err
		}
	}
}

// mergeClients puts clients of a limit that stand behind another into one row, as
// many as a step has, and returns how many those were.
func mergeClients(in *rows.Statements, g group, limit int64, last *clientRank) (gone int) {
	rest := rows.NewCells()
	var line rows.ClientLine
	columns, read := rows.AllColumns.Columns()
	in.ReadRows(func(r rows.Row) {
		read(&line, r)
		rest.AddRow(line.AsMerged())
		gone++
	}, `DELETE FROM clients WHERE grain = $1 AND at = $2 AND limit_id = $3 AND client IN (
			SELECT client FROM clients WHERE grain = $1 AND at = $2 AND limit_id = $3 AND client <> ''
			AND (refused + delayed + shadow < $4 OR refused + delayed + shadow = $4 AND (units < $5 OR units = $5 AND client > $6))
			LIMIT $7) RETURNING `+columns,
		int64(g.grain), g.at, limit, last.limited, last.units, last.client, int64(step))
	if gone > 0 {
		in.Execute(rows.UpsertClient, rest.AppendArgs([]any{int64(g.grain), g.at, limit, ""})...)
	}
	return gone
}

// boundArrivals deletes the oldest arrivals beyond the bound.
func (s *Sweeper) boundArrivals(ctx context.Context) error {
	var from int64
	err := rows.ViewRows(ctx, s.db, func(in *rows.Statements) {
		n := int64(0)
		in.ReadRows(func(r rows.Row) {
			if n += r.Int(1); n > s.bounds.MaxArrivals && from == 0 {
				from = r.Int(0) + 60_000_000
			}
		}, `SELECT at / 60000000 * 60000000, CAST(SUM(n) AS BIGINT) FROM arrivals GROUP BY 1 ORDER BY 1 DESC`)
	})
	if err != nil || from == 0 {
		return err
	}
	return s.deleteAll(ctx, old{rows.ArrivalsTable.DeleteStatement("at < $1 LIMIT $2"), []any{from}})
}
