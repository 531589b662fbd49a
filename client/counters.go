package client

import (
	"sync/atomic"
	"time"
)

// Counters are what a [Client] has counted since it was made, to be published
// by whatever its caller publishes metrics with.
type Counters struct {
	Calls      int64 `json:"calls"`              // sent to the service
	Failures   int64 `json:"failures"`           // of these, that failed
	Timeouts   int64 `json:"timeouts"`           // that had no answer within the budget
	Busy       int64 `json:"overloaded"`         // that asked to be left alone
	Wrong      int64 `json:"caller_errors"`      // whose caller was at fault
	Remembered int64 `json:"deny_cache_hits"`    // checks answered from memory, without a call
	Broken     int64 `json:"breaker_rejected"`   // calls not made, the breaker was open
	Throttled  int64 `json:"throttled"`          // calls not made, the service fails often
	Crowded    int64 `json:"in_flight_rejected"` // calls not made, too many were under way
	Opened     int64 `json:"breaker_opened"`     // how often the breaker opened
	Allowed    int64 `json:"allowed"`            // checks allowed by Options.Fallback
	Denied     int64 `json:"denied"`             // checks denied by it
	Local      int64 `json:"local"`              // checks decided by Options.Local
	Lost       int64 `json:"lost_leases"`        // leases that may be held by nobody
	InFlight   int64 `json:"in_flight"`          // calls under way now
	// Open: the service is taken to be away now.
	Open bool `json:"breaker_open"`
}

type counts struct {
	calls, failures, timeouts, busy, wrong, remembered, broken, throttled atomic.Int64
	crowded, opened, allowed, denied, local, lost                         atomic.Int64
}

// Counters returns what has been counted. The numbers are read one by one.
func (c *Client) Counters() Counters {
	n := &c.counts
	open, _ := c.breaker.state(time.Now())
	return Counters{
		Calls: n.calls.Load(), Failures: n.failures.Load(), Timeouts: n.timeouts.Load(), Busy: n.busy.Load(),
		Wrong: n.wrong.Load(), Remembered: n.remembered.Load(), Broken: n.broken.Load(),
		Throttled: n.throttled.Load(), Crowded: n.crowded.Load(), Opened: n.opened.Load(),
		Allowed: n.allowed.Load(), Denied: n.denied.Load(), Local: n.local.Load(), Lost: n.lost.Load(),
		InFlight: c.inFlight.Load(), Open: open,
	}
}
