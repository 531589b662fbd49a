package analytics

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

// reader reads rows for one question, from one state of them.
type reader struct {
	*ask
	scope
	tx   Tx
	opt  *Options
	hint string // Dialect.ByClient
}

func (r *reader) loadLimits() error {
	r.byID, r.seen = map[int64]Limit{}, map[int64]span{}
	err := query(r.tx, func(row Row) {
		id := row.Int(0)
		r.byID[id] = Limit{Domain: row.Text(1), Rule: row.Text(2), Limit: row.Text(3), Algorithm: row.Text(4),
			Allowance: row.Int(5), PeriodMS: row.Int(6), Burst: row.Int(7)}
		r.seen[id] = span{row.Int(8), row.Int(9)}
	}, `SELECT id, domain, rule, name, algorithm, allowance, period_ms, burst, first, last FROM limits ORDER BY id`)
	if err != nil {
		return err
	}
	r.scope.choose(r.ask)
	if r.mode == "" {
		return nil
	}
	return r.chooseMode()
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
func (r *reader) chooseMode() error {
	shadow := map[int64]bool{}
	err := query(r.tx, func(row Row) { shadow[row.Int(0)] = true },
		`SELECT DISTINCT limit_id FROM rollups WHERE grain = $1 AND at >= $2 AND at < $3 AND outcome = 'shadow_refused'`,
		int64(r.grain), r.from, r.to)
	if err != nil {
		return err
	}
	r.all = false
	r.chosen = slices.DeleteFunc(r.chosen, func(id int64) bool { return shadow[id] != (r.mode == "shadow") })
	return nil
}

// oneOf reports whether a word is one of those that are asked for.
func oneOf[T comparable](list []T, word T) bool { return list == nil || slices.Contains(list, word) }

// clientsOf adds that a row of a client is one that is meant.
func (r *reader) clientsOf(w *where, g Grain, from, to int64) {
	w.and("grain = ? AND at >= ? AND at < ?", int64(g), from, to)
	r.limitsOf(w, "limit_id")
	if r.keys != nil {
		w.in("client", r.keys, false)
		w.and(anyLimit)
	}
	w.in("tier", r.tiers, false)
	w.in("path", r.paths, true)
	w.in("agent", r.agents, false)
}

// countRow is how often a limit was met in a time.
type countRow struct {
	at, limit int64
	// where is the node or the region, if it is asked for by one of them.
	where, outcome string
	n              int64
}

// counts calls each with the counts of the range, in steps of so many seconds,
// by a column of what is counted, node or region, unless that is empty. Basis says what they are made of.
func (r *reader) counts(step int64, by string, each func(countRow)) error {
	if r.ofClients() {
		return r.clientCounts(step, each)
	}
	w := rowsOf(r.grain, r.from, r.to)
	r.limitsOf(w, "limit_id")
	w.in("node", r.nodes, false)
	w.in("region", r.regions, false)
	w.in("outcome", r.outcomes, false)
	where, group := "''", ""
	if by != "" {
		where, group = by, ", "+by
	}
	t := "at - (at - " + strconv.FormatInt(r.from, 10) + ") % " + strconv.FormatInt(step, 10)
	return query(r.tx, func(row Row) {
		each(countRow{row.Int(0), row.Int(1), row.Text(2), row.Text(3), row.Int(4)})
	}, `SELECT `+t+` AS t, limit_id, `+where+`, outcome, CAST(SUM(n) AS BIGINT) FROM rollups`+w.text+
		` GROUP BY `+t+`, limit_id, outcome`+group+` ORDER BY t, limit_id, outcome`+group, w.args...)
}

// clientCounts is counts of some clients.
func (r *reader) clientCounts(step int64, each func(countRow)) error {
	counts := map[limitStep]*[cOther]int64{}
	need := clientColumns{merged: true}
	for c := range cOther {
		need.cells = append(need.cells, c)
	}
	err := r.clientRows(r.grain, r.from, r.to, need, func(l *clientLine) {
		at := limitStep{l.limit, l.at - (l.at-r.from)%step}
		n := of(counts, at)
		for c := range n {
			n[c] += l.n[c]
		}
	})
	for _, at := range slices.SortedFunc(maps.Keys(counts), func(a, b limitStep) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.limit, b.limit))
	}) {
		for outcome, cell := range outcomeCells {
			if n := counts[at][cell]; n != 0 && oneOf(r.outcomes, outcome) {
				each(countRow{at: at.at, limit: at.limit, outcome: outcome, n: n})
			}
		}
	}
	return err
}

// isMark are outcomes that are counted beside another of the same decision.
func isMark(outcome string) bool { return outcome == "estimated" || outcome == "degraded" }

// add counts decisions.
func (t *Totals) add(outcome string, n int64) {
	if t.Counts == nil {
		t.Counts = map[string]int64{}
	}
	t.Counts[outcome] += n
	if !isMark(outcome) {
		t.Decisions += n
	}
	t.RefusedShare = ratio(t.Counts["refused"], t.Decisions)
	t.DelayedShare = ratio(t.Counts["delayed"], t.Decisions)
	t.ShadowShare = ratio(t.Counts["shadow_refused"], t.Decisions)
}

