// Package faults logs what goes wrong, each message at most once a second: a store
// that is down fails every request.
package faults

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Log is told of faults. Safe for concurrent use.
type Log struct {
	log  *slog.Logger
	last atomic.Int64 // when IsDue last said so, in seconds since the Unix epoch
	// reported is when each message was last reported: a flood of one hides no other. The code
	// has few of them.
	reported sync.Map
}

// New returns a log that writes to l. Nil means nowhere.
func New(l *slog.Logger) *Log {
	return &Log{log: cmp.Or(l, slog.New(slog.DiscardHandler))}
}

// Report logs err, unless the same message was reported this second.
func (f *Log) Report(msg string, err error) { f.write(slog.LevelError, msg, err) }

// Warn is Report of what is no fault of ours.
func (f *Log) Warn(msg string, err error) { f.write(slog.LevelWarn, msg, err) }

func (f *Log) write(level slog.Level, msg string, err error) {
	last, ok := f.reported.Load(msg)
	if !ok {
		last, _ = f.reported.LoadOrStore(msg, new(atomic.Int64))
	}
	if isDue(last.(*atomic.Int64)) {
		f.log.Log(context.Background(), level, msg, "err", err)
	}
}

// IsDue reports whether it did not say so this second yet, for whoever then logs in
// another way.
func (f *Log) IsDue() bool { return isDue(&f.last) }

func isDue(at *atomic.Int64) bool {
	now := time.Now().Unix()
	last := at.Load()
	return last != now && at.CompareAndSwap(last, now)
}
