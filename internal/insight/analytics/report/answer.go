package report

import (
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// Overview answers GET /v1/analytics/overview.
type Overview struct {
	Coverage query.Coverage `json:"coverage"`
	Totals   Totals         `json:"totals"`
	// Requests counts each request once. Nil where requests are not known: where the
	// question is of several rules or limits, of some clients, algorithms, outcomes or a
	// mode, and where the nodes are of a version that does not count them.
	Requests *Requests `json:"requests,omitempty"`
	// KeysLimited is how many different keys were refused, delayed or would have
	// been; KeysSeen how many there were at all, estimated from the sample, if
	// KeysSeenKnown: where no key of the range belongs to the sample that is not known,
	// and zero. Both are counted by a sketch with a standard error of 2.3 %, exactly below
	// some hundred.
	KeysLimited   int64 `json:"keys_limited"`
	KeysSeen      int64 `json:"keys_seen"`
	KeysSeenKnown bool  `json:"keys_seen_known"`
	// DegradedS is how many seconds had decisions without the usual guarantee, in
	// whole intervals of the grain, so never too few.
	DegradedS int64 `json:"degraded_s"`
	// Latency is nil where no decision was timed, and in a report about some
	// clients or outcomes: those are not timed separately.
	Latency *Latency `json:"latency,omitempty"`
	// TopRules are those that refused most, TopKeys the clients, TopPaths the paths
	// that they requested.
	TopRules  []TopRule  `json:"top_rules"`
	TopKeys   []TopKey   `json:"top_keys"`
	TopPaths  []TopWord  `json:"top_paths"`
	Incidents []Incident `json:"incidents"`
}

// TopRule is a limit among those that refused most.
type TopRule struct {
	rows.Limit
	Totals
}

// Limited are decisions that limited somebody, or would have.
type Limited struct {
	Refused int64 `json:"refused"`
	Shadow  int64 `json:"shadow_refused"`
	Delayed int64 `json:"delayed"`
}

// TopKey is a client among those that were refused most.
type TopKey struct {
	rows.Limit
	Key      string `json:"key"`
	Unhashed bool   `json:"unhashed"`
	Limited
}

// TopWord is a path, a tier or another word of requests with what became of them.
// A record of several paths counts for the last of them.
type TopWord struct {
	Word string `json:"value"`
	Limited
	// Allowed is of the clients that are sampled or watched.
	Allowed int64 `json:"allowed"`
}

// Top answers GET /v1/analytics/top.
type Top struct {
	Coverage query.Coverage `json:"coverage"`
	By       string         `json:"by"`
	Words    []TopWord      `json:"values"`
}

// Incident is a time in which a limit refused without a pause of more than two
// intervals of the grain.
type Incident struct {
	rows.Limit
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Open says that it may go on: it reaches the end of the range.
	Open bool `json:"open"`
	// Limited is exact.
	Limited
	// Keys is how many different keys were limited, by a sketch as KeysLimited.
	Keys int64 `json:"keys"`
	// Overshoot is the most that one client asked for in a minute, as a share of what
	// the limit lets through in one. Zero where no record has it.
	Overshoot float64 `json:"overshoot"`
}

// Series answers GET /v1/analytics/series.
type Series struct {
	Coverage query.Coverage `json:"coverage"`
	// By is what the lines are by: outcome, rule, limit, domain, node or region, of decisions;
	// or request: of requests, each counted once, by what became of them.
	By string `json:"by"`
	// At are the beginnings of the intervals, one for each point of a line, without
	// gaps.
	At []time.Time `json:"at"`
	// Lines are in order of their totals, the largest first. Those beyond the
	// number of top are merged into one with the name "" and rest.
	Lines []Line `json:"lines"`
	// DegradedAt says of each step whether decisions were degraded in it.
	DegradedAt []bool `json:"degraded_at"`
}

// Line is one line of a series.
type Line struct {
	Name string `json:"name"`
	Rest bool   `json:"rest,omitempty"`
	// Total is the sum of Points. Of a line by outcome a point is how often there
	// was the outcome; of another how often there was the outcome that was asked
	// for, all decisions if none was.
	Total  int64   `json:"total"`
	Points []int64 `json:"points"`
}
