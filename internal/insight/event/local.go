package event

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/weirlimit/weir/internal/backoff"
)

// ErrClosed is returned by a queue that is closed.
var ErrClosed = errors.New("event: the queue is closed")

// Local is a queue within the process: a Queue and its only Source. What it holds
// ends with the process. Make it with NewLocal.
type Local struct {
	batches chan []Event
	closed  chan struct{}
	once    sync.Once
	// back is a batch that was not taken.
	back []Event
}

var (
	_ Queue  = (*Local)(nil)
	_ Source = (*Local)(nil)
)

// NewLocal returns a queue that holds so many batches; it is full then, and
// Publish waits.
func NewLocal(batches int) *Local {
	return &Local{batches: make(chan []Event, batches), closed: make(chan struct{})}
}

// Publish implements Queue.
func (l *Local) Publish(ctx context.Context, batch []Event) error {
	select {
	case <-l.closed:
		return ErrClosed
	default:
	}
	select {
	case l.batches <- slices.Clone(batch):
		return nil
	case <-l.closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Receive implements Source. It must not be called twice at a time. When the queue
// is closed it hands out what is left.
func (l *Local) Receive(ctx context.Context, take func(context.Context, []Event) error) error {
	var wait backoff.Backoff
	for {
		if l.back == nil {
			if l.back = l.nextBatch(ctx); l.back == nil {
				return nil
			}
		}
		if take(ctx, l.back) == nil {
			l.back = nil
			wait.Reset()
			continue
		}
		if !wait.Sleep(ctx) {
			return nil
		}
	}
}

// nextBatch returns a batch, nil when ctx has ended, or the queue is closed and empty.
func (l *Local) nextBatch(ctx context.Context) []Event {
	select {
	case b := <-l.batches:
		return b
	default:
	}
	select {
	case b := <-l.batches:
		return b
	case <-ctx.Done():
		return nil
	case <-l.closed:
	}
	select {
	case b := <-l.batches:
		return b
	default:
		return nil
	}
}

// Close implements Queue and Source.
func (l *Local) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}
