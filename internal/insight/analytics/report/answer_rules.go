package report

import (
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/advice"
	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// RuleList answers GET /v1/analytics/rules.
type RuleList struct {
	Coverage query.Coverage `json:"coverage"`
	Rules    []RuleFigures  `json:"rules"`
}

// RuleFigures are how a limit did.
type RuleFigures struct {
	// Limit has the numbers that counted last.
	rows.Limit
	Totals
	// Versions is how many different numbers the limit had in the range.
	Versions int `json:"versions"`
	// Decisive is how many of the decisions that limited a client were decided by this
	// limit.
	Decisive int64 `json:"decided"`
	// KeysLimited, KeysSeen and KeysSeenKnown are as in Overview.
	KeysLimited   int64 `json:"keys_limited"`
	KeysSeen      int64 `json:"keys_seen"`
	KeysSeenKnown bool  `json:"keys_seen_known"`
	// Usage is the peak usage of the sampled keys. Nil without a sample.
	Usage *Usage `json:"usage,omitempty"`
	// FirstHit and LastHit are the first and the last step in which the limit was
	// met, LastRefused the last in which it refused. Nil if never.
	FirstHit    *time.Time `json:"first_hit,omitempty"`
	LastHit     *time.Time `json:"last_hit,omitempty"`
	LastRefused *time.Time `json:"last_refused,omitempty"`
	// Classified is how the evidence judges the clients that the limit refused most.
	Classified *Classified `json:"judged,omitempty"`
	// Answer has badges and advice.
	advice.Answer
}

// Usage tells how near keys come to their limit: for each sampled key the peak of
// what it used of the limit, as a share of it. 1 is all that passes at once.
type Usage struct {
	// Keys is how many sampled keys it is of.
	Keys int64   `json:"keys"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// Classified counts clients that were refused by verdict.
type Classified struct {
	// Clients is how many were judged, Verdicts how many of them each way.
	Clients  int64            `json:"clients"`
	Verdicts map[string]int64 `json:"verdicts"`
	// RefusedShares are the shares of their refusals by verdict, 0 to 1.
	RefusedShares map[string]float64 `json:"refused_shares"`
}

// RuleDetail answers GET /v1/analytics/rules/{domain}/{rule}.
type RuleDetail struct {
	Coverage query.Coverage `json:"coverage"`
	Limits   []RuleLimits   `json:"limits"`
}

// RuleLimits is one limit of a rule in detail.
type RuleLimits struct {
	RuleFigures
	// At are the beginnings of the intervals.
	At []time.Time `json:"at"`
	// Lines has counts by outcome for each step.
	Lines []Line `json:"lines"`
	// BusiestSecond and BusiestMinute are, for each step, the most units that one client asked for in one
	// second, and in one minute where the grain is a minute, by records.
	BusiestSecond []int64 `json:"busiest_second"`
	BusiestMinute []int64 `json:"busiest_minute"`
	// PerMinute is what the limit lets through in a minute at its rate, rounded up;
	// Limit.Burst is what passes at once.
	PerMinute int64 `json:"per_minute"`
	// Histogram is of the peak usage of sampled keys, in tenths: [0,0.1),
	// [0.1,0.2), ... [0.9,1), and last those that used all of it.
	Histogram []int64 `json:"histogram"`
	// History are the numbers that the limit had, the oldest first.
	History []Version `json:"history"`
}

// Version is a limit between two changes of its numbers.
type Version struct {
	rows.Limit
	Totals
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	KeysLimited int64     `json:"keys_limited"`
	Usage       *Usage    `json:"usage,omitempty"`
}

// Rates answers GET /v1/analytics/rates: what clients asked of a limit, allowed or
// not, in windows of its period.
//
// The clients that were limited are all there (Weight 1), the others are a sample
// (Weight is how many each stands for). With a limit of L units a window a page
// says: sum of Weight of the clients with Peak > L are caught; and of each bucket
// with Rate > L, (Rate-L)*Windows*Weight units.
type Rates struct {
	Coverage query.Coverage `json:"coverage"`
	Limit    rows.Limit     `json:"limit"`
	// WindowMS is the length of a window: the limit's period, or the step of the
	// rows if that is longer than the period and the client is not sampled.
	WindowMS int64 `json:"window_ms"`
	// Estimated says that windows are shorter than what is kept of clients that are
	// not sampled: their peaks are measured by the second, how the rest of a
	// minute's demand spreads over its busy seconds is assumed to be even.
	Estimated bool `json:"estimated"`
	// Clients and Units are totals with weights; Rows is how many rows they are
	// made of.
	Clients int64 `json:"clients"`
	Units   int64 `json:"units"`
	Rows    int64 `json:"rows"`
	// Top are the clients with the highest peaks, in descending order.
	Top []RateClient `json:"top"`
	// Percentiles are of the peaks of all clients, by weight.
	Percentiles []Percentile `json:"percentiles"`
	// Buckets are all windows of all clients in descending order of Rate. Where
	// there are more rates than buckets, neighbours of one percent are put together,
	// and Rate is their mean.
	Buckets []RateBucket `json:"buckets"`
	// Peaks are the peaks of all clients in descending order, put together likewise.
	Peaks []PeakBucket `json:"peaks"`
	// Ladder says what limits would have caught, at each of a hundred limits.
	Ladder []Rung `json:"ladder"`
}

// RateClient is a client with its rates.
type RateClient struct {
	Key      string `json:"key"`
	Unhashed bool   `json:"unhashed"`
	Weight   int64  `json:"weight"`
	// Peak is the most units in one window, Mean the mean of the windows in which it
	// asked for any.
	Peak     int64   `json:"peak"`
	Mean     float64 `json:"mean"`
	Windows  int64   `json:"windows"`
	Units    int64   `json:"units"`
	Requests int64   `json:"requests"`
	Refused  int64   `json:"refused"`
	// User says whether a verified user is known, Tier the client's tier.
	User bool   `json:"user"`
	Tier string `json:"tier,omitempty"`
	// Verdict is the word of the verdict, of clients that were limited.
	Verdict string `json:"verdict,omitempty"`
}

// Percentile is a rung of the ladder of clients' peaks.
type Percentile struct {
	P    float64 `json:"p"`
	Peak int64   `json:"peak"`
}

// RateBucket is windows of nearly one rate: Windows of them, with Weight, in which
// Units were asked for. Rate is units a window.
type RateBucket struct {
	Rate    int64 `json:"rate"`
	Windows int64 `json:"windows"`
	Units   int64 `json:"units"`
}

// PeakBucket is clients, with weight, of nearly one peak.
type PeakBucket struct {
	Peak    int64 `json:"peak"`
	Clients int64 `json:"clients"`
	// Users is how many of them are of a verified user.
	Users int64 `json:"users"`
}

// Rung is what a limit of so many units a window would have caught: clients that
// came above it, and the units above it.
type Rung struct {
	Limit   int64   `json:"limit"`
	Clients int64   `json:"clients"`
	Users   int64   `json:"users"`
	Units   int64   `json:"units"`
	Share   float64 `json:"share"` // of all units
}
