package report

import (
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/event"
)

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

func (q *Requests) addRequests(outcome string, n int64) {
	q.Requests += n
	switch outcome {
	case event.RequestRefused:
		q.Refused += n
	case event.RequestFailed:
		q.Failed += n
	}
	q.RefusedShare = shareOf(q.Refused, q.Requests)
}

// readRequests returns the requests of the question, nil where they are not known. The
// decisions of one limit are as many requests; first is when the first decision was made
// in the range, zero if none was.
func readRequests(r *query.Reader, decisions *Totals, first int64) *Requests {
	if !r.IsOfRequests() {
		if r.IsOfClients() || r.Outcomes != nil || len(r.ListNames()) != 1 || decisions.Decisions == 0 {
			return nil
		}
		q := &Requests{Requests: decisions.Decisions, Refused: decisions.Counts["refused"]}
		q.RefusedShare = shareOf(q.Refused, q.Requests)
		return q
	}
	q, since := &Requests{}, int64(0)
	r.EachRequests(r.Grain.Seconds(), func(at int64, outcome string, n int64) {
		if since == 0 {
			since = at
		}
		q.addRequests(outcome, n)
	})
	if q.Requests == 0 {
		return nil
	}
	if first > 0 && since > first {
		r.Missing = append(r.Missing, "requests are counted from "+time.Unix(since, 0).UTC().Format(time.RFC3339)+" on: what is older has decisions by limit alone")
	}
	return q
}
