package analytics

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

// countRow is how often a limit was met in a time.
type countRow struct {
	at, limit int64
	// where is the node or the region, if it is asked for by one of them.
	where, outcome string
	n              int64
}

// counts calls each with the counts of the range, in steps of so many seconds,
// by a column of what is counted, node or region, unless that is empty. Basis says what they are made of.
func (r *reader) counts(step int64, by string, each func(countRow)) {
	if r.ofClients() {
		r.clientCounts(step, each)
		return
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
	t := r.stepOf(step)
	r.query(func(row Row) {
		each(countRow{row.Int(0), row.Int(1), row.Text(2), row.Text(3), row.Int(4)})
	}, `SELECT `+t+` AS t, limit_id, `+where+`, outcome, CAST(SUM(n) AS BIGINT) FROM rollups`+w.text+
		` GROUP BY `+t+`, limit_id, outcome`+group+` ORDER BY t, limit_id, outcome`+group, w.args...)
}

// stepOf returns the step of a row for a statement, of steps of so many seconds.
func (a *ask) stepOf(seconds int64) string {
	return "at - (at - " + strconv.FormatInt(a.from, 10) + ") % " + strconv.FormatInt(seconds, 10)
}

// clientCounts is counts of some clients.
func (r *reader) clientCounts(step int64, each func(countRow)) {
	counts := map[limitStep]*[cOther]int64{}
	need := clientColumns{merged: true}
	for c := range cOther {
		need.cells = append(need.cells, c)
	}
	r.clientRows(r.grain, r.from, r.to, need, func(l *clientLine) {
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
