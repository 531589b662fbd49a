package overlay

import (
	"context"
	"errors"
	"time"

	"github.com/weirlimit/weir"
)

const (
	// patience is how long the board may take to answer.
	patience = 2 * time.Second
	// backOff is the longest pause between two looks, in looks.
	backOff = 5
)

// Watch looks for new versions until ctx ends, more seldom while the board does
// not answer.
func (o *Overlay) Watch(ctx context.Context) {
	wait := o.opt.Every
	for pause(ctx, wait) == nil {
		asked, cancel := context.WithTimeout(ctx, patience)
		err := o.Refresh(asked)
		cancel()
		if ctx.Err() != nil {
			return
		}
		o.note(err)
		if err == nil || errors.Is(err, ErrUnread) {
			wait = o.opt.Every
		} else {
			wait = min(2*wait, backOff*o.opt.Every)
		}
	}
}

// note logs that the board fails, and that it is back, once each.
func (o *Overlay) note(err error) {
	o.mu.Lock()
	was := o.failing
	o.failing = err != nil
	o.mu.Unlock()
	switch {
	case err != nil && !was:
		o.opt.Logger.Error("bans and overrides cannot be read: those that are known stay", "err", err)
	case err == nil && was:
		o.opt.Logger.Info("bans and overrides can be read again")
	}
}

// Refresh looks for a new version now.
func (o *Overlay) Refresh(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	d, err := o.read(ctx, o.seen)
	switch {
	case errors.Is(err, weir.ErrDocument):
		return errors.Join(ErrUnread, err)
	case err != nil:
		return err
	case d.Version < o.version:
		return o.putBack(ctx, d.Version)
	case d.Version == 0:
		o.seen = 0
		return nil
	case d.Version == o.seen && d.Version != o.version:
		return ErrUnread // and it was said why
	case d.Version == o.seen:
		return nil
	}
	o.seen = d.Version
	entries, err := Decode(d.Data)
	if err != nil {
		return errors.Join(ErrUnread, err)
	}
	o.install(d.Version, d.Data, entries)
	bans := 0
	for i := range entries {
		if entries[i].Kind == Ban {
			bans++
		}
	}
	o.opt.Logger.Info("bans and overrides loaded", "version", d.Version, "bans", bans, "overrides", len(entries)-bans)
	return nil
}

// putBack puts the node's document in the place of an older one or of none: the
// board has lost it. Requires: mu.
func (o *Overlay) putBack(ctx context.Context, was int64) error {
	d, err := o.opt.Board.SwapDocument(ctx, o.opt.Name, was, weir.Document{Version: o.version, Data: o.data})
	if err != nil {
		if errors.Is(err, weir.ErrChanged) {
			return nil // another node was faster: the next look shows
		}
		return err
	}
	o.opt.Logger.Warn("the store had lost the bans and overrides: put back", "version", d.Version)
	o.version, o.seen = d.Version, d.Version
	return nil
}

// read reads the document unless its version is known. Requires: mu.
func (o *Overlay) read(ctx context.Context, known int64) (weir.Document, error) {
	sent := o.clock.elapsed()
	d, err := o.opt.Board.ReadDocument(ctx, o.opt.Name, known)
	if err == nil {
		o.clock.heard(d.Now, sent, o.clock.elapsed())
	}
	return d, err
}

// install puts a document in use. Requires: mu.
func (o *Overlay) install(version int64, data []byte, entries []Entry) {
	o.version, o.seen, o.data = version, version, data
	o.set.Store(newSet(entries, o.set.Load()))
}
