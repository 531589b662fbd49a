package analytics

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/weirlimit/weir/internal/insight/event"
)

// Rows are written in one order everywhere, so that transactions that write the
// same ones wait for each other and do not lock each other up: sources, what was
// seen, limits, counts, requests, latencies, answers, sketches, blocks of clients, clients, words, arrivals, losses; each by its
// primary key.

// sums are what became of the events of one source.
type sums struct {
	first, last, highest int64 // seconds since the Unix epoch; number of an event
	region               string
	events, late         int64
}

// tally is what a transaction did.
type tally struct{ events, duplicates, late int64 }

// count counts the events that were not counted before.
func count(tx Tx, batch []event.Event, k kept, maxClients int) (t tally, err error) {
	now := k.until - int64(maxAhead.Seconds())
	bySource := map[string]*sums{}
	for i := range batch {
		e := &batch[i]
		s := bySource[e.Source]
		if s == nil {
			s = &sums{first: e.Time.Unix(), region: text(e.Region)}
			bySource[e.Source] = s
		}
		s.first, s.last = min(s.first, e.Time.Unix()), max(s.last, e.Time.Unix())
		s.highest = max(s.highest, int64(min(e.Sequence, 1<<62)))
	}
	names := slices.Sorted(maps.Keys(bySource))
	sources, err := writeSources(tx, names, bySource)
	if err != nil {
		return t, err
	}
	fresh, err := unseen(tx, batch, sources, now)
	if err != nil {
		return t, err
	}
	t.duplicates = int64(len(batch) - len(fresh))
	c := newChange(k)
	for _, e := range fresh {
		s := bySource[e.Source]
		if t.events++; c.add(e) {
			s.events++
		} else {
			s.late++
		}
	}
	t.late = c.late
	c.finish(2*maxClients, maxClients)
	if err := c.write(tx, sources); err != nil {
		return t, err
	}
	if c.late > 0 {
		err := exec(tx, `INSERT INTO late (at, n) VALUES ($1, $2) ON CONFLICT (at) DO UPDATE SET n = late.n + excluded.n`, floor(now, 60), c.late)
		if err != nil {
			return t, fmt.Errorf("late events: %w", err)
		}
	}
	var args [][]any
	for _, name := range names {
		s := bySource[name]
		args = append(args, []any{s.events, s.late, sources[name]})
	}
	return t, tx.Each(`UPDATE sources SET events = events + $1, late = late + $2 WHERE id = $3`, args, nil)
}

