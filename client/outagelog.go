package client

import (
	"sync/atomic"
	"time"
)

// betweenWarnings is how long after a warning no other is logged: a service that answers
// now and then must not fill the log.
const betweenWarnings = time.Minute

// outageLog says when to log that checks are decided without the service. Safe for
// concurrent use.
type outageLog struct {
	// open: that an outage began was logged, and that it ended was not.
	open  atomic.Bool
	until atomic.Int64 // Unix nanoseconds: no warning is logged before
}

// begin reports whether to log that a check is decided without the service.
func (o *outageLog) begin(now time.Time) bool {
	until := o.until.Load()
	return !o.open.Load() && now.UnixNano() >= until &&
		o.until.CompareAndSwap(until, now.Add(betweenWarnings).UnixNano()) && !o.open.Swap(true)
}

// end reports whether to log that the service answers again.
func (o *outageLog) end() bool { return o.open.Load() && o.open.Swap(false) }
