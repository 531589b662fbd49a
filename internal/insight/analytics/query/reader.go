package query

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/limits"
)

// Reader reads rows for one question, from one state of them.
type Reader struct {
	*Ask
	*rows.Statements
	scope
	Bounds *rows.Bounds
	Hint   string // Dialect.ByClient
	// uncounted is what waits, nil for nothing.
	uncounted *Uncounted
}

// NewReader returns a reader for a question, from what a transaction sees. hint is the
// dialect's for one client; uncounted is what waits, nil for nothing.
func NewReader(a *Ask, in *rows.Statements, bounds *rows.Bounds, hint string, uncounted *Uncounted) *Reader {
	r := &Reader{Ask: a, Statements: in, Bounds: bounds, Hint: hint, uncounted: uncounted}
	r.loadLimits()
	return r
}

// loadLimits finds the limits that are meant.
func (r *Reader) loadLimits() {
	r.ByID, r.seen = map[int64]rows.Limit{}, map[int64]rows.Span{}
	r.ReadRows(func(row rows.Row) {
		id := row.Int(0)
		r.ByID[id] = rows.Limit{Name: limits.Name{Domain: row.Text(1), Rule: row.Text(2), Limit: row.Text(3)}, Algorithm: row.Text(4),
			Allowance: row.Int(5), PeriodMS: row.Int(6), Burst: row.Int(7)}
		r.seen[id] = rows.Span{First: row.Int(8), Last: row.Int(9)}
	}, `SELECT id, domain, rule, name, algorithm, allowance, period_ms, burst, first, last FROM limits ORDER BY id`)
	r.scope.filterLimits(r.Ask)
	if r.mode != "" {
		r.chooseMode()
	}
}

// NarrowTo returns a reader of some limits.
func (r *Reader) NarrowTo(limits []int64) *Reader {
	one := *r
	one.ChooseLimits(limits)
	return &one
}

// ChooseLimits leaves some limits.
func (r *Reader) ChooseLimits(limits []int64) { r.Chosen, r.all = limits, false }

// WithAllClients returns a reader that filters by nothing that clients have.
func (r *Reader) WithAllClients() *Reader {
	all, one := *r.Ask, *r
	all.Keys, all.tiers, all.paths, all.agents = nil, nil, nil, nil
	one.Ask = &all
	return &one
}

// chooseMode leaves the limits that were in shadow mode in the range, or the
// others.
func (r *Reader) chooseMode() {
	shadow := map[int64]bool{}
	r.ReadRows(func(row rows.Row) { shadow[row.Int(0)] = true },
		`SELECT DISTINCT limit_id FROM rollups WHERE grain = $1 AND at >= $2 AND at < $3 AND outcome = 'shadow_refused'`,
		int64(r.Grain), r.From, r.To)
	r.all = false
	r.Chosen = slices.DeleteFunc(r.Chosen, func(id int64) bool { return shadow[id] != (r.mode == "shadow") })
}

// WhereClients are the rows of the clients that are meant.
func (r *Reader) WhereClients(from, to int64) *Where {
	w := whereRange(r.ClientGrain(), from, to)
	r.AddLimits(w, "limit_id")
	if r.Keys != nil {
		w.addChoice("client", r.Keys, false)
		w.AddCondition(anyLimit)
	}
	w.addChoice("tier", r.tiers, false)
	w.addChoice("path", r.paths, true)
	w.addChoice("agent", r.agents, false)
	return w
}

// eachSketch calls each with the sketches of the range, packed, with the limit.
func (r *Reader) eachSketch(from, to int64, kinds []string, each func(at, limit int64, kind string, packed []byte) error) {
	for _, p := range DivideRange(from, to, r.Grain, rows.Day) {
		w := whereRange(p.grain, p.from, p.to)
		r.AddLimits(w, "limit_id")
		w.addChoice("kind", kinds, false)
		r.ReadRowsErr(func(row rows.Row) error { return each(row.Int(0), row.Int(1), row.Text(2), row.Bytes(3)) },
			`SELECT at, limit_id, kind, bits FROM sketches`+w.Text, w.Args...)
	}
}

// GroupKeys returns the keys in a range, by what of says of their limits. A key under two
// limits of which it says the same is one.
func GroupKeys[K comparable](r *Reader, from, to int64, kinds []string, of func(limit int64) K) map[K]*keys {
	by := map[K]*keys{}
	r.eachSketch(from, to, kinds, func(_, limit int64, kind string, packed []byte) error {
		return rows.EnsureEntry(by, of(limit), newKeys).mergeSketch(kind, packed)
	})
	return by
}

// ReadKeys returns the keys of all limits that are meant.
func (r *Reader) ReadKeys(from, to int64, kinds []string) *keys {
	by := GroupKeys(r, from, to, kinds, func(int64) bool { return true })
	return cmp.Or(by[true], newKeys())
}

// WhereMerged are the rows of clients that were merged.
func (r *Reader) WhereMerged() *Where {
	w := &Where{}
	w.AddCondition("grain = ? AND client = '' AND "+anyLimit+" AND at >= ? AND at < ?", int64(r.ClientGrain()), r.From, r.To)
	r.AddLimits(w, "limit_id")
	return w
}

// anyLimit is true of all rows of clients. PostgreSQL needs it to see that the index by
// client fits a statement about some clients best, as long as it has no statistics of the
// table: without it, such a statement reads the index of all rows of the range.
const anyLimit = "limit_id > 0"

// ClientHint is the hint for statements about a few clients.
func (r *Reader) ClientHint() string {
	if r.Keys == nil {
		return ""
	}
	return " " + r.Hint
}

// ReadSince returns since when clients are kept, the zero time if none are.
func (r *Reader) ReadSince() (since time.Time) {
	r.ReadRows(func(row rows.Row) {
		if at := row.Int(0); at > 0 {
			since = time.Unix(at, 0).UTC()
		}
	}, `SELECT MIN(at) FROM clients WHERE grain = 2`)
	return since
}

// WhereOrigins is the rows of a part of the range that are kept by limit, node and region.
func (r *Reader) WhereOrigins(p part) *Where {
	w := whereRange(p.grain, p.from, p.to)
	r.AddLimits(w, "limit_id")
	w.addChoice("node", r.Nodes, false)
	w.addChoice("region", r.Regions, false)
	return w
}

// EachPacked calls each with the rows of a part of the range of a table of packed figures.
func (r *Reader) EachPacked(t rows.Table, p part, each func(at int64, packed []byte) error) {
	w := r.WhereOrigins(p)
	r.ReadRowsErr(func(row rows.Row) error { return each(row.Int(0), row.Bytes(1)) }, `SELECT at, bits FROM `+t.Name+w.Text, w.Args...)
}
