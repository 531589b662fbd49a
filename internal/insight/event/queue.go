package event

import (
	"context"
	"fmt"
)

// Invalid is the error of a Publish that took a batch without some events, which it can
// never take.
type Invalid struct {
	// Events are the places of those in the batch, Err says what is wrong with the first.
	Events []int
	Err    error
}

// Error implements error.
func (u *Invalid) Error() string {
	if len(u.Events) == 1 {
		return u.Err.Error()
	}
	return fmt.Sprintf("%d events cannot be published, the first since %v", len(u.Events), u.Err)
}

// Unwrap returns Err.
func (u *Invalid) Unwrap() error { return u.Err }

// Queue carries events to whoever keeps them. Safe for concurrent use.
type Queue interface {
	// Publish hands over a batch. With a nil error all of it is safe; with an
	// *Invalid all but the events that it names, which the queue can never take; with
	// another error some of it may be, and all of it is handed over again. It returns
	// when ctx ends. The queue must not keep the slice; what the events point to
	// does not change any more.
	Publish(ctx context.Context, batch []Event) error
	// Close ends the queue. What Publish has not returned for may be lost.
	Close() error
}

// Source hands out what a queue carries. Several sources of one queue, in as many
// processes, share its events: each goes to one of them.
type Source interface {
	// Receive calls take with one batch after the other until ctx ends, and then
	// returns nil. A batch is done with when take returns nil. After an error its
	// events come again, perhaps to another source, perhaps in other batches, and so
	// they do when the process ends before take has returned: an event comes once or
	// more often, and Event.ID tells which. What is no event is put aside at the broker,
	// or, where that refuses it for some seconds, left out, counted and logged: it holds up
	// nothing. It returns an error when no more can come.
	Receive(ctx context.Context, take func(ctx context.Context, batch []Event) error) error
	// Close ends the source.
	Close() error
}
