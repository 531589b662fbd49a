package query

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// CountRow is how often a limit was met in a time.
type CountRow struct {
	At, Limit int64
	// Where is the node or the region, if it is asked for by one of them.
	Where   string
	Outcome string
	N       int64
}

// EachCount calls each with the counts of the range, in steps of so many seconds,
// by a column of what is counted, node or region, unless that is empty. Basis says what they are made of.
func (r *Reader) EachCount(step int64, by string, each func(CountRow)) {
	if r.IsOfClients() {
		r.eachClientCount(step, each)
		return
	}
	w := r.WhereOrigins(r.WholeRange())
	w.addChoice("outcome", r.Outcomes, false)
	where, group := "''", ""
	if by != "" {
		where, group = by, ", "+by
	}
	t := r.stepColumn(step)
	r.ReadRows(func(row rows.Row) {
		each(CountRow{row.Int(0), row.Int(1), row.Text(2), row.Text(3), row.Int(4)})
	}, `SELECT `+t+` AS t, limit_id, `+where+`, outcome, CAST(SUM(n) AS BIGINT) FROM rollups`+w.Text+
		` GROUP BY `+t+`, limit_id, outcome`+group+` ORDER BY t, limit_id, outcome`+group, w.Args...)
}

// stepColumn returns the step of a row for a statement, of steps of so many seconds.
func (a *Ask) stepColumn(seconds int64) string {
	return "at - (at - " + strconv.FormatInt(a.From, 10) + ") % " + strconv.FormatInt(seconds, 10)
}

// eachClientCount is counts of some clients.
func (r *Reader) eachClientCount(step int64, each func(CountRow)) {
	counts := map[LimitStep]*[rows.Other]int64{}
	need := rows.ClientColumns{Merged: true}
	for c := range rows.Other {
		need.Cells = append(need.Cells, c)
	}
	r.EachClientRow(r.From, r.To, need, func(l *rows.ClientLine) {
		at := LimitStep{l.Limit, l.At - (l.At-r.From)%step}
		n := rows.EnsureZero(counts, at)
		for c := range n {
			n[c] += l.N[c]
		}
	})
	for _, at := range slices.SortedFunc(maps.Keys(counts), func(a, b LimitStep) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Limit, b.Limit))
	}) {
		for outcome, cell := range rows.OutcomeCells {
			if n := counts[at][cell]; n != 0 && isOneOf(r.Outcomes, outcome) {
				each(CountRow{At: at.At, Limit: at.Limit, Outcome: outcome, N: n})
			}
		}
	}
}

// IsMark are outcomes that are counted beside another of the same decision.
func IsMark(outcome string) bool { return outcome == "estimated" || outcome == "degraded" }

// LimitStep is a limit in a minute or an hour, busiest what its clients did at most in it.
type LimitStep struct{ Limit, At int64 }

// EachRequests calls each with the requests of the range, by the step and what became of
// them.
func (r *Reader) EachRequests(step int64, each func(at int64, outcome string, n int64)) {
	w := whereRange(r.Grain, r.From, r.To)
	w.addChoice("domain", r.domains, false)
	w.addChoice("node", r.Nodes, false)
	w.addChoice("region", r.Regions, false)
	t := r.stepColumn(step)
	r.ReadRows(func(row rows.Row) { each(row.Int(0), row.Text(1), row.Int(2)) },
		`SELECT `+t+` AS t, outcome, CAST(SUM(n) AS BIGINT) FROM requests`+w.Text+` GROUP BY `+t+`, outcome ORDER BY t, outcome`, w.Args...)
}
