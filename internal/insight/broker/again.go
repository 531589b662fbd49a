package broker

import (
	"context"
	"log/slog"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/insight/event"
)

// Take calls take with a batch until it takes it. It returns false when ctx ends
// before.
func Take(ctx context.Context, log *slog.Logger, batch []event.Event, take func(context.Context, []event.Event) error) bool {
	if len(batch) == 0 {
		return true
	}
	var wait backoff.Backoff
	for {
		err := take(ctx, batch)
		if err == nil {
			if wait.Tries() > 0 {
				log.Info("events accepted again", "tries", wait.Tries())
			}
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if wait.Tries() == 0 {
			log.Warn("events not accepted; will retry", "err", err, "events", len(batch))
		}
		if !wait.Sleep(ctx) {
			return false
		}
	}
}

// Again calls consume until ctx ends, after a wait that grows from one failure to
// the next: consume resets it when something went well. Of failures in a row the first is
// logged, and that something went well again.
func Again(ctx context.Context, log *slog.Logger, consume func(*backoff.Backoff) error) {
	wait := backoff.Backoff{Back: func() { log.Info("event fetch recovered") }}
	for ctx.Err() == nil {
		err := consume(&wait)
		if ctx.Err() != nil {
			return
		}
		if wait.Tries() == 0 {
			log.Warn("event fetch failed; will retry", "err", err)
		}
		wait.Sleep(ctx)
	}
}
