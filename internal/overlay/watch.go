package overlay

import (
	"context"
	"errors"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/documents"
)

const (
	// writeTimeout is how long the board may take to answer.
	writeTimeout = 2 * time.Second
	// longestPauses is the longest pause between two looks, in looks.
	longestPauses = 5
)

// Watch looks for new versions until ctx ends, more seldom while the board does
// not answer.
func (o *Overlay) Watch(ctx context.Context) {
	wait, retry := o.opt.Every, backoff.Backoff{Min: 2 * o.opt.Every, Max: longestPauses * o.opt.Every}
	for backoff.Sleep(ctx, wait) {
		asked, cancel := context.WithTimeout(ctx, writeTimeout)
		err := o.Refresh(asked)
		cancel()
		if ctx.Err() != nil {
			return
		}
		o.note(err)
		if err == nil || errors.Is(err, ErrUnread) {
			wait = o.opt.Every
			retry.Reset()
		} else {
			wait = retry.Next()
		}
	}
}

// note logs that the board fails, and that it is back, once each. A failure of the store
// is logged when it is the second in a row: the store logs the first itself. It is called
// by New, and then by Watch.
func (o *Overlay) note(err error) {
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
	isNew, err := o.state.look(ctx, o)
	if isNew {
		n := o.Count()
		o.opt.Logger.Info("operator changes loaded", "bans", n.Bans, "overrides", n.Overrides, "allowed", n.Allowed, "modes", n.Modes)
	}
	o.history.again(ctx, o)
	return err
}

// read reads a document unless its version is known.
func (o *Overlay) read(ctx context.Context, name string, known int64) (documents.Document, error) {
	sent := o.clock.elapsed()
	d, err := o.opt.Board.ReadDocument(ctx, name, known)
	if err == nil {
		o.clock.adjust(d.Now, sent, o.clock.elapsed())
	}
	return d, err
}
