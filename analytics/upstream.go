package analytics

import (
	"strings"

	"github.com/weirlimit/weir/event"
)

// passes reports whether a request of an outcome went on, as far as the limit goes.
func passes(outcome string) bool { return outcome != "refused" && !beside(outcome) }

// answered are the limits that met requests of which it is known how they were
// answered.
func (r *reader) answered() (map[name]bool, error) {
	w := &where{}
	r.clientsOf(w, r.clientGrain(), r.from, r.to)
	w.and("answers > 0")
	out := map[name]bool{}
	err := query(r.tx, func(row Row) error { out[nameOf(r.limits[row.Int(0)])] = true; return nil },
		`SELECT DISTINCT limit_id FROM clients`+w.text, w.args...)
	return out, err
}

func (r *reader) upstream() (*Upstream, error) {
	// A request meets several limits: only those of one are added up. Of limits whose
	// requests go to no upstream nothing is to be seen here.
	if names := r.names(); len(names) > 1 {
		busiest, most := names[0], int64(-1)
		total := map[name]int64{}
		if err := r.counts(r.to-r.from, "", func(row countRow) {
			if !beside(row.outcome) {
				total[nameOf(r.limits[row.limit])] += row.n
			}
		}); err != nil {
			return nil, err
		}
		answered, err := r.answered()
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if total[n] > most && (len(answered) == 0 || answered[n]) {
				busiest, most = n, total[n]
			}
		}
		r.chosen, r.all = r.versions(busiest), false
	}
	n := r.points()
	out := &Upstream{At: r.at(), Admitted: make([]int64, n), Refused: make([]int64, n), Answers: make([]event.Answers, n), MeanMS: make([]int64, n)}
	if names := r.names(); len(names) == 1 {
		out.Of = r.newest(names[0])
	}
	err := r.counts(r.step, "", func(row countRow) {
		switch {
		case passes(row.outcome):
			out.Admitted[r.point(row.at)] += row.n
		case row.outcome == "refused":
			out.Refused[r.point(row.at)] += row.n
		}
	})
	if err != nil {
		return nil, err
	}
	w := &where{}
	r.clientsOf(w, r.clientGrain(), r.from, r.to)
	cells := []int{cAnswers, cOK, cRedirect, cDenied, cClientError, cServerError, cTotalMS}
	var sums []string
	for _, c := range cells {
		sums = append(sums, "CAST(SUM("+cellColumns[c].name+") AS BIGINT)")
	}
	err = query(r.tx, func(row Row) error {
		at := &out.Answers[r.point(row.Int(0))]
		addAnswers(at, &event.Answers{Count: row.Int(1), OK: row.Int(2), Redirect: row.Int(3), Denied: row.Int(4), ClientError: row.Int(5),
			ServerError: row.Int(6), TotalMS: row.Int(7), LongestMS: row.Int(8)})
		return nil
	}, `SELECT at, `+strings.Join(sums, ", ")+`, MAX(longest_ms) FROM clients`+w.text+` GROUP BY at`, w.args...)
	if err != nil {
		return nil, err
	}
	for i := range out.Answers {
		a := &out.Answers[i]
		if out.MeanMS[i] = -1; a.Count > 0 {
			out.MeanMS[i] = (a.TotalMS + a.Count/2) / a.Count
		}
		addAnswers(&out.Total, a)
	}
	out.Coverage, err = r.coverage()
	return out, err
}

func addAnswers(to, a *event.Answers) {
	to.Count, to.OK, to.Redirect, to.Denied = to.Count+a.Count, to.OK+a.OK, to.Redirect+a.Redirect, to.Denied+a.Denied
	to.ClientError, to.ServerError, to.TotalMS = to.ClientError+a.ClientError, to.ServerError+a.ServerError, to.TotalMS+a.TotalMS
	to.LongestMS = max(to.LongestMS, a.LongestMS)
}
