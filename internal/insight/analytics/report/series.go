package report

import (
	"cmp"
	"slices"

	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// lines gathers points by name.
type lines struct {
	a    *query.Ask
	by   map[string]*Line
	most int
}

func newLines(a *query.Ask, most int) *lines { return &lines{a: a, by: map[string]*Line{}, most: most} }

func (l *lines) addPoint(name string, at, n int64) {
	line := rows.EnsureEntry(l.by, name, func() *Line { return &Line{Name: name, Points: make([]int64, l.a.CountSteps())} })
	line.Points[l.a.FindStep(at)] += n
	line.Total += n
}

// listLines returns the lines, the largest first; beyond the most that there are to be,
// as one.
func (l *lines) listLines() []Line {
	out := make([]Line, 0, len(l.by))
	for _, line := range l.by {
		out = append(out, *line)
	}
	slices.SortFunc(out, func(a, b Line) int { return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name)) })
	if len(out) <= l.most {
		return out
	}
	rest := Line{Rest: true, Points: make([]int64, l.a.CountSteps())}
	for _, line := range out[l.most:] {
		rest.Total += line.Total
		for i, n := range line.Points {
			rest.Points[i] += n
		}
	}
	return append(out[:l.most], rest)
}

func reportSeries(r *query.Reader) *Series {
	s := &Series{Coverage: r.ReadCoverage(), By: r.By, At: r.ListSteps(), DegradedAt: make([]bool, r.CountSteps())}
	l := newLines(r.Ask, r.Top)
	if r.By == "request" {
		if !r.IsOfRequests() {
			r.RecordFailure(&query.ParamError{Name: "by", What: "request goes with domain, node and region alone: requests are not kept by the rest"})
		}
		r.EachRequests(r.Step, func(at int64, outcome string, n int64) { l.addPoint(outcome, at, n) })
		s.Lines = l.listLines()
		return s
	}
	column := ""
	if r.By == "node" || r.By == "region" {
		column = r.By
	}
	r.EachCount(r.Step, column, func(row query.CountRow) {
		if row.Outcome == "degraded" && row.N > 0 {
			s.DegradedAt[r.FindStep(row.At)] = true
		}
		of := r.ByID[row.Limit]
		name := row.Outcome
		switch r.By {
		case "rule":
			name = of.Domain + "/" + of.Rule
		case "limit":
			name = query.LimitName(of).String()
		case "domain":
			name = of.Domain
		case "node", "region":
			name = row.Where
		}
		// All decisions are all outcomes but those that are counted beside.
		if r.By != "outcome" && r.Outcomes == nil && query.IsMark(row.Outcome) {
			return
		}
		l.addPoint(name, row.At, row.N)
	})
	s.Lines = l.listLines()
	return s
}
