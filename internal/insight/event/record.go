package event

import (
	"fmt"
	"time"
)

// Record tells what one client met under one limit: one decision, or several of
// one outcome that came within [Options.Every].
type Record struct {
	// First and Last are when the decisions were made, by the store's clock.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	LimitRef
	// Key is the client, as a keyed hash or in plain. Empty in a record of many
	// clients together, which Merged then counts.
	Key string `json:"key,omitempty"`
	// Unhashed says that Key is not hashed.
	Unhashed bool `json:"unhashed,omitempty"`
	// Merged says that the record is of all clients for whom there was no room.
	Merged bool `json:"merged,omitempty"`
	// Outcome is the word of the weir.Outcome.
	Outcome string `json:"outcome"`
	// Count is how many decisions, Decisive in how many of them the limit's
	// answer was the request's, Cost the units that they asked for together. A
	// Count of zero is of a record that tells Answers alone: the decisions stood
	// in an earlier one.
	Count    int64 `json:"count"`
	Decisive int64 `json:"decided"`
	Cost     int64 `json:"cost"`
	// Early is how many of them came before the Retry-After of an earlier
	// refusal was over.
	Early int64 `json:"early_retries,omitempty"`
	// Least is the least that remained after a decision.
	Least int64 `json:"min_remaining"`
	// RetryMS is the longest Retry-After, -1 for never; DelayMS the longest delay.
	RetryMS int64 `json:"retry_ms,omitempty"`
	DelayMS int64 `json:"delay_ms,omitempty"`
	// Source is what the last of them was decided from; Degraded says that some
	// were without the guarantee that the limit usually gives.
	Source   string `json:"source"`
	Degraded bool   `json:"degraded,omitempty"`
	// Every is how many keys there are for each one that is told: 1 where all
	// are, as for everything but Allowed.
	Every int64 `json:"sample_one_in"`
	// Watched says that an Allowed record is told because its client was limited
	// lately, not because it belongs to the sample.
	Watched bool `json:"recently_limited,omitempty"`
	// About says who asked for what. Nil where front ends knew nothing.
	About *About `json:"client_info,omitempty"`
	// Answers says how requests that passed were answered, of the keys that are
	// sampled or watched. Nil where nothing is known of it.
	Answers *Answers `json:"responses,omitempty"`
	// Arrivals are the single decisions in order of time, of keys of the sample
	// only, at most MaxArrivals.
	Arrivals []Arrival `json:"arrivals,omitempty"`
	// ArrivalsCut says that some are missing from Arrivals.
	ArrivalsCut bool `json:"arrivals_truncated,omitempty"`
}

// Rollup tells how often a limit was met between two instants, on one node.
type Rollup struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	LimitRef
	// Counts is how many decisions had each outcome, by its word. It is exact.
	Counts map[string]uint64 `json:"counts"`
	// Requests is how many requests of the whole domain there were on the node in this
	// time, by what became of them: RequestAllowed, RequestRefused and RequestFailed.
	// Each is counted once, however many limits it met, and also if it met none. One
	// roll-up of a domain has it, the others nil; where no limit of the domain was met, it
	// is one without a rule and a limit.
	Requests map[string]uint64 `json:"requests,omitempty"`
	// Latency tells how long the decisions took that met the limit, of a sample. Nil
	// where no time was taken.
	Latency *Latency `json:"latency,omitempty"`
	// Responses tells how the requests that passed were answered in this time. Nil where
	// no answer was seen.
	Responses *ResponseTotals `json:"responses,omitempty"`
}

// Loss tells how many decisions the records of a node leave out since it
// started. The roll-ups have them all.
type Loss struct {
	// Dropped is how many found the ring full.
	Dropped uint64 `json:"dropped"`
	// Discarded is how many were in events that the queue did not take in time.
	Discarded uint64 `json:"discarded"`
	// Rollups is how many roll-ups the queue did not take in time.
	Rollups uint64 `json:"rollups"`
	// Failed is how many requests the store could not decide at all.
	Failed uint64 `json:"failed"`
}

// Event is what a queue carries: exactly one of Record, Rollup and Loss.
type Event struct {
	// Source is the node, and a number that it drew when it started. Sequence
	// counts its events from one. Together they name the event, so that who hears
	// it twice counts it once.
	Source   string
	Sequence uint64
	Time     time.Time
	// Region is the node's, empty where it has none.
	Region string

	Record *Record
	Rollup *Rollup
	Loss   *Loss
}

// ID returns the event's name.
func (e *Event) ID() string { return fmt.Sprintf("%s/%d", e.Source, e.Sequence) }
