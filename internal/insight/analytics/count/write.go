package count

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/event"
)

// sums are what became of the events of one source.
type sums struct {
	first, last, highest int64 // seconds since the Unix epoch; number of an event
	region               string
	events, late         int64
}

// Counted is what a transaction did.
type Counted struct{ Events, Duplicates, Late int64 }

// AddEvents counts the events that were not counted before.
func AddEvents(in *rows.Statements, batch []event.Event, k rows.Kept, maxClients int) (t Counted) {
	now := k.Until - int64(rows.MaxAhead.Seconds())
	bySource := map[string]*sums{}
	for i := range batch {
		e := &batch[i]
		s := rows.EnsureEntry(bySource, e.Source, func() *sums { return &sums{first: e.Time.Unix(), region: rows.CleanText(e.Region)} })
		s.first, s.last = min(s.first, e.Time.Unix()), max(s.last, e.Time.Unix())
		s.highest = max(s.highest, int64(min(e.Sequence, 1<<62)))
	}
	names := slices.Sorted(maps.Keys(bySource))
	sources := writeSources(in, names, bySource)
	fresh := findUnseen(in, batch, sources, now)
	t.Duplicates = int64(len(batch) - len(fresh))
	c := newChange(k)
	for _, e := range fresh {
		s := bySource[e.Source]
		if t.Events++; c.addEvent(e) {
			s.events++
		} else {
			s.late++
		}
	}
	t.Late = c.late
	c.finishRows(2*maxClients, maxClients)
	c.writeAll(in, sources)
	if c.late > 0 {
		in.WriteRows(rows.LateTable, rows.LateTable.UpsertStatement("", rows.Sum.Column("n")), [][]any{{rows.FloorTo(now, 60), c.late}}, nil)
	}
	var args [][]any
	for _, name := range names {
		s := bySource[name]
		args = append(args, []any{s.events, s.late, sources[name]})
	}
	in.WriteRows(rows.SourcesTable, `UPDATE sources SET events = events + $1, late = late + $2 WHERE id = $3`, args, nil)
	return t
}

// writeSources notes sources and returns their numbers. Until the transaction ends
// no other counts events of theirs.
func writeSources(in *rows.Statements, names []string, all map[string]*sums) map[string]int64 {
	args := make([][]any, len(names))
	for i, name := range names {
		s := all[name]
		args[i] = []any{rows.CleanKey(name), s.first, s.last, s.highest, s.region, int64(0), int64(0)}
	}
	return writeNumbered(in, rows.SourcesTable, names, args, rows.Smallest.Column("first"), rows.Greatest.Column("last"), rows.Greatest.Column("highest"),
		rows.NonEmpty.Column("region"), rows.Sum.Column("events"), rows.Sum.Column("late"))
}

// writeNumbered puts rows into those of a table that are there, and returns the numbers that
// the database gave them.
func writeNumbered[K comparable](in *rows.Statements, t rows.Table, keys []K, args [][]any, columns ...rows.Column) map[K]int64 {
	ids := make(map[K]int64, len(keys))
	in.WriteRows(t, t.UpsertStatement("id", columns...), args, func(i int, r rows.Row) error { ids[keys[i]] = r.Int(0); return nil })
	return ids
}

// writeAll writes all rows.
func (c *change) writeAll(in *rows.Statements, sources map[string]int64) {
	n := &numbers{c.writeLimits(in), sources}
	count := func(n int64) []any { return []any{n} }
	counts := func(n *[4]int64) []any { return []any{n[0], n[1], n[2], n[3]} }
	writeRows(in, rows.RollupsTable, c.rollups, n, count, rows.Sum.Column("n"))
	writeRows(in, rows.RequestsTable, c.requests, n, count, rows.Sum.Column("n"))
	writePacked(in, rows.LatenciesTable, c.latencies, n)
	writePacked(in, rows.ResponsesTable, c.responses, n)
	writePacked(in, rows.SketchesTable, c.sketches, n)
	c.writeClients(in, n)
	writeRows(in, rows.WordsTable, c.words, n, counts, rows.ColumnsOf(rows.Sum, "allowed", "refused", "shadow", "delayed")...)
	c.writeArrivals(in, n.limits)
	writeRows(in, rows.LossesTable, c.losses, n, counts, rows.ColumnsOf(rows.Greatest, "dropped", "discarded", "rollups", "failed")...)
}

func (c *change) writeLimits(in *rows.Statements) map[rows.Limit]int64 {
	all := slices.SortedFunc(maps.Keys(c.limits), rows.CompareLimits)
	args := make([][]any, len(all))
	for i, l := range all {
		s := c.limits[l]
		args[i] = []any{l.Domain, l.Rule, l.Limit, l.Algorithm, l.Allowance, l.PeriodMS, l.Burst, s.First, s.Last}
	}
	return writeNumbered(in, rows.LimitsTable, all, args, rows.Smallest.Column("first"), rows.Greatest.Column("last"))
}

// writeClients writes the rows by minute first: what they come to is the busiest
// minute of those by hour.
func (c *change) writeClients(in *rows.Statements, n *numbers) {
	keys, args := sortRows(c.clients, n)
	hours, _ := slices.BinarySearchFunc(keys, rows.Hour, func(r clientRow, g rows.Grain) int { return cmp.Compare(r.grain, g) })
	write := func(from, to int, done func(row clientRow, units int64)) {
		for i := from; i < to; i++ {
			args[i] = c.clients[keys[i]].AppendArgs(args[i])
		}
		in.WriteRows(rows.ClientsTable, rows.UpsertClient, args[from:to], func(i int, r rows.Row) error {
			done(keys[from+i], r.Int(0))
			return nil
		})
	}
	write(0, hours, func(r clientRow, units int64) {
		if hour := c.clients[clientRow{rows.Hour, rows.FloorTo(r.at, 3600), r.limit, r.client}]; hour != nil && r.client != "" {
			hour.N[rows.PeakMinute] = max(hour.N[rows.PeakMinute], units)
		}
	})
	write(hours, len(keys), func(clientRow, int64) {})
}

func (c *change) writeArrivals(in *rows.Statements, limits map[rows.Limit]int64) {
	args := make([][]any, len(c.arrivals))
	for i, a := range c.arrivals {
		args[i] = []any{a.at, limits[a.limit], a.client, a.outcome, a.every, a.cut, a.n, a.data}
	}
	in.WriteRows(rows.ArrivalsTable, `INSERT INTO arrivals (at, limit_id, client, outcome, every, cut, n, data) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, args, nil)
}
