package event

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/bubble"
)

// A queue that takes a single batch at the end takes the roll-ups, which came last.
func TestRollupsFirstAtTheEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		local := NewLocal(1)
		b := newOutbox(local, 10*maxBatch, slog.New(slog.DiscardHandler))
		events := make([]Event, 0, 3*maxBatch)
		for range 3*maxBatch - 1 {
			events = append(events, Event{Record: &Record{Count: 2}})
		}
		b.addEvents(append(events, Event{Rollup: &Rollup{}}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.flushEvents(ctx); err == nil {
			t.Error("a queue of one batch took three")
		}
		if got, want := b.readLoss(), (Loss{Discarded: 2 * 2 * maxBatch}); got != want {
			t.Errorf("lost %+v, want %+v", got, want)
		}
		if batch := <-local.batches; batch[0].Rollup == nil {
			t.Error("the roll-up is not the first to be handed over")
		}
	})
}
