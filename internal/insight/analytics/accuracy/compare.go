package accuracy

import (
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// Alternative is what an algorithm would have made of some arrivals, as reports send it.
type Alternative struct {
	Algorithm string `json:"algorithm"`
	// InUse says that the limit has it. Unsupported says why it cannot keep the limit: then
	// the rest is zero.
	InUse       bool   `json:"in_use"`
	Unsupported string `json:"unsupported_reason,omitempty"`
	// Report is as of decisions that were made.
	Report
	// Refused and Delayed are decisions; LongestDelayMS is the longest delay.
	Refused        int64 `json:"refused"`
	Delayed        int64 `json:"delayed"`
	LongestDelayMS int64 `json:"longest_delay_ms"`
	// BytesPerKey is the state of the fullest key: what its row had at most. Operations is
	// how often a decision read or wrote its row, in the mean: each reads once; a refusal
	// writes nothing.
	BytesPerKey int64   `json:"bytes_per_key"`
	Operations  float64 `json:"operations"`
}

// Compare plays the arrivals of some keys, each in order of time, under every
// algorithm that keeps a limit on a rate by state of the key's own. What was
// decided then does not matter, so clients are taken to come whatever they are
// told. It steps each arrival once under each algorithm.
//
// All get the limit's allowance and period. Buckets and queues get its Burst if it
// is one, and else the allowance, as a rules file does that says nothing of it.
func Compare(l Limit, keys [][]Arrival) ([]Alternative, error) {
	if err := l.checkBounds(); err != nil {
		return nil, err
	}
	var out []Alternative
	for _, a := range algorithm.All {
		limit, err := l.compile(a)
		alt := Alternative{Algorithm: a.Name(), InUse: a.Name() == l.Algorithm}
		if err != nil {
			if ofRates(a, weir.Traits(0)) {
				alt.Unsupported = err.Error()
				out = append(out, alt)
			}
			continue
		}
		if !ofRates(a, limit.Traits()) {
			continue
		}
		if err := alt.playArrivals(l, limit, keys); err != nil {
			return nil, err
		}
		out = append(out, alt)
	}
	return out, nil
}

// playArrivals decides the arrivals of all keys.
func (alt *Alternative) playArrivals(l Limit, limit *weir.Limit, keys [][]Arrival) error {
	l.Algorithm = limit.Algorithm.Name()
	m, err := New(l)
	if err != nil {
		return err
	}
	var decided []Arrival
	var writes int64
	for _, arrivals := range keys {
		row := row{limit: limit}
		var wrote int64
		decided, wrote = decideArrivals(decided[:0], &row, arrivals)
		writes += wrote
		delayed, longest := countWaits(decided)
		alt.Delayed += delayed
		alt.LongestDelayMS = max(alt.LongestDelayMS, longest.Milliseconds())
		m.AddArrivals(decided)
		alt.BytesPerKey = max(alt.BytesPerKey, row.most*8)
	}
	alt.Report = m.Report()
	alt.Refused = alt.Decisions - alt.Admitted
	alt.Operations = 1 + share(writes, alt.Decisions)
	return nil
}
