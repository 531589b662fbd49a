package demo

import (
	"context"

	"github.com/weirlimit/weir/internal/insight/event"
)

// batches hands events on to a queue in batches: those of a second are few.
type batches struct {
	queue event.Queue
	wait  []event.Event
}

// fullBatch is how many events are handed on together.
const fullBatch = 1000

// Publish implements event.Queue.
func (b *batches) Publish(ctx context.Context, batch []event.Event) error {
	if b.wait = append(b.wait, batch...); len(b.wait) < fullBatch {
		return nil
	}
	return b.publishWaiting(ctx)
}

// publishWaiting hands on what waits.
func (b *batches) publishWaiting(ctx context.Context) error {
	if len(b.wait) == 0 {
		return nil
	}
	err := b.queue.Publish(ctx, b.wait)
	b.wait = b.wait[:0]
	return err
}

// Close implements event.Queue. The queue is another's to close.
func (b *batches) Close() error { return nil }
