package report

import (
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/event"
)

// isAdmitted reports whether a request of an outcome went on, as far as the limit goes.
func isAdmitted(outcome string) bool { return outcome != "refused" && !query.IsMark(outcome) }

func reportUpstream(r *query.Reader) *Upstream {
	chooseResponses(r)
	n := r.CountSteps()
	out := &Upstream{At: r.ListSteps(), Admitted: make([]int64, n), Refused: make([]int64, n), Answers: make([]event.Answers, n), MeanMS: make([]int64, n),
		P50MS: make([]float64, n), P99MS: make([]float64, n)}
	if names := r.ListNames(); len(names) == 1 {
		out.Of = r.FindNewest(names[0])
	}
	r.EachCount(r.Step, "", func(row query.CountRow) {
		switch p := r.FindStep(row.At); {
		case isAdmitted(row.Outcome):
			out.Admitted[p] += row.N
		case row.Outcome == "refused":
			out.Refused[p] += row.N
		}
	})
	steps, all, first := readAnswers(r)
	for p := range steps {
		out.Answers[p], out.P50MS[p], out.P99MS[p] = steps[p].AsAnswers(), steps[p].FindPercentile(50), steps[p].FindPercentile(99)
	}
	out.Times = AnswerTimes{Measured: all.Times.SumCounts(), P50MS: all.FindPercentile(50), P95MS: all.FindPercentile(95), P99MS: all.FindPercentile(99)}
	out.addRecords(r, first)
	for i := range out.Answers {
		a := &out.Answers[i]
		if out.MeanMS[i] = -1; a.Count > 0 {
			out.MeanMS[i] = (a.TotalMS + a.Count/2) / a.Count
		}
		addAnswers(&out.Total, a)
	}
	out.Coverage = r.ReadCoverage()
	return out
}

// chooseResponses leaves one limit: a request meets several, and only those of one are
// added up. Of limits whose requests go to no upstream nothing is to be seen here.
func chooseResponses(r *query.Reader) {
	names := r.ListNames()
	if len(names) < 2 {
		return
	}
	busiest, most := names[0], int64(-1)
	total := map[query.Name]int64{}
	r.EachCount(r.To-r.From, "", func(row query.CountRow) {
		if !query.IsMark(row.Outcome) {
			total[query.LimitName(r.ByID[row.Limit])] += row.N
		}
	})
	responses := readResponses(r)
	for _, n := range names {
		if total[n] > most && (len(responses) == 0 || responses[n]) {
			busiest, most = n, total[n]
		}
	}
	r.ChooseLimits(r.ListVersions(busiest))
}

// readAnswers returns the answers of each step and of all, and when the first of them were
// told, zero if none were.
func readAnswers(r *query.Reader) (steps []rows.Answering, all rows.Answering, first int64) {
	steps = make([]rows.Answering, r.CountSteps())
	r.EachPacked(rows.ResponsesTable, r.WholeRange(), func(at int64, packed []byte) error {
		var a rows.Answering
		if err := a.MergeRow(packed); err != nil {
			return err
		}
		if a.CountAnswers() > 0 && (first == 0 || at < first) {
			first = at
		}
		steps[r.FindStep(at)].JoinAnswers(&a)
		all.JoinAnswers(&a)
		return nil
	})
	return steps, all, first
}

// addRecords takes the answers from records where no roll-up of the range tells
// any: the nodes are of a version that counted no others. The two are not mixed, since
// a record is of when the request came, and a roll-up of when it was answered. Records
// are kept by neither node nor region.
func (out *Upstream) addRecords(r *query.Reader, first int64) {
	if r.Nodes != nil || r.Regions != nil {
		return
	}
	taken, left := false, false
	need := rows.ClientColumns{Cells: []int{rows.Answers, rows.OK, rows.Redirect, rows.Denied, rows.ClientError, rows.ServerError, rows.TotalMS, rows.LongestMS}, Merged: true, Condition: "answers > 0"}
	r.EachClientRow(r.From, r.To, need, func(l *rows.ClientLine) {
		switch {
		case first > 0:
			left = left || l.At < first-r.ClientGrain().Seconds()
		default:
			taken = true
			addAnswers(&out.Answers[r.FindStep(l.At)], l.ReadAnswers())
		}
	})
	switch {
	case taken:
		r.Missing = append(r.Missing, "answers are of clients that are sampled or were limited, without percentiles: no others were told")
	case left:
		r.Missing = append(r.Missing, "before "+time.Unix(first, 0).UTC().Format(time.RFC3339)+" answers were told of clients alone that are sampled or were limited; those are left out")
	}
}

func addAnswers(to, a *event.Answers) {
	to.Count, to.OK, to.Redirect, to.Denied = to.Count+a.Count, to.OK+a.OK, to.Redirect+a.Redirect, to.Denied+a.Denied
	to.ClientError, to.ServerError, to.TotalMS = to.ClientError+a.ClientError, to.ServerError+a.ServerError, to.TotalMS+a.TotalMS
	to.LongestMS = max(to.LongestMS, a.LongestMS)
}

// readResponses are the limits that met requests of which it is known how they were
// answered.
func readResponses(r *query.Reader) map[query.Name]bool {
	out := map[query.Name]bool{}
	w := r.WhereOrigins(r.WholeRange())
	r.ReadRows(func(row rows.Row) { out[query.LimitName(r.ByID[row.Int(0)])] = true }, `SELECT DISTINCT limit_id FROM answered`+w.Text, w.Args...)
	if len(out) > 0 {
		return out
	}
	r.EachClientRow(r.From, r.To, rows.ClientColumns{Merged: true, Condition: "answers > 0"}, func(l *rows.ClientLine) { out[query.LimitName(r.ByID[l.Limit])] = true })
	return out
}
