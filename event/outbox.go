package event

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// maxBatch is the most events that are handed over at once.
	maxBatch = 1000
	// A queue that takes nothing is tried again after minBackoff, then after twice
	// as long, at most maxBackoff.
	minBackoff = 100 * time.Millisecond
	maxBackoff = 10 * time.Second
	// maxPublish bounds one attempt.
	maxPublish = 30 * time.Second
)

// outbox keeps events until the queue has taken them, up to a bound. Safe for
// concurrent use.
type outbox struct {
	queue Queue
	max   int
	log   *slog.Logger
	// wake holds a token when there is something to send; ending is closed when no
	// more is to be begun.
	wake, ending chan struct{}

	mu sync.Mutex
	// events in the order in which they came; those of a batch that is being
	// handed over, which sending counts, are not among them.
	events  []Event
	sending int
	lost    Loss
	// published counts events, failures attempts; away says that the last failed,
	// began when the one under way did.
	published, failures uint64
	away                bool
	began               time.Time
}

func newOutbox(q Queue, max int, log *slog.Logger) *outbox {
	return &outbox{queue: q, max: max, log: log, wake: make(chan struct{}, 1), ending: make(chan struct{})}
}

// put adds events. Where there is no room the oldest records make way, then the
// oldest roll-ups.
func (b *outbox) put(events []Event) {
	b.mu.Lock()
	b.events = append(b.events, events...)
	// Invariant: sending is at most half of max, or one.
	if over := len(b.events) + b.sending - b.max; over > 0 {
		b.discard(over)
	}
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// discard drops n events.
func (b *outbox) discard(n int) {
	kept := b.events[:0]
	for i := range b.events {
		if e := &b.events[i]; n > 0 && e.Record != nil {
			b.lost.Discarded += uint64(e.Record.Count)
			n--
			continue
		}
		kept = append(kept, b.events[i])
	}
	clear(b.events[len(kept):])
	for i := range n { // none but roll-ups and losses are left
		b.lose(&kept[i])
	}
	b.events = kept[max(n, 0):]
}

// lose counts an event that the queue does not get. Requires: mu is held.
func (b *outbox) lose(e *Event) {
	switch {
	case e.Record != nil:
		b.lost.Discarded += uint64(e.Record.Count)
	case e.Rollup != nil && e.Rollup.Limit != "": // not of a domain alone
		b.lost.Rollups++
	}
}

// behind reports whether so many events wait that arrivals, which can make one of
// ten times the size, are left out.
func (b *outbox) behind() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.events) > b.max/16
}

func (b *outbox) loss() Loss {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost
}

// batch takes out the next events to be sent.
func (b *outbox) batch() []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	// Half of the bound at most, so that roll-ups find room whatever is under way.
	n := min(len(b.events), maxBatch, max(b.max/2, 1))
	if n == 0 {
		return nil
	}
	out := make([]Event, n)
	copy(out, b.events)
	b.events, b.sending, b.began = b.events[n:], n, time.Now()
	return out
}

// run hands events to the queue until it is to end; what is under way then has until
// ctx ends. What is left is flush's.
func (b *outbox) run(ctx context.Context) {
	for {
		select {
		case <-b.ending:
			return
		case <-b.wake:
		}
		for batch := b.batch(); batch != nil; batch = b.batch() {
			if !b.send(ctx, batch) {
				b.giveBack(batch)
				return
			}
			if b.ends() {
				return
			}
		}
	}
}

// ends reports whether no more is to be begun.
func (b *outbox) ends() bool {
	select {
	case <-b.ending:
		return true
	default:
		return false
	}
}

// send hands over a batch, however often that takes, until that is to end.
func (b *outbox) send(ctx context.Context, batch []Event) bool {
	wait := minBackoff
	for tries := 1; ; tries++ {
		err := b.publish(ctx, batch)
		if err == nil {
			if tries > 1 {
				b.log.Info("the queue takes events again", "tries", tries)
			}
			return true
		}
		if ctx.Err() != nil || b.ends() {
			return false
		}
		if tries == 1 {
			b.log.Warn("the queue takes no events; they are kept up to a bound", "err", err, "bound", b.max)
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-b.ending:
			t.Stop()
			return false
		}
		wait = min(2*wait, maxBackoff)
	}
}

func (b *outbox) publish(ctx context.Context, batch []Event) error {
	bounded, cancel := context.WithTimeout(ctx, maxPublish)
	defer cancel()
	err := b.queue.Publish(bounded, batch)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
		b.published, b.sending, b.away = b.published+uint64(len(batch)), 0, false
	case ctx.Err() == nil:
		b.failures, b.away = b.failures+1, true
	}
	return err
}

// giveBack puts a batch that was not sent to where it was.
func (b *outbox) giveBack(batch []Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events, b.sending = append(batch, b.events...), 0
}

// flush hands over what is left, once, and counts what the queue does not take: of
// more than a batch, records last.
func (b *outbox) flush(ctx context.Context) error {
	b.hurry()
	var failed error
	for batch := b.batch(); batch != nil; batch = b.batch() {
		if failed == nil {
			failed = b.publish(ctx, batch)
		}
		if failed == nil {
			continue
		}
		b.mu.Lock()
		b.sending = 0
		for i := range batch {
			b.lose(&batch[i])
		}
		b.mu.Unlock()
	}
	return failed
}

// hurry moves records behind all else where there is more than one batch: a slow queue
// need not take the last in time.
func (b *outbox) hurry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) <= maxBatch {
		return
	}
	slices.SortStableFunc(b.events, func(x, y Event) int {
		switch {
		case x.Record == nil && y.Record != nil:
			return -1
		case x.Record != nil && y.Record == nil:
			return 1
		}
		return 0
	})
}
