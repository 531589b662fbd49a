package analytics

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weirlimit/weir/internal/insight/event"
)

// Rows are written in one order everywhere, so that transactions that write the
// same ones wait for each other and do not lock each other up: sources, what was
// seen, limits, counts, requests, latencies, answers, sketches, clients,
// words, arrivals, losses; each by its primary key.

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
		s := entry(bySource, e.Source, func() *sums { return &sums{first: e.Time.Unix(), region: text(e.Region)} })
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
		if err := tx.Each(lateTable.upsert("", column{"n", sum}), [][]any{{floor(now, 60), c.late}}, nil); err != nil {
			return t, failedAt(lateTable, err)
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
		args[i] = []any{keyText(name), s.first, s.last, s.highest, s.region, int64(0), int64(0)}
	}
	return writeNumbered(tx, sourcesTable, names, args, column{"first", least}, column{"last", most}, column{"highest", most},
		column{"region", nonEmpty}, column{"events", sum}, column{"late", sum})
}

// writeNumbered puts rows into those of a table that are there, and returns the numbers that
// the database gave them.
func writeNumbered[K comparable](tx Tx, t table, keys []K, args [][]any, columns ...column) (map[K]int64, error) {
	ids := make(map[K]int64, len(keys))
	err := tx.Each(t.upsert("id", columns...), args, func(i int, r Row) error { ids[keys[i]] = r.Int(0); return nil })
	return ids, failedAt(t, err)
}

// write writes all rows.
func (c *change) write(tx Tx, sources map[string]int64) error {
	limits, err := c.writeLimits(tx)
	if err != nil {
		return err
	}
	n := &numbers{limits, sources}
	count := func(n int64) []any { return []any{n} }
	counts := func(n *[4]int64) []any { return []any{n[0], n[1], n[2], n[3]} }
	for _, write := range []func() error{
		func() error { return writeRows(tx, rollupsTable, c.rollups, n, count, column{"n", sum}) },
		func() error { return writeRows(tx, requestsTable, c.requests, n, count, column{"n", sum}) },
		func() error { return writePacked(tx, latenciesTable, c.latencies, n) },
		func() error { return writePacked(tx, responsesTable, c.responses, n) },
		func() error { return writePacked(tx, sketchesTable, c.sketches, n) },
		func() error { return c.writeClients(tx, n) },
		func() error {
			return writeRows(tx, wordsTable, c.words, n, counts, columnsOf(sum, "allowed", "refused", "shadow", "delayed")...)
		},
		func() error { return c.writeArrivals(tx, limits) },
		func() error {
			return writeRows(tx, lossesTable, c.losses, n, counts, columnsOf(most, "dropped", "discarded", "rollups", "failed")...)
		},
	} {
		if err := write(); err != nil {
			return err
		}
	}
	return nil
}

func (c *change) writeLimits(tx Tx) (map[Limit]int64, error) {
	all := slices.SortedFunc(maps.Keys(c.limits), compareLimits)
	args := make([][]any, len(all))
	for i, l := range all {
		s := c.limits[l]
		args[i] = []any{l.Domain, l.Rule, l.Limit, l.Algorithm, l.Allowance, l.PeriodMS, l.Burst, s.first, s.last}
	}
	return writeNumbered(tx, limitsTable, all, args, column{"first", least}, column{"last", most})
}

// writeClients writes the rows by minute first: what they come to is the busiest
// minute of those by hour.
func (c *change) writeClients(tx Tx, n *numbers) error {
	keys, args := sortRows(c.clients, n)
	hours, _ := slices.BinarySearchFunc(keys, Hour, func(r clientRow, g Grain) int { return cmp.Compare(r.grain, g) })
	write := func(from, to int, done func(row clientRow, units int64)) error {
		for i := from; i < to; i++ {
			args[i] = c.clients[keys[i]].args(args[i])
		}
		return failedAt(clientsTable, tx.Each(upsertClient, args[from:to], func(i int, r Row) error {
			done(keys[from+i], r.Int(0))
			return nil
		}))
	}
	err := write(0, hours, func(r clientRow, units int64) {
		if hour := c.clients[clientRow{Hour, floor(r.at, 3600), r.limit, r.client}]; hour != nil && r.client != "" {
			hour.n[cPeakMinute] = max(hour.n[cPeakMinute], units)
		}
	})
	if err != nil {
		return err
	}
	return write(hours, len(keys), func(clientRow, int64) {})
}

func (c *change) writeArrivals(tx Tx, limits map[Limit]int64) error {
	args := make([][]any, len(c.arrivals))
	for i, a := range c.arrivals {
		args[i] = []any{a.at, limits[a.limit], a.client, a.outcome, a.every, a.cut, a.n, a.data}
	}
	return failedAt(arrivalsTable, tx.Each(`INSERT INTO arrivals (at, limit_id, client, outcome, every, cut, n, data) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, args, nil))
}
