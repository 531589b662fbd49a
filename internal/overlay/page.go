package overlay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/documents"
)

// A page is one document on the board, and what the node has of it. Its methods
// require mu, but for look.
type page[E any] struct {
	board  *board
	name   string
	decode func([]byte) ([]E, error)
	// encode returns the document of entries, and those of them that are in it.
	encode func([]E) ([]byte, []E, error)
	// install puts entries in use. Nil where nothing does.
	install func([]E)

	mu sync.Mutex // held while the board is asked
	// version and list are of the document in use, 0 before there was one; list is not
	// changed in place. seen is the version of the last one that was read, good
	// or bad, and fault why that is bad.
	version, seen int64
	list          []E
	fault         error
}

// lookForVersion looks for a new version and puts it in use, or puts the node's own back. It
// reports whether there is a new one.
func (p *page[E]) lookForVersion(ctx context.Context) (isNew bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.version
	version, err := p.loadDocument(ctx)
	if err == nil && version < p.version {
		return false, p.putBack(ctx, version)
	}
	return p.version != was, err
}

// loadDocument puts the document on the board in use, unless it is older than that in use: then
// the board has lost that. It returns the version of the document on the board.
func (p *page[E]) loadDocument(ctx context.Context) (version int64, err error) {
	d, err := p.board.ReadDocument(ctx, p.name, p.seen)
	switch {
	case errors.Is(err, documents.ErrDocument):
		return 0, p.unreadError(err)
	case err != nil:
		return 0, err
	case d.Version < p.version || d.Version == 0:
		p.seen, p.fault = p.version, nil
		return d.Version, nil
	case d.Version == p.seen:
		return d.Version, p.fault
	}
	p.seen = d.Version
	entries, err := p.decode(d.Data)
	if err != nil {
		p.fault = p.unreadError(err)
		return 0, p.fault
	}
	p.putInUse(d.Version, entries)
	return d.Version, nil
}

// putBack puts the node's document in the place of an older one or of none: the
// board has lost it.
func (p *page[E]) putBack(ctx context.Context, was int64) error {
	data, _, err := p.encode(p.list)
	if err != nil {
		return err
	}
	d, err := p.board.SwapDocument(ctx, p.name, was, documents.Document{Version: p.version, Data: data})
	switch {
	case errors.Is(err, documents.ErrChanged):
		return nil // another node was faster: the next look shows
	case err != nil:
		return err
	}
	p.board.logger.Warn("operator changes lost by the store were restored", "document", p.name, "version", d.Version)
	p.version, p.seen = d.Version, d.Version
	return nil
}

// putInUse puts a document in use.
func (p *page[E]) putInUse(version int64, entries []E) {
	p.version, p.seen, p.list, p.fault = version, version, entries, nil
	if p.install != nil {
		p.install(entries)
	}
}

const (
	// tries is how often a change is made anew when another node was faster, and
	// longestPause the most that it waits before.
	tries        = 64
	longestPause = 40 * time.Millisecond
)

// changeEntries makes a change by compare and set: of a copy of the entries that are on the
// board f makes those that shall be, and says whether there is a change.
func (p *page[E]) changeEntries(ctx context.Context, f func(all []E) ([]E, bool)) error {
	for range tries {
		version, err := p.loadDocument(ctx)
		if err != nil {
			return asChange(err)
		}
		next, changed := f(slices.Clone(p.list))
		if !changed {
			return nil
		}
		data, next, err := p.encode(next)
		if err != nil {
			return err
		}
		put, err := p.board.SwapDocument(ctx, p.name, version, documents.Document{Version: p.version, Data: data})
		switch {
		case err == nil:
			p.putInUse(put.Version, next)
			return nil
		case errors.As(err, new(*FileError)):
			return err
		case !errors.Is(err, documents.ErrChanged):
			return &StoreError{err, true}
		}
		if !backoff.Sleep(ctx, rand.N(longestPause)) {
			return &StoreError{ctx.Err(), false}
		}
	}
	return ErrContended
}

// asChange returns the error of a look at the board as that of a change.
func asChange(err error) error {
	if errors.Is(err, ErrUnread) {
		return err
	}
	return &StoreError{err, false}
}

// unreadError says which document cannot be read, and why.
func (p *page[E]) unreadError(err error) error {
	return fmt.Errorf("%w (document %s: %w)", ErrUnread, p.name, err)
}