// writeSources notes sources and returns their numbers. Until the transaction ends
// no other counts events of theirs.
func writeSources(tx Tx, names []string, all map[string]*sums) (map[string]int64, error) {
	args := make([][]any, len(names))
	for i, name := range names {
		s := all[name]
		args[i] = []any{keyText(name), s.first, s.last, s.highest, s.region}
	}
	ids := make(map[string]int64, len(names))
	err := tx.Each(`INSERT INTO sources (source, first, last, highest, region, events, late) VALUES ($1, $2, $3, $4, $5, 0, 0)
		ON CONFLICT (source) DO UPDATE SET
			first = CASE WHEN excluded.first < sources.first THEN excluded.first ELSE sources.first END,
			last = CASE WHEN excluded.last > sources.last THEN excluded.last ELSE sources.last END,
			highest = CASE WHEN excluded.highest > sources.highest THEN excluded.highest ELSE sources.highest END,
			region = CASE WHEN excluded.region <> '' THEN excluded.region ELSE sources.region END
		RETURNING id`, args, func(i int, r Row) error {
		ids[names[i]] = r.Int(0)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sources: %w", err)
	}
	return ids, nil
}

// write writes all rows.
func (c *change) write(tx Tx, sources map[string]int64) error {
	ids, err := c.writeLimits(tx)
	if err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	for _, step := range []struct {
		name  string
		write func() error
	}{
		{"counts", func() error { return c.writeRollups(tx, ids) }},
		{"requests", func() error { return c.writeRequests(tx) }},
		{"latencies", func() error { return writePlaced(tx, "latencies", c.latencies, ids) }},
		{"answers", func() error { return writePlaced(tx, "answered", c.answered, ids) }},
		{"sketches", func() error { return c.writeSketches(tx, ids) }},
		{"clients", func() error { return c.writeClients(tx, ids) }},
		{"words", func() error { return c.writeWords(tx, ids) }},
		{"arrivals", func() error { return c.writeArrivals(tx, ids) }},
		{"losses", func() error { return c.writeLosses(tx, sources) }},
	} {
		if err := step.write(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// limitIDs are the numbers of limits.
type limitIDs map[Limit]int64

func (c *change) writeLimits(tx Tx) (limitIDs, error) {
	all := slices.SortedFunc(maps.Keys(c.limits), compareLimits)
	args := make([][]any, len(all))
	for i, l := range all {
		s := c.limits[l]
		args[i] = []any{l.Domain, l.Rule, l.Limit, l.Algorithm, l.Allowance, l.PeriodMS, l.Burst, s.first, s.last}
	}
	ids := make(limitIDs, len(all))
	err := tx.Each(`INSERT INTO limits (domain, rule, name, algorithm, allowance, period_ms, burst, first, last)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (domain, rule, name, algorithm, allowance, period_ms, burst) DO UPDATE SET
			first = CASE WHEN excluded.first < limits.first THEN excluded.first ELSE limits.first END,
			last = CASE WHEN excluded.last > limits.last THEN excluded.last ELSE limits.last END
		RETURNING id`, args, func(i int, r Row) error {
		ids[all[i]] = r.Int(0)
		return nil
	})
	return ids, err
}

func compareLimits(a, b Limit) int {
	return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Algorithm, b.Algorithm),
		cmp.Compare(a.Allowance, b.Allowance), cmp.Compare(a.PeriodMS, b.PeriodMS), cmp.Compare(a.Burst, b.Burst))
}

func (c *change) writeRollups(tx Tx, ids limitIDs) error {
	rows := slices.SortedFunc(maps.Keys(c.rollups), func(a, b rollupRow) int {
		return cmp.Or(cmp.Compare(a.grain, b.grain), cmp.Compare(a.at, b.at), cmp.Compare(ids[a.limit], ids[b.limit]),
			cmp.Compare(a.where.node, b.where.node), cmp.Compare(a.where.region, b.where.region), cmp.Compare(a.outcome, b.outcome))
	})
	args := make([][]any, len(rows))
	for i, r := range rows {
		args[i] = []any{int64(r.grain), r.at, ids[r.limit], r.where.node, r.where.region, r.outcome, c.rollups[r]}
	}
	return tx.Each(`INSERT INTO rollups (grain, at, limit_id, node, region, outcome, n) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (grain, at, limit_id, node, region, outcome) DO UPDATE SET n = rollups.n + excluded.n`, args, nil)
}

func (c *change) writeSketches(tx Tx, ids limitIDs) error {
	rows := slices.SortedFunc(maps.Keys(c.sketches), func(a, b sketchRow) int {
		return cmp.Or(cmp.Compare(a.grain, b.grain), cmp.Compare(a.at, b.at), cmp.Compare(ids[a.limit], ids[b.limit]), cmp.Compare(a.kind, b.kind))
	})
	args := make([][]any, len(rows))
	for i, r := range rows {
		args[i] = []any{int64(r.grain), r.at, ids[r.limit], r.kind, []byte{}}
	}
	// What is there is locked and read in one statement.
	err := tx.Each(`INSERT INTO sketches (grain, at, limit_id, kind, bits) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (grain, at, limit_id, kind) DO UPDATE SET bits = sketches.bits RETURNING bits`, args, func(i int, r Row) error {
		return c.sketches[rows[i]].merge(r.Bytes(0))
	})
	if err != nil {
		return err
	}
	for i, r := range rows {
		packed, err := c.sketches[r].pack()
		if err != nil {
			return err
		}
		args[i] = []any{packed, int64(r.grain), r.at, ids[r.limit], r.kind}
	}
	return tx.Each(`UPDATE sketches SET bits = $1 WHERE grain = $2 AND at = $3 AND limit_id = $4 AND kind = $5`, args, nil)
}

// writeClients writes the rows by minute first: what they come to is the busiest
// minute of those by hour.
func (c *change) writeClients(tx Tx, ids limitIDs) error {
	rows := slices.SortedFunc(maps.Keys(c.clients), func(a, b clientRow) int {
		return cmp.Or(cmp.Compare(a.grain, b.grain), cmp.Compare(a.at, b.at), cmp.Compare(ids[a.limit], ids[b.limit]), cmp.Compare(a.client, b.client))
	})
	if err := touchBlocks(tx, rows, ids); err != nil {
		return err
	}
	hours, _ := slices.BinarySearchFunc(rows, Hour, func(r clientRow, g Grain) int { return cmp.Compare(r.grain, g) })
	write := func(rows []clientRow, done func(row clientRow, units int64)) error {
		args := make([][]any, len(rows))
		for i, r := range rows {
			args[i] = c.clients[r].args(append(make([]any, 0, 4+numCells+numWords), int64(r.grain), r.at, ids[r.limit], r.client))
		}
		return tx.Each(upsertClient, args, func(i int, r Row) error {
			done(rows[i], r.Int(0))
			return nil
		})
	}
	err := write(rows[:hours], func(r clientRow, units int64) {
		if r.client == "" {
			return
		}
		if hour := c.clients[clientRow{Hour, floor(r.at, 3600), r.limit, r.client}]; hour != nil {
			hour.n[cPeakMinute] = max(hour.n[cPeakMinute], units)
		}
	})
	if err != nil {
		return err
	}
	return write(rows[hours:], func(clientRow, int64) {})
}

// touchBlocks notes that rows change, which are in order of grains, times and limits.
func touchBlocks(tx Tx, rows []clientRow, ids limitIDs) error {
	type blockRow struct{ grain, at, limit int64 }
	blocks := map[blockRow]bool{}
	for _, r := range rows {
		blocks[blockRow{int64(r.grain), floor(r.at, blockSeconds(r.grain)), ids[r.limit]}] = true
	}
	var args [][]any
	for _, b := range slices.SortedFunc(maps.Keys(blocks), func(a, b blockRow) int {
		return cmp.Or(cmp.Compare(a.grain, b.grain), cmp.Compare(a.at, b.at), cmp.Compare(a.limit, b.limit))
	}) {
		args = append(args, []any{b.grain, b.at, b.limit})
	}
	return tx.Each(touchBlock, args, nil)
}

func (c *change) writeWords(tx Tx, ids limitIDs) error {
	rows := slices.SortedFunc(maps.Keys(c.words), func(a, b wordRow) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(ids[a.limit], ids[b.limit]), cmp.Compare(a.kind, b.kind), cmp.Compare(a.word, b.word))
	})
	args := make([][]any, len(rows))
	for i, r := range rows {
		n := c.words[r]
		args[i] = []any{r.at, ids[r.limit], r.kind, r.word, n[0], n[1], n[2], n[3]}
	}
	return tx.Each(`INSERT INTO words (at, limit_id, kind, word, allowed, refused, shadow, delayed) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (at, limit_id, kind, word) DO UPDATE SET allowed = words.allowed + excluded.allowed,
			refused = words.refused + excluded.refused, shadow = words.shadow + excluded.shadow, delayed = words.delayed + excluded.delayed`, args, nil)
}

