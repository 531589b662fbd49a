package broker

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/insight/event"
)

// DeadLetterSuffix ends the name of where messages go that are not events, ErrorHeader is
// the header there that has the reason.
const (
	DeadLetterSuffix = ".dlq"
	ErrorHeader      = "weir-error"
)

// Source is what the sources of all queues have in common. The zero value is ready. Safe
// for concurrent use.
type Source struct {
	life                 Life
	deadLetters, dropped atomic.Uint64
}

// DeadLetters returns how many messages, or parts of them, were not events and moved to the
// dead-letter queue.
func (s *Source) DeadLetters() uint64 { return s.deadLetters.Load() }

// Dropped returns how many messages, or parts of them, were not events and dropped because
// the dead-letter queue refused them for ten seconds.
func (s *Source) Dropped() uint64 { return s.dropped.Load() }

// Close implements event.Source. It ends Receive, which then returns event.ErrClosed. The
// error is nil.
func (s *Source) Close() error {
	s.life.Close()
	return nil
}

// Run is a call of Receive: it calls receive with a context that ends with ctx or when the
// source is closed. It returns the error of receive, or event.ErrClosed once it is closed.
func (s *Source) Run(ctx context.Context, receive func(context.Context) error) error {
	ctx, leave, err := s.life.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := receive(ctx); err != nil {
		return err
	}
	if s.life.Closed() {
		return event.ErrClosed
	}
	return nil
}

// DeadLetterQueue is where messages go that are not events.
type DeadLetterQueue struct {
	// Kind is what the broker calls it, Name which one it is.
	Kind, Name string
	// Put moves a piece there, Responds reports whether the broker responds at all.
	Put      func(context.Context, Unread) error
	Responds func(context.Context) bool
	Log      *slog.Logger
}

// MoveToDeadLetters moves pieces of messages out of the way of others, and drops what the
// dead-letter queue refuses; both are counted and logged. With an error the broker does not
// respond, or ctx has ended, and the pieces that it returns are left.
func (s *Source) MoveToDeadLetters(ctx context.Context, pieces []Unread, to DeadLetterQueue) (left []Unread, err error) {
	put := func(ctx context.Context, u Unread) error {
		if err := to.Put(ctx, u); err != nil {
			return err
		}
		s.deadLetters.Add(1)
		to.Log.Warn("invalid message moved to the dead-letter "+to.Kind, append([]any{to.Kind, to.Name, "err", u.Err}, u.At...)...)
		return nil
	}
	left, down, err := MoveToDeadLetters(ctx, pieces, put, to.Responds)
	if down {
		return left, fmt.Errorf("cannot move an invalid message to the dead-letter %s: %w", to.Kind, err)
	}
	s.dropped.Add(uint64(len(left)))
	for _, u := range left {
		to.Log.Error("invalid message dropped; the dead-letter "+to.Kind+" refused it", append([]any{to.Kind, to.Name, "reason", u.Err, "err", err}, u.At...)...)
	}
	return nil, nil
}
