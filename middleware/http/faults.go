package httplimit

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// faults logs what goes wrong, at most one a second: a store that is down fails
// every request. Safe for concurrent use.
type faults struct {
	log  *slog.Logger
	last atomic.Int64 // when, in seconds since the Unix epoch
}

func (f *faults) report(msg string, err error) {
	now := time.Now().Unix()
	if last := f.last.Load(); last != now && f.last.CompareAndSwap(last, now) {
		f.log.Error(msg, "err", err)
	}
}
