package analytics

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// reader reads rows for one question, from one state of them.
type reader struct {
	*ask
	*statements
	scope
	opt  *Options
	hint string // Dialect.ByClient
	// uncounted is what waits, nil for nothing.
	uncounted *Uncounted
}

func (r *reader) loadLimits() {
	r.byID, r.seen = map[int64]Limit{}, map[int64]span{}
	r.query(func(row Row) {
		id := row.Int(0)
		r.byID[id] = Limit{Domain: row.Text(1), Rule: row.Text(2), Limit: row.Text(3), Algorithm: row.Text(4),
			Allowance: row.Int(5), PeriodMS: row.Int(6), Burst: row.Int(7)}
		r.seen[id] = span{row.Int(8), row.Int(9)}
	}, `SELECT id, domain, rule, name, algorithm, allowance, period_ms, burst, first, last FROM limits ORDER BY id`)
	r.scope.choose(r.ask)
	if r.mode != "" {
		r.chooseMode()
	}
}

// only returns a reader of some limits.
func (r *reader) only(limits []int64) *reader {
	one := *r
	one.chosen, one.all = limits, false
	return &one
}

// ofAllClients returns a reader that filters by nothing that clients have.
func (r *reader) ofAllClients() *reader {
	all, one := *r.ask, *r
	all.keys, all.tiers, all.paths, all.agents = nil, nil, nil, nil
	one.ask = &all
	return &one
}

// chooseMode leaves the limits that were in shadow mode in the range, or the
// others.
func (r *reader) chooseMode() {
	shadow := map[int64]bool{}
	r.query(func(row Row) { shadow[row.Int(0)] = true },
		`SELECT DISTINCT limit_id FROM rollups WHERE grain = $1 AND at >= $2 AND at < $3 AND outcome = 'shadow_refused'`,
		int64(r.grain), r.from, r.to)
	r.all = false
	r.chosen = slices.DeleteFunc(r.chosen, func(id int64) bool { return shadow[id] != (r.mode == "shadow") })
}

// clientsOf are the rows of the clients that are meant.
func (r *reader) clientsOf(g Grain, from, to int64) *where {
	w := rowsOf(g, from, to)
	r.limitsOf(w, "limit_id")
	if r.keys != nil {
		w.in("client", r.keys, false)
		w.and(anyLimit)
	}
	w.in("tier", r.tiers, false)
	w.in("path", r.paths, true)
	w.in("agent", r.agents, false)
	return w
}

// sketchRows calls each with the sketches of the range, packed, with the limit.
func (r *reader) sketchRows(from, to int64, kinds []string, each func(at, limit int64, kind string, packed []byte) error) {
	for _, p := range divide(from, to, r.grain, Day) {
		w := rowsOf(p.grain, p.from, p.to)
		r.limitsOf(w, "limit_id")
		w.in("kind", kinds, false)
		r.queryErr(func(row Row) error { return each(row.Int(0), row.Int(1), row.Text(2), row.Bytes(3)) },
			`SELECT at, limit_id, kind, bits FROM sketches`+w.text, w.args...)
	}
}

// keysBy returns the keys in a range, by what of says of their limits. A key under two
// limits of which it says the same is one.
func keysBy[K comparable](r *reader, from, to int64, kinds []string, of func(limit int64) K) map[K]*keys {
	by := map[K]*keys{}
	r.sketchRows(from, to, kinds, func(_, limit int64, kind string, packed []byte) error {
		return entry(by, of(limit), newKeys).merge(kind, packed)
	})
	return by
}

// keysOfAll returns the keys of all limits that are meant.
func (r *reader) keysOfAll(from, to int64, kinds []string) *keys {
	by := keysBy(r, from, to, kinds, func(int64) bool { return true })
	return cmp.Or(by[true], newKeys())
}