// limited is how many decisions limited somebody, or would have.
func (t *Totals) limited() int64 {
	return t.Counts["refused"] + t.Counts["delayed"] + t.Counts["shadow_refused"]
}

// compareRefused orders by what was refused, then what was delayed, then what would have
// been refused, then by all; the most first.
func compareRefused(a, b *Totals) int {
	return cmp.Or(cmp.Compare(b.Counts["refused"], a.Counts["refused"]), cmp.Compare(b.Counts["delayed"], a.Counts["delayed"]),
		cmp.Compare(b.Counts["shadow_refused"], a.Counts["shadow_refused"]), cmp.Compare(b.Decisions, a.Decisions))
}

// totals returns the decisions of a client.
func (c *cells) totals() Totals {
	t := Totals{Counts: map[string]int64{}}
	for outcome, cell := range outcomeCells {
		if c.n[cell] != 0 {
			t.add(outcome, c.n[cell])
		}
	}
	return t
}

func ratio(a, b int64) float64 {
	if b <= 0 {
		return 0
	}
	return math.Round(float64(a)/float64(b)*1e6) / 1e6
}

// sketchRows calls each with the sketches of the range, packed, with the limit.
func (r *reader) sketchRows(from, to int64, kinds []string, each func(at, limit int64, kind string, packed []byte) error) error {
	for _, p := range divide(from, to, r.grain, Day) {
		w := rowsOf(p.grain, p.from, p.to)
		r.limitsOf(w, "limit_id")
		w.in("kind", kinds, false)
		err := queryErr(r.tx, func(row Row) error { return each(row.Int(0), row.Int(1), row.Text(2), row.Bytes(3)) },
			`SELECT at, limit_id, kind, bits FROM sketches`+w.text, w.args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// keysBy returns the keys in a range, by what of says of their limits. A key under two
// limits of which it says the same is one.
func keysBy[K comparable](r *reader, from, to int64, kinds []string, of func(limit int64) K) (map[K]*keys, error) {
	by := map[K]*keys{}
	return by, r.sketchRows(from, to, kinds, func(_, limit int64, kind string, packed []byte) error {
		return entry(by, of(limit), newKeys).merge(kind, packed)
	})
}

// keysOfAll returns the keys of all limits that are meant.
func (r *reader) keysOfAll(from, to int64, kinds []string) (*keys, error) {
	by, err := keysBy(r, from, to, kinds, func(int64) bool { return true })
	return cmp.Or(by[true], newKeys()), err
}

// coverage returns what the answer is of.
func (r *reader) coverage() (Coverage, error) {
	c := Coverage{
		From: time.Unix(r.from, 0).UTC(), To: time.Unix(r.to, 0).UTC(), Grain: r.grain.String(), StepS: r.step,
		Basis: "rollups", Missing: r.missing,
	}
	if r.ofClients() {
		c.Basis = "records"
	}
	err := r.sketchRows(r.from, r.to, []string{sketchSampled}, func(_, _ int64, _ string, packed []byte) error {
		c.Every = max(c.Every, everyOf(packed))
		return nil
	})
	if err != nil {
		return c, err
	}
	if c.Loss, err = readLoss(r); err != nil {
		return c, err
	}
	return c, c.addMerged(r)
}

// readLoss returns what was lost in the range.
func readLoss(r *reader) (l Loss, err error) {
	// Sources tell what they have lost since they started.
	for _, edge := range []struct {
		until, sign int64
	}{{r.to, 1}, {r.from, -1}} {
		err := query(r.tx, func(row Row) {
			l.Dropped += edge.sign * row.Int(0)
			l.Discarded += edge.sign * row.Int(1)
			l.Rollups += edge.sign * row.Int(2)
			l.Failed += edge.sign * row.Int(3)
		}, `SELECT MAX(dropped), MAX(discarded), MAX(rollups), MAX(failed) FROM losses WHERE at < $1 GROUP BY source_id`, edge.until)
		if err != nil {
			return l, err
		}
	}
	err = query(r.tx, func(row Row) { l.Late = row.Int(0) },
		`SELECT CAST(SUM(n) AS BIGINT) FROM late WHERE at >= $1 AND at < $2`, r.from, r.to)
	return l, err
}

// addMerged notes how many rows of clients were merged.
func (c *Coverage) addMerged(r *reader) error {
	w := &where{}
	w.and("grain = ? AND client = '' AND "+anyLimit+" AND at >= ? AND at < ?", int64(min(r.grain, Hour)), r.from, r.to)
	r.limitsOf(w, "limit_id")
	return query(r.tx, func(row Row) {
		l := r.byID[row.Int(0)]
		if n := row.Int(1); n > 0 && len(c.Missing) < maxMissing {
			c.Missing = append(c.Missing, fmt.Sprintf("rule %s/%s, limit %s: %d rows of clients are merged into one", l.Domain, l.Rule, l.Limit, n))
		}
	}, `SELECT limit_id, CAST(SUM(merged) AS BIGINT) FROM clients `+r.hint+w.text+` GROUP BY limit_id ORDER BY limit_id`, w.args...)
}

// maxMissing is how many sentences there are at most of what is missing.
const maxMissing = 20
