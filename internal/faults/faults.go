// Package faults logs what goes wrong, at most once a second: a store that is
// down fails every request.
package faults

import (
	"cmp"
	"log/slog"
	"sync/atomic"
	"time"
)

// Log is told of faults. Safe for concurrent use.
type Log struct {
	log  *slog.Logger
	last atomic.Int64 // when, in seconds since the Unix epoch
}

// New returns a log that writes to l. Nil means nowhere.
func New(l *slog.Logger) *Log {
	return &Log{log: cmp.Or(l, slog.New(slog.DiscardHandler))}
}

// Report logs err, unless something was logged this second.
func (f *Log) Report(msg string, err error) {
	if f.IsDue() {
		f.log.Error(msg, "err", err)
	}
}

// IsDue reports whether nothing was logged this second, for whoever then logs in
// another way.
func (f *Log) IsDue() bool {
	now := time.Now().Unix()
	last := f.last.Load()
	return last != now && f.last.CompareAndSwap(last, now)
}
