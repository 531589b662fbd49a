package overlay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/documents"
)

// A page is one document on the board, and what the node has of it. Requires:
// Overlay.mu.
type page[E any] struct {
	name   string
	decode func([]byte) ([]E, error)
	encode func([]E) ([]byte, error)
	over   func(e *E, now int64) bool
	// install puts entries in use.
	install func([]E)
	// version and data are of the document in use, 0 before there was one; seen is
	// that of the last one that was read, good or bad.
	version, seen int64
	data          []byte
}

// look looks for a new version and puts it in use. It returns the entries of one,
// nil when there is nothing new.
func (p *page[E]) look(ctx context.Context, o *Overlay) ([]E, error) {
	d, err := o.read(ctx, p.name, p.seen)
	switch {
	case errors.Is(err, documents.ErrDocument):
		return nil, p.unread(err)
	case err != nil:
		return nil, err
	case d.Version < p.version:
		return nil, p.putBack(ctx, o, d.Version)
	case d.Version == 0:
		p.seen = 0
		return nil, nil
	case d.Version == p.seen && d.Version != p.version:
		return nil, ErrUnread // and it was said why
	case d.Version == p.seen:
		return nil, nil
	}
	p.seen = d.Version
	entries, err := p.decode(d.Data)
	if err != nil {
		return nil, p.unread(err)
	}
	p.put(d.Version, d.Data, entries)
	return entries, nil
}

// putBack puts the node's document in the place of an older one or of none: the
// board has lost it.
func (p *page[E]) putBack(ctx context.Context, o *Overlay, was int64) error {
	d, err := o.opt.Board.SwapDocument(ctx, p.name, was, documents.Document{Version: p.version, Data: p.data})
	if err != nil {
		if errors.Is(err, documents.ErrChanged) {
			return nil // another node was faster: the next look shows
		}
		return err
	}
	o.opt.Logger.Warn("operator changes lost by the store were restored", "document", p.name, "version", d.Version)
	p.version, p.seen = d.Version, d.Version
	return nil
}

// put puts a document in use.
func (p *page[E]) put(version int64, data []byte, entries []E) {
	p.version, p.seen, p.data = version, version, data
	p.install(entries)
}

const (
	// tries is how often a change is made anew when another node was faster, and
	// longestPause the most that it waits before.
	tries        = 64
	longestPause = 40 * time.Millisecond
)

// change makes a change by compare and set: of the entries that are on the board
// and not over, f makes those that shall be, and says whether there is a change.
func change[E any](ctx context.Context, o *Overlay, p *page[E], f func(all []E, now int64) ([]E, bool)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for range tries {
		d, entries, err := p.current(ctx, o)
		if err != nil {
			return err
		}
		now := o.now()
		next, changed := f(slices.DeleteFunc(entries, func(e E) bool { return p.over(&e, now) }), now)
		if !changed {
			return nil
		}
		data, err := p.encode(next)
		if err != nil {
			return err
		}
		put, err := o.opt.Board.SwapDocument(ctx, p.name, d.Version, documents.Document{Version: p.version, Data: data})
		switch {
		case err == nil:
			p.put(put.Version, data, next)
			return nil
		case !errors.Is(err, documents.ErrChanged):
			return &StoreError{err}
		}
		if !backoff.Sleep(ctx, rand.N(longestPause)) {
			return &StoreError{ctx.Err()}
		}
	}
	return ErrContended
}

// current returns the document on the board and its entries; the node's own if
// the board has an older one or none.
func (p *page[E]) current(ctx context.Context, o *Overlay) (documents.Document, []E, error) {
	d, err := o.read(ctx, p.name, 0)
	switch {
	case errors.Is(err, documents.ErrDocument):
		return d, nil, p.unread(err)
	case err != nil:
		return d, nil, &StoreError{err}
	case d.Version < p.version:
		entries, err := p.decode(p.data)
		return d, entries, err
	case d.Version == 0:
		return d, nil, nil
	}
	entries, err := p.decode(d.Data)
	if err != nil {
		return d, nil, p.unread(err)
	}
	return d, entries, nil
}

// unread says which document cannot be read, and why.
func (p *page[E]) unread(err error) error {
	return fmt.Errorf("%w (document %s: %w)", ErrUnread, p.name, err)
}
