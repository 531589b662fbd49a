package overlay

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
)

const (
	// lookEvery is how often the board is asked for a new version.
	lookEvery = time.Second
	// writeTimeout is how long the board may take to answer.
	writeTimeout = 2 * time.Second
	// longestPauses is the longest pause between two looks, in looks.
	longestPauses = 5
)

// WatchBoard looks for new versions until ctx ends, more seldom while the board does
// not answer.
func (o *Overlay) WatchBoard(ctx context.Context) {
	wait, retry := lookEvery, backoff.Backoff{Min: 2 * lookEvery, Max: longestPauses * lookEvery}
	for backoff.Sleep(ctx, wait) {
		asked, cancel := context.WithTimeout(ctx, writeTimeout)
		err := o.Refresh(asked)
		cancel()
		if ctx.Err() != nil {
			return
		}
		o.logOutage(err)
		if err == nil || errors.Is(err, ErrUnread) {
			wait = lookEvery
			retry.Reset()
		} else {
			wait = retry.Next()
		}
	}
}

// logOutage logs that the board fails, and that it is back, once each. A failure of the store
// is logged when it is the second in a row: the store logs the first itself. It is called
// by New, and then by Watch.
func (o *Overlay) logOutage(err error) {
	if err == nil {
		o.failures = 0
		o.outage.Succeeded()
		return
	}
	o.failures++
	if o.failures > 1 || errors.Is(err, ErrUnread) {
		o.outage.Failed(err)
	}
}

// Refresh looks for a new version now, and writes down changes that could not be
// when they were made.
func (o *Overlay) Refresh(ctx context.Context) error {
	isNew, err := o.entries.lookForVersion(ctx)
	if isNew {
		n := o.CountEntries()
		o.board.logger.Info("operator changes loaded", "bans", n[Ban]+n[BanDomain], "overrides", n[Override], "allowed", n[Allow], "modes", n[KindMode])
	}
	if n, err := o.Audit.writePending(ctx, nil); n > 0 && err == nil { // an error was logged when the change was made
		o.board.logger.Info("audit log write recovered", "changes", n)
	}
	return err
}

// CountEntries returns how many entries of each kind are in force.
func (o *Overlay) CountEntries() map[Kind]int {
	n := map[Kind]int{}
	s, now := o.entries.inUse(), o.board.storeTime()
	for _, e := range slices.Concat(s.keys, s.modes) {
		if !e.hasEnded(now) {
			n[e.Kind]++
		}
	}
	return n
}
