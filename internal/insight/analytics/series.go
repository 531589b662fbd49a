package analytics

import (
	"cmp"
	"slices"
)

// lines gathers points by name.
type lines struct {
	a    *ask
	by   map[string]*Line
	most int
}

func (a *ask) lines(most int) *lines { return &lines{a: a, by: map[string]*Line{}, most: most} }

func (l *lines) add(name string, at, n int64) {
	line := entry(l.by, name, func() *Line { return &Line{Name: name, Points: make([]int64, l.a.points())} })
	line.Points[l.a.point(at)] += n
	line.Total += n
}

// list returns the lines, the largest first; beyond the most that there are to be,
// as one.
func (l *lines) list() []Line {
	out := make([]Line, 0, len(l.by))
	for _, line := range l.by {
		out = append(out, *line)
	}
	slices.SortFunc(out, func(a, b Line) int { return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Name, b.Name)) })
	if len(out) <= l.most {
		return out
	}
	rest := Line{Rest: true, Points: make([]int64, l.a.points())}
	for _, line := range out[l.most:] {
		rest.Total += line.Total
		for i, n := range line.Points {
			rest.Points[i] += n
		}
	}
	return append(out[:l.most], rest)
}

func reportSeries(r *reader) *Series {
	s := &Series{Coverage: r.coverage(), By: r.by, At: r.at(), DegradedAt: make([]bool, r.points())}
	l := r.lines(r.top)
	if r.by == "request" {
		if !r.wholeRequests() {
			r.fail(&paramError{"by", "request goes with domain, node and region alone: requests are not kept by the rest"})
		}
		r.eachRequests(r.step, func(at int64, outcome string, n int64) { l.add(outcome, at, n) })
		s.Lines = l.list()
		return s
	}
	column := ""
	if r.by == "node" || r.by == "region" {
		column = r.by
	}
	r.counts(r.step, column, func(row countRow) {
		if row.outcome == "degraded" && row.n > 0 {
			s.DegradedAt[r.point(row.at)] = true
		}
		of := r.byID[row.limit]
		name := row.outcome
		switch r.by {
		case "rule":
			name = of.Domain + "/" + of.Rule
		case "limit":
			name = nameOf(of).String()
		case "domain":
			name = of.Domain
		case "node", "region":
			name = row.where
		}
		// All decisions are all outcomes but those that are counted beside.
		if r.by != "outcome" && r.outcomes == nil && isMark(row.outcome) {
			return
		}
		l.add(name, row.at, row.n)
	})
	s.Lines = l.list()
	return s
}
