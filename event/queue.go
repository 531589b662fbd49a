package event

import "context"

// Queue carries events to whoever keeps them. Safe for concurrent use.
type Queue interface {
	// Publish hands over a batch. With a nil error all of it is safe; with an
	// error some of it may be, and all of it is handed over again. It returns
	// when ctx ends. The queue must not keep the slice; what the events point to
	// does not change any more.
	Publish(ctx context.Context, batch []Event) error
	// Close ends the queue. What Publish has not returned for may be lost.
	Close() error
}
