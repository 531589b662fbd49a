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

// beginOutage reports whether to log that a check is decided without the service.
func (o *outageLog) beginOutage(now time.Time) bool {
	until := o.until.Load()
	return !o.open.Load() && now.UnixNano() >= until &&
		o.until.CompareAndSwap(until, now.Add(betweenWarnings).UnixNano()) && !o.open.Swap(true)
}

// endOutage reports whether to log that the service answers again.
func (o *outageLog) endOutage() bool { return o.open.Load() && o.open.Swap(false) }
