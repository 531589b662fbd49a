package analytics

import (
	"time"

	"github.com/weirlimit/weir/internal/insight/event"
)

// requestRow is the requests of a domain on a node in a time.
type requestRow struct {
	grain   Grain
	at      int64
	domain  string
	where   origin
	outcome string
}

// addRequests takes in the requests that a roll-up tells.
func (c *change) addRequests(g Grain, at int64, where origin, r *event.Rollup) {
	for outcome, n := range r.Requests {
		c.requests[requestRow{g, at, text(r.Domain), where, text(outcome)}] += figure(n)
	}
}

func (r requestRow) args(*numbers) []any {
	return []any{int64(r.grain), r.at, r.domain, r.where.node, r.where.region, r.outcome}
}

// Requests are requests, each counted once however many limits it met. They are exact.
type Requests struct {
	// Requests is how many there were, Refused how many of them were refused, and Failed
	// how many the store could not decide.
	Requests int64 `json:"requests"`
	Refused  int64 `json:"refused"`
	Failed   int64 `json:"failed"`
	// RefusedShare is the share of Requests that were refused, 0 to 1.
	RefusedShare float64 `json:"refused_share"`
}

func (q *Requests) add(outcome string, n int64) {
	q.Requests += n
	switch outcome {
	case event.RequestRefused:
		q.Refused += n
	case event.RequestFailed:
		q.Failed += n
	}
	q.RefusedShare = ratio(q.Refused, q.Requests)
}

// eachRequests calls each with the requests of the range, by the step and what became of
// them.
func (r *reader) eachRequests(step int64, each func(at int64, outcome string, n int64)) {
	w := rowsOf(r.grain, r.from, r.to)
	w.in("domain", r.domains, false)
	w.in("node", r.nodes, false)
	w.in("region", r.regions, false)
	t := r.stepOf(step)
	r.query(func(row Row) { each(row.Int(0), row.Text(1), row.Int(2)) },
		`SELECT `+t+` AS t, outcome, CAST(SUM(n) AS BIGINT) FROM requests`+w.text+` GROUP BY `+t+`, outcome ORDER BY t, outcome`, w.args...)
}

// readRequests returns the requests of the question, nil where they are not known. The
// decisions of one limit are as many requests; first is when the first decision was made
// in the range, zero if none was.
func readRequests(r *reader, decisions *Totals, first int64) *Requests {
	if !r.wholeRequests() {
		if r.ofClients() || r.outcomes != nil || len(r.names()) != 1 || decisions.Decisions == 0 {
			return nil
		}
		q := &Requests{Requests: decisions.Decisions, Refused: decisions.Counts["refused"]}
		q.RefusedShare = ratio(q.Refused, q.Requests)
		return q
	}
	q, since := &Requests{}, int64(0)
	r.eachRequests(r.grain.Seconds(), func(at int64, outcome string, n int64) {
		if since == 0 {
			since = at
		}
		q.add(outcome, n)
	})
	if q.Requests == 0 {
		return nil
	}
	if first > 0 && since > first {
		r.missing = append(r.missing, "requests are counted from "+time.Unix(since, 0).UTC().Format(time.RFC3339)+" on: what is older has decisions by limit alone")
	}
	return q
}
