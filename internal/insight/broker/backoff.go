package broker

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/insight/event"
)

const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 10 * time.Second
)

// Backoff is how long to wait before trying again: 100 ms, then twice as long
// each time, at most ten seconds, and up to a quarter less, so that many do not
// come at once. The zero value is ready.
type Backoff struct {
	tries int
	// Back is called by a Reset after a failure. Nil means nobody is.
	Back func()
}

// After returns the wait before the given try, from one on.
func After(try int) time.Duration {
	d := maxBackoff
	if try < 8 {
		d = min(minBackoff<<max(try-1, 0), maxBackoff)
	}
	return d - rand.N(d/4)
}

// Tries returns how often Sleep was called since the last Reset.
func (b *Backoff) Tries() int { return b.tries }

// Reset makes the next wait short again.
func (b *Backoff) Reset() {
	if b.tries > 0 && b.Back != nil {
		b.Back()
	}
	b.tries = 0
}

// Sleep waits. It returns false when ctx ends before.
func (b *Backoff) Sleep(ctx context.Context) bool {
	b.tries++
	return backoff.Sleep(ctx, After(b.tries))
}

// Take calls take with a batch until it takes it. It returns false when ctx ends
// before.
func Take(ctx context.Context, log *slog.Logger, batch []event.Event, take func(context.Context, []event.Event) error) bool {
	if len(batch) == 0 {
		return true
	}
	var wait Backoff
	for {
		err := take(ctx, batch)
		if err == nil {
			if wait.Tries() > 0 {
				log.Info("events are taken again", "tries", wait.Tries())
			}
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if wait.Tries() == 0 {
			log.Warn("events are not taken; they are offered again", "err", err, "events", len(batch))
		}
		if !wait.Sleep(ctx) {
			return false
		}
	}
}

// Again calls consume until ctx ends, after a wait that grows from one failure to
// the next: consume resets it when something went well. Of failures in a row failed
// is told the first, and back when something went well again.
func Again(ctx context.Context, consume func(*Backoff) error, failed func(error), back func()) {
	wait := Backoff{Back: back}
	for ctx.Err() == nil {
		err := consume(&wait)
		if ctx.Err() != nil {
			return
		}
		if wait.Tries() == 0 {
			failed(err)
		}
		wait.Sleep(ctx)
	}
}
