package event_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/bubble"
)

// What a taker fails to take comes again, in order, and what is left when the queue
// is closed is handed out.
func TestLocal(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := event.NewLocal(4)
		ctx := t.Context()
		var got []uint64
		fails := 3
		done := make(chan error, 1)
		go func() {
			done <- q.Receive(ctx, func(_ context.Context, batch []event.Event) error {
				if fails--; fails >= 0 {
					return errBroken
				}
				for _, e := range batch {
					got = append(got, e.Sequence)
				}
				return nil
			})
		}()
		batch := make([]event.Event, 2)
		for i := range 10 {
			batch[0].Sequence, batch[1].Sequence = uint64(2*i), uint64(2*i+1) // the queue keeps its own copy
			if err := q.Publish(ctx, batch); err != nil {
				t.Fatal(err)
			}
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if want := "[0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
		if err := q.Publish(ctx, batch); !errors.Is(err, event.ErrClosed) {
			t.Errorf("publishing after it was closed: %v", err)
		}
	})
}

// A full queue makes its publisher wait, until the publisher has waited enough.
func TestLocalIsBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q := event.NewLocal(1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.Publish(ctx, make([]event.Event, 1)); err != nil {
			t.Fatal(err)
		}
		if err := q.Publish(ctx, make([]event.Event, 1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		// A source that ends keeps what was not taken for the next one.
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.Receive(ctx, func(context.Context, []event.Event) error { return errBroken }); err != nil {
			t.Error(err)
		}
		n := 0
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.Receive(ctx, func(_ context.Context, b []event.Event) error { n += len(b); return nil }); err != nil || n != 1 {
			t.Errorf("%d events, %v", n, err)
		}
	})
}
