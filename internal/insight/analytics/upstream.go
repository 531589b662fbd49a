package analytics

import (
	"time"

	"github.com/weirlimit/weir/internal/insight/event"
)

// passes reports whether a request of an outcome went on, as far as the limit goes.
func passes(outcome string) bool { return outcome != "refused" && !isMark(outcome) }

func reportUpstream(r *reader) *Upstream {
	chooseResponses(r)
	n := r.points()
	out := &Upstream{At: r.at(), Admitted: make([]int64, n), Refused: make([]int64, n), Answers: make([]event.Answers, n), MeanMS: make([]int64, n),
		P50MS: make([]float64, n), P99MS: make([]float64, n)}
	if names := r.names(); len(names) == 1 {
		out.Of = r.newest(names[0])
	}
	r.counts(r.step, "", func(row countRow) {
		switch p := r.point(row.at); {
		case passes(row.outcome):
			out.Admitted[p] += row.n
		case row.outcome == "refused":
			out.Refused[p] += row.n
		}
	})
	steps, all, first := readAnswers(r)
	for p := range steps {
		out.Answers[p], out.P50MS[p], out.P99MS[p] = steps[p].answers(), steps[p].percentileMS(50), steps[p].percentileMS(99)
	}
	out.Times = AnswerTimes{Measured: all.times.total(), P50MS: all.percentileMS(50), P95MS: all.percentileMS(95), P99MS: all.percentileMS(99)}
	out.addRecords(r, first)
	for i := range out.Answers {
		a := &out.Answers[i]
		if out.MeanMS[i] = -1; a.Count > 0 {
			out.MeanMS[i] = (a.TotalMS + a.Count/2) / a.Count
		}
		addAnswers(&out.Total, a)
	}
	out.Coverage = r.coverage()
	return out
}

// chooseResponses leaves one limit: a request meets several, and only those of one are
// added up. Of limits whose requests go to no upstream nothing is to be seen here.
func chooseResponses(r *reader) {
	names := r.names()
	if len(names) < 2 {
		return
	}
	busiest, most := names[0], int64(-1)
	total := map[name]int64{}
	r.counts(r.to-r.from, "", func(row countRow) {
		if !isMark(row.outcome) {
			total[nameOf(r.byID[row.limit])] += row.n
		}
	})
	responses := readResponses(r)
	for _, n := range names {
		if total[n] > most && (len(responses) == 0 || responses[n]) {
			busiest, most = n, total[n]
		}
	}
	r.chosen, r.all = r.versions(busiest), false
}

// readAnswers returns the answers of each step and of all, and when the first of them were
// told, zero if none were.
func readAnswers(r *reader) (steps []answering, all answering, first int64) {
	steps = make([]answering, r.points())
	r.packedRows(responsesTable, part{r.grain, r.from, r.to}, func(at int64, packed []byte) error {
		var a answering
		if err := a.merge(packed); err != nil {
			return err
		}
		if a.count() > 0 && (first == 0 || at < first) {
			first = at
		}
		steps[r.point(at)].join(&a)
		all.join(&a)
		return nil
	})
	return steps, all, first
}

// addRecords takes the answers from records where no roll-up of the range tells
// any: the nodes are of a version that counted no others. The two are not mixed, since
// a record is of when the request came, and a roll-up of when it was answered. Records
// are kept by neither node nor region.
func (out *Upstream) addRecords(r *reader, first int64) {
	if r.nodes != nil || r.regions != nil {
		return
	}
	taken, left := false, false
	need := clientColumns{cells: []int{cAnswers, cOK, cRedirect, cDenied, cClientError, cServerError, cTotalMS, cLongestMS}, merged: true, condition: "answers > 0"}
	r.clientRows(r.clientGrain(), r.from, r.to, need, func(l *clientLine) {
		switch {
		case first > 0:
			left = left || l.at < first-r.clientGrain().Seconds()
		default:
			taken = true
			addAnswers(&out.Answers[r.point(l.at)], l.answersOf())
		}
	})
	switch {
	case taken:
		r.missing = append(r.missing, "answers are of clients that are sampled or were limited, without percentiles: no others were told")
	case left:
		r.missing = append(r.missing, "before "+time.Unix(first, 0).UTC().Format(time.RFC3339)+" answers were told of clients alone that are sampled or were limited; those are left out")
	}
}

func addAnswers(to, a *event.Answers) {
	to.Count, to.OK, to.Redirect, to.Denied = to.Count+a.Count, to.OK+a.OK, to.Redirect+a.Redirect, to.Denied+a.Denied
	to.ClientError, to.ServerError, to.TotalMS = to.ClientError+a.ClientError, to.ServerError+a.ServerError, to.TotalMS+a.TotalMS
	to.LongestMS = max(to.LongestMS, a.LongestMS)
}