func (c *change) writeArrivals(tx Tx, ids limitIDs) error {
	args := make([][]any, len(c.arrivals))
	for i, a := range c.arrivals {
		args[i] = []any{a.at, ids[a.limit], a.client, a.outcome, a.every, a.cut, a.n, a.data}
	}
	return tx.Each(`INSERT INTO arrivals (at, limit_id, client, outcome, every, cut, n, data) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, args, nil)
}

func (c *change) writeLosses(tx Tx, sources map[string]int64) error {
	rows := slices.SortedFunc(maps.Keys(c.losses), func(a, b lossRow) int {
		return cmp.Or(cmp.Compare(sources[a.source], sources[b.source]), cmp.Compare(a.at, b.at))
	})
	args := make([][]any, len(rows))
	for i, r := range rows {
		l := c.losses[r]
		args[i] = []any{sources[r.source], r.at, figure(l.Dropped), figure(l.Discarded), figure(l.Rollups), figure(l.Failed)}
	}
	return tx.Each(`INSERT INTO losses (source_id, at, dropped, discarded, rollups, failed) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (source_id, at) DO UPDATE SET
			dropped = CASE WHEN excluded.dropped > losses.dropped THEN excluded.dropped ELSE losses.dropped END,
			discarded = CASE WHEN excluded.discarded > losses.discarded THEN excluded.discarded ELSE losses.discarded END,
			rollups = CASE WHEN excluded.rollups > losses.rollups THEN excluded.rollups ELSE losses.rollups END,
			failed = CASE WHEN excluded.failed > losses.failed THEN excluded.failed ELSE losses.failed END`, args, nil)
}