// coverage returns what the answer is of.
func (r *reader) coverage() Coverage {
	c := Coverage{
		From: time.Unix(r.from, 0).UTC(), To: time.Unix(r.to, 0).UTC(), Grain: r.grain.String(), StepS: r.step,
		Basis: "rollups", Missing: r.missing,
	}
	if r.ofClients() {
		c.Basis = "records"
	}
	r.sketchRows(r.from, r.to, []string{sketchSampled}, func(_, _ int64, _ string, packed []byte) error {
		c.Every = max(c.Every, everyOf(packed))
		return nil
	})
	c.Loss = readLoss(r)
	c.addMerged(r)
	if r.uncounted != nil && r.uncounted.Since.Before(c.To) {
		c.Uncounted = r.uncounted
	}
	return c
}

// readLoss returns what was lost in the range.
func readLoss(r *reader) (l Loss) {
	// Sources tell what they have lost since they started.
	for _, edge := range []struct {
		until, sign int64
	}{{r.to, 1}, {r.from, -1}} {
		r.query(func(row Row) {
			l.Dropped += edge.sign * row.Int(0)
			l.Discarded += edge.sign * row.Int(1)
			l.Rollups += edge.sign * row.Int(2)
			l.Failed += edge.sign * row.Int(3)
		}, `SELECT MAX(dropped), MAX(discarded), MAX(rollups), MAX(failed) FROM losses WHERE at < $1 GROUP BY source_id`, edge.until)
	}
	r.query(func(row Row) { l.Late = row.Int(0) },
		`SELECT CAST(SUM(n) AS BIGINT) FROM late WHERE at >= $1 AND at < $2`, r.from, r.to)
	return l
}

// addMerged notes how many rows of clients were merged.
func (c *Coverage) addMerged(r *reader) {
	w := mergedClients(r)
	r.query(func(row Row) {
		l := r.byID[row.Int(0)]
		if n := row.Int(1); n > 0 && len(c.Missing) < maxMissing {
			c.Missing = append(c.Missing, fmt.Sprintf("rule %s/%s, limit %s: %d rows of clients are merged into one", l.Domain, l.Rule, l.Limit, n))
		}
	}, `SELECT limit_id, CAST(SUM(merged) AS BIGINT) FROM clients `+r.hint+w.text+` GROUP BY limit_id ORDER BY limit_id`, w.args...)
}

// mergedClients are the rows of clients that were merged.
func mergedClients(r *reader) *where {
	w := &where{}
	w.and("grain = ? AND client = '' AND "+anyLimit+" AND at >= ? AND at < ?", int64(r.clientGrain()), r.from, r.to)
	r.limitsOf(w, "limit_id")
	return w
}

// maxMissing is how many sentences there are at most of what is missing.
const maxMissing = 20

// anyLimit is true of all rows of clients. PostgreSQL needs it to see that the index by
// client fits a statement about some clients best, as long as it has no statistics of the
// table: without it, such a statement reads the index of all rows of the range.
const anyLimit = "limit_id > 0"

// byClient is the hint for statements about a few clients.
func (r *reader) byClient() string {
	if r.keys == nil {
		return ""
	}
	return " " + r.hint
}

// since returns since when clients are kept, the zero time if none are.
func (r *reader) since() (since time.Time) {
	r.query(func(row Row) {
		if at := row.Int(0); at > 0 {
			since = time.Unix(at, 0).UTC()
		}
	}, `SELECT MIN(at) FROM clients WHERE grain = 2`)
	return since
}

// whereOf is the rows of a part of the range that are kept by limit, node and region.
func (r *reader) whereOf(p part) *where {
	w := rowsOf(p.grain, p.from, p.to)
	r.limitsOf(w, "limit_id")
	w.in("node", r.nodes, false)
	w.in("region", r.regions, false)
	return w
}

// packedRows calls each with the rows of a part of the range of a table of packed figures.
func (r *reader) packedRows(t table, p part, each func(at int64, packed []byte) error) {
	w := r.whereOf(p)
	r.queryErr(func(row Row) error { return each(row.Int(0), row.Bytes(1)) }, `SELECT at, bits FROM `+t.name+w.text, w.args...)
}
