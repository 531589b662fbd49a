// Package filewatch says when files are to be looked at again: when they have changed and
// are left alone since, when changes may have been missed, and from time to time, for
// file systems that report no change.
package filewatch

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Options configures a [Watcher].
type Options struct {
	// Settle is how long files must be left alone before they are looked at: what is
	// written in pieces is not read in between.
	Settle time.Duration
	// SettleMost is how long further changes may put that off. Zero means for ever.
	SettleMost time.Duration
	// Poll is how long files go without a look if no change is reported. Required.
	Poll time.Duration
	// Counts reports whether an event may have changed what the files hold. Nil means
	// that each may.
	Counts func(fsnotify.Event) bool
	// Name of the files in the log, and Log. Required.
	Name string
	Log  *slog.Logger
}

// Watcher reports when files are to be looked at. It is for one goroutine.
type Watcher struct {
	// Notify reports what changes in the folders. Nil where the system cannot: then files
	// are polled.
	Notify *fsnotify.Watcher

	opt     Options
	folders map[string]bool // those that Follow watches
	// since is when the first change was reported that nobody has looked at; zero for none.
	since time.Time
}

// New returns a watcher that watches nothing yet. It is to be closed.
func New(opt Options) *Watcher {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		opt.Log.Warn("file watch failed; polling instead", "files", opt.Name, "every", opt.Poll, "err", err)
	}
	return &Watcher{Notify: notify, opt: opt, folders: map[string]bool{}}
}

// Add watches one folder, also one that is watched and has been made anew. The error is
// that of the system, such as that there is no such folder.
func (w *Watcher) Add(folder string) error {
	if w.Notify == nil {
		return nil
	}
	return w.Notify.Add(folder)
}

// Close ends the watches, which never fails.
func (w *Watcher) Close() error {
	if w.Notify == nil {
		return nil
	}
	return w.Notify.Close()
}

// Wait returns when files are to be looked at, and whether they have changed or may have.
// The error is that of a context that has ended. Watch folders before a look, so that what
// changes after it is reported.
func (w *Watcher) Wait(ctx context.Context) (changed bool, err error) {
	var events chan fsnotify.Event
	var errs chan error
	if w.Notify != nil {
		events, errs = w.Notify.Events, w.Notify.Errors
	}
	settled, poll := w.settled(), time.After(w.opt.Poll)
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case e := <-events:
			if w.opt.Counts == nil || w.opt.Counts(e) {
				w.since = cmp.Or(w.since, time.Now())
				settled = w.settled()
			}
		case err := <-errs:
			w.opt.Log.Warn("file watch lost events; checking all files", "files", w.opt.Name, "err", err)
			return false, nil
		case <-settled:
			w.since = time.Time{}
			return true, nil
		case <-poll:
			return false, nil
		}
	}
}

// settled returns what is ready once changes that were reported are to be looked at; nil if
// there are none.
func (w *Watcher) settled() <-chan time.Time {
	if w.since.IsZero() {
		return nil
	}
	wait := w.opt.Settle
	if w.opt.SettleMost > 0 {
		wait = min(wait, w.opt.SettleMost-time.Since(w.since))
	}
	return time.After(wait)
}
