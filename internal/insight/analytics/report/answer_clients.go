package report

import (
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/analytics/verdict"
	"github.com/weirlimit/weir/internal/insight/event"
)

// ClientList answers GET /v1/analytics/clients: clients that a limit refused,
// delayed or would have.
type ClientList struct {
	Coverage query.Coverage `json:"coverage"`
	// Total is how many there are; Clients are those asked for.
	Total   int64    `json:"total"`
	Clients []Client `json:"clients"`
	// Rest is the sum of the clients that have no row of their own.
	Rest *Rest `json:"rest,omitempty"`
}

// Rest are clients that are merged into one row.
type Rest struct {
	// Rows is how many rows of a client and a step of the grain were merged. A client
	// can be in several.
	Rows int64 `json:"rows"`
	Totals
}

// Client is a client under a limit with all evidence.
type Client struct {
	rows.Limit
	Key      string `json:"key"`
	Unhashed bool   `json:"unhashed"`
	// Totals are the decisions that were told: complete for what limited the client,
	// for what was allowed if AllowedKnown.
	Totals
	AllowedKnown bool `json:"allowed_known"`
	// Sampled says that the key belongs to the sample.
	Sampled  bool  `json:"sampled"`
	Decisive int64 `json:"decided"`
	Units    int64 `json:"units"` // those that it requested
	// First and Last are the first and the last decision in the range; FirstSeen is
	// the earliest row that is kept of the client.
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
	FirstSeen time.Time `json:"first_seen"`
	// PeakSecond is the most units asked for in a second on one node, as far as the
	// records of the second came in one batch, as queues bring them. PeakMinute is the
	// most in a minute. Overshoot is the peak in a minute (of the
	// limit's period, if that is longer) as a share of what the limit lets through.
	PeakSecond int64   `json:"peak_second"`
	PeakMinute int64   `json:"peak_minute"`
	Overshoot  float64 `json:"overshoot"`
	// Windows is how many intervals of the grain the client was active in, WindowsOver
	// in how many of them it was refused.
	Windows     int64 `json:"windows"`
	WindowsOver int64 `json:"windows_over"`
	// Early is how many requests came before the Retry-After of an earlier refusal
	// was over; Obeyed is one minus their share of what came after a first refusal.
	Early  int64   `json:"early_retries"`
	Obeyed float64 `json:"retry_after_obeyed"`
	// RetryMS is the longest Retry-After, -1 for never; DelayMS the longest delay;
	// Least the least that remained.
	RetryMS int64 `json:"retry_ms"`
	DelayMS int64 `json:"delay_ms"`
	Least   int64 `json:"min_remaining"`
	// Degraded says that some decisions lacked the usual guarantee, Source what the
	// last was decided from.
	Degraded bool   `json:"degraded"`
	Source   string `json:"source"`
	// About is from the last request. Its users, agents, paths and addresses are
	// how many different ones there were: the most in one record, or an estimate from
	// a sketch of 64 bits over all records if that is more.
	About *event.About `json:"client_info,omitempty"`
	// Answers says how requests that passed were answered.
	Answers *event.Answers `json:"responses,omitempty"`
	// Usual is the client's 95th percentile of units in an hour, of the hours in
	// the seven days before the range in which it was seen; UsualHours is how many
	// those are. Now is the most in an hour of the range.
	Usual      int64 `json:"usual"`
	UsualHours int64 `json:"usual_hours"`
	Now        int64 `json:"now"`
	// Verdict is what the evidence says. Nil where it does not judge.
	Verdict *verdict.Verdict `json:"verdict,omitempty"`
}

// ClientDetail answers GET /v1/analytics/clients/{key}: what is known of a key
// under every limit.
type ClientDetail struct {
	Coverage query.Coverage `json:"coverage"`
	Key      string         `json:"key"`
	Limits   []ClientSeries `json:"limits"`
}

// ClientSeries is a client under a limit, step by step.
type ClientSeries struct {
	Client
	At    []time.Time `json:"at"`
	Lines []Line      `json:"lines"`
	// UnitsAt are the units requested in each step, Busiest the most in a second of it.
	UnitsAt []int64 `json:"units_at"`
	Busiest []int64 `json:"busiest"`
}
