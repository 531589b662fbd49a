package report

import (
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/accuracy"
	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/event"
)

// AccuracyList answers GET /v1/analytics/accuracy.
type AccuracyList struct {
	Coverage query.Coverage `json:"coverage"`
	Rules    []Accuracy     `json:"rules"`
}

// Accuracy compares what a limit decided for the keys of the sample with what an
// exact reference decides on the same arrivals.
type Accuracy struct {
	rows.Limit
	// Report is of the decisions that were compared, of at most the newest arrivals that are
	// kept.
	accuracy.Report
	// Cut says that arrivals are missing between them, so that the figures are of what is
	// there.
	Cut bool `json:"truncated"`
	// Reference is what the limit was compared with, in words.
	Reference string `json:"reference"`
	// Compare is what all algorithms with the same numbers, the limit's own too, decide
	// on the same arrivals.
	Compare []accuracy.Alternative `json:"compare"`
}

// Upstream answers GET /v1/analytics/upstream.
type Upstream struct {
	Coverage query.Coverage `json:"coverage"`
	At       []time.Time    `json:"at"`
	// Admitted and Refused are decisions in each step, exact: of the limit that decided
	// most in the range if the query names no rule, because a request meets several, and
	// among those whose answers are known if any are.
	Admitted []int64    `json:"admitted"`
	Refused  []int64    `json:"refused"`
	Of       rows.Limit `json:"limit"`
	// Answers are those of each step, of all requests whose answers front ends saw. An
	// answer counts in the minute in which it ended. Where no node of the range
	// reported that, they are those of the keys that are sampled or watched, and missing of the
	// coverage says so.
	Answers []event.Answers `json:"responses"`
	// MeanMS is the mean time of an answer in each step, -1 where none is known. P50MS
	// and P99MS are percentiles of all answers in it, at most an eighth too high, never
	// too low, and -1 where none was timed.
	MeanMS []int64   `json:"mean_ms"`
	P50MS  []float64 `json:"p50_ms"`
	P99MS  []float64 `json:"p99_ms"`
	// Total has all answers, Times how long they took.
	Total event.Answers `json:"total"`
	Times AnswerTimes   `json:"response_times"`
}

// AnswerTimes says how long answers took.
type AnswerTimes struct {
	// Measured is how many were timed: all but connections that were upgraded, and
	// those known only from records.
	Measured int64 `json:"measured"`
	// Percentiles as in Upstream, -1 where none was timed.
	P50MS float64 `json:"p50_ms"`
	P95MS float64 `json:"p95_ms"`
	P99MS float64 `json:"p99_ms"`
}

// System answers GET /v1/analytics/system.
type System struct {
	At       time.Time    `json:"at"`
	Database string       `json:"database"` // the kind: memory, sqlite or postgres
	Bytes    int64        `json:"bytes"`    // what it takes
	Schema   int          `json:"schema"`   // the number of its last migration
	Sources  []SourceInfo `json:"sources"`
	Tables   []TableInfo  `json:"tables"`
	Service  ServiceInfo  `json:"service"`
}

// SourceInfo is a node, as it told events since it started.
type SourceInfo struct {
	Node   string    `json:"node"`
	Region string    `json:"region,omitempty"` // absent for a node without one
	Source string    `json:"source"`
	First  time.Time `json:"first"` // times of the first and the last event
	Last   time.Time `json:"last"`
	Events int64     `json:"events"` // number of counted events
	// Unheard is how many of its events did not come so far: numbers below the
	// highest that are missing.
	Unheard int64      `json:"missing_events"`
	Loss    event.Loss `json:"loss"` // since the node started
}

// TableInfo is what is kept of one kind, counted at most 30 seconds ago.
type TableInfo struct {
	Name  string `json:"name"`
	Grain string `json:"grain,omitempty"`
	Rows  int64  `json:"rows"`
	// KeptS is for how many seconds rows are kept, Oldest the beginning of the oldest
	// one.
	KeptS  int64      `json:"retention_s"`
	Oldest *time.Time `json:"oldest,omitempty"`
}

// ServiceInfo is what the process that answers did since it started.
type ServiceInfo struct {
	Started time.Time `json:"started"`
	// Batches came from the queue and were counted in Transactions; Events is how many
	// events were counted, Duplicates how many had been before, Late how many were of
	// a time that is forgotten.
	Batches      int64 `json:"batches"`
	Transactions int64 `json:"transactions"`
	Events       int64 `json:"events"`
	Duplicates   int64 `json:"duplicates"`
	Late         int64 `json:"late"`
	// Rejected is how many events the database refuses for their content; they are in no
	// report.
	Rejected int64 `json:"rejected"`
	// Retries counts transactions that failed and were made again. Failing is why the
	// last one failed, empty if it did not.
	Retries int64  `json:"retries"`
	Failing string `json:"failing,omitempty"`
	// Waiting is how many events were taken from the queue and are not counted yet.
	Waiting int64 `json:"waiting"`
	// LagMS is how old the newest event of the last transaction was when it was
	// counted, LongestLagMS the longest such time in the last hour.
	LagMS        int64 `json:"lag_ms"`
	LongestLagMS int64 `json:"longest_lag_ms"`
}

// Words answers GET /v1/analytics/filters: what there is to filter by in the range.
type Words struct {
	Coverage   query.Coverage `json:"coverage"`
	Limits     []rows.Limit   `json:"limits"`
	Domains    []string       `json:"domains"`
	Rules      []string       `json:"rules"`
	Algorithms []string       `json:"algorithms"`
	Outcomes   []string       `json:"outcomes"`
	Nodes      []string       `json:"nodes"`
	Regions    []string       `json:"regions"`
	Tiers      []string       `json:"tiers"`
	Paths      []string       `json:"paths"`
}
