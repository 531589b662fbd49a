package query

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// Coverage says what an answer is of.
type Coverage struct {
	// From and To are the range that is covered, To not included: the range that
	// was asked for, widened to whole intervals of the grain.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Grain is that of the rows behind the answer: minute, hour or day. StepS is how
	// many seconds a point of a series is of.
	Grain string `json:"grain"`
	StepS int64  `json:"step_s"`
	// Basis is what the counts by outcome are made of: rollups, which are exact, or
	// records, which have all that was limited and a sample of what was allowed.
	Basis string `json:"basis"`
	// Every is how many keys there are for each one whose allowed decisions are
	// recorded: 1 means all, 0 that no allowed decision was recorded in the range.
	Every int64 `json:"sample_one_in"`
	// Uncounted is nil where all events of the range that came are counted.
	Uncounted *Uncounted `json:"uncounted,omitempty"`
	// Loss is what the records of the range leave out.
	Loss Loss `json:"loss"`
	// Missing says in words what else is not in the answer: rows that were merged,
	// lists that were cut, a range that is older than what is kept.
	Missing []string `json:"missing,omitempty"`
}

// Uncounted says from when on events wait, as the database does not take them: nothing that
// came later is in an answer.
type Uncounted struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"`
}

// Loss is what was not told of a range. Roll-ups have what records leave out.
type Loss struct {
	// Dropped and Discarded count decisions that records leave out: dropped before
	// they became events, discarded since the queue took no more.
	Dropped   int64 `json:"dropped"`
	Discarded int64 `json:"discarded"`
	// Rollups counts roll-ups that the queue did not take: what they counted is
	// missing from every count.
	Rollups int64 `json:"rollups"`
	// Failed counts requests that the store could not decide.
	Failed int64 `json:"failed"`
	// Late counts events that came after what they belong to was forgotten.
	Late int64 `json:"late"`
}

// ReadCoverage returns what the answer is of.
func (r *Reader) ReadCoverage() Coverage {
	c := Coverage{
		From: time.Unix(r.From, 0).UTC(), To: time.Unix(r.To, 0).UTC(), Grain: r.Grain.String(), StepS: r.Step,
		Basis: "rollups", Missing: r.Missing,
	}
	if r.IsOfClients() {
		c.Basis = "records"
	}
	r.eachSketch(r.From, r.To, []string{rows.SketchSampled}, func(_, _ int64, _ string, packed []byte) error {
		c.Every = max(c.Every, rows.ReadEvery(packed))
		return nil
	})
	c.Loss = r.readLoss()
	c.addMerged(r)
	if r.uncounted != nil && r.uncounted.Since.Before(c.To) {
		c.Uncounted = r.uncounted
	}
	return c
}

// readLoss returns what was lost in the range.
func (r *Reader) readLoss() (l Loss) {
	// Sources tell what they have lost since they started.
	for _, edge := range []struct {
		until, sign int64
	}{{r.To, 1}, {r.From, -1}} {
		r.ReadRows(func(row rows.Row) {
			l.Dropped += edge.sign * row.Int(0)
			l.Discarded += edge.sign * row.Int(1)
			l.Rollups += edge.sign * row.Int(2)
			l.Failed += edge.sign * row.Int(3)
		}, `SELECT MAX(dropped), MAX(discarded), MAX(rollups), MAX(failed) FROM losses WHERE at < $1 GROUP BY source_id`, edge.until)
	}
	r.ReadRows(func(row rows.Row) { l.Late = row.Int(0) },
		`SELECT CAST(SUM(n) AS BIGINT) FROM late WHERE at >= $1 AND at < $2`, r.From, r.To)
	return l
}

// addMerged notes how many rows of clients were merged.
func (c *Coverage) addMerged(r *Reader) {
	w := r.WhereMerged()
	r.ReadRows(func(row rows.Row) {
		l := r.ByID[row.Int(0)]
		if n := row.Int(1); n > 0 && len(c.Missing) < maxMissing {
			c.Missing = append(c.Missing, fmt.Sprintf("rule %s/%s, limit %s: %d rows of clients are merged into one", l.Domain, l.Rule, l.Limit, n))
		}
	}, `SELECT limit_id, CAST(SUM(merged) AS BIGINT) FROM clients `+r.Hint+w.Text+` GROUP BY limit_id ORDER BY limit_id`, w.Args...)
}

// maxMissing is how many sentences there are at most of what is missing.
const maxMissing = 20
