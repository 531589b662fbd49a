package event

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/faults"
)

const (
	// maxBatch is the most events that are handed over at once.
	maxBatch = 1000
	// maxPublish bounds one attempt.
	maxPublish = 30 * time.Second
)

// outbox keeps events until the queue has taken them, up to a bound. Safe for
// concurrent use.
type outbox struct {
	queue Queue
	max   int
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
	down                bool
	began               time.Time
	// rejected counts events that the queue refuses while it takes others.
	rejected uint64
	faults   *faults.Log
	outage   *faults.Outage

	// suspect is the number of the event that was refused alone last, proofs how often
	// since then another was taken. Only the goroutine that publishes looks at them.
	suspect uint64
	proofs  int
}

func newOutbox(q Queue, max int, log *slog.Logger) *outbox {
	return &outbox{queue: q, max: max, faults: faults.New(log), wake: make(chan struct{}, 1), ending: make(chan struct{}),
		outage: faults.NewOutage(log, "queue unavailable; events are buffered up to a bound, decisions are not affected", "queue recovered", "bound", max)}
}

// addEvents adds events. Where there is no room the oldest records make way, then the
// oldest roll-ups.
func (b *outbox) addEvents(events []Event) {
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
	b.events = slices.DeleteFunc(b.events, func(e Event) bool {
		if n == 0 || e.Record == nil {
			return false
		}
		b.countLost(&e)
		n--
		return true
	})
	for i := range n { // none but roll-ups and losses are left
		b.countLost(&b.events[i])
	}
	b.events = b.events[n:]
}

// countLost counts an event that the queue does not get. Requires: mu is held.
func (b *outbox) countLost(e *Event) {
	switch {
	case e.Record != nil:
		b.lost.Discarded += uint64(e.Record.Count)
	case e.Rollup != nil && e.Rollup.Limit != "": // not of a domain alone
		b.lost.Rollups++
	}
}

// isBehind reports whether so many events wait that arrivals, which can make one of
// ten times the size, are left out.
func (b *outbox) isBehind() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.events) > b.max/16
}

func (b *outbox) readLoss() Loss {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost
}

// takeBatch takes out the next events to be sent.
func (b *outbox) takeBatch() []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	// Half of the bound at most, so that roll-ups find room whatever is under way.
	n := min(len(b.events), maxBatch, max(b.max/2, 1))
	if n == 0 {
		return nil
	}
	out := slices.Clone(b.events[:n])
	b.events, b.sending, b.began = b.events[n:], n, time.Now()
	return out
}

// sendUntilEnd hands events to the queue until it is to end; what is under way then has until
// ctx ends. What is left is flush's.
func (b *outbox) sendUntilEnd(ctx context.Context) {
	for {
		select {
		case <-b.ending:
			return
		case <-b.wake:
		}
		for batch := b.takeBatch(); batch != nil; batch = b.takeBatch() {
			if left := b.sendBatch(ctx, batch); len(left) > 0 {
				b.putBack(left)
				return
			}
			if b.isEnding() {
				return
			}
		}
	}
}

// isEnding reports whether no more is to be begun.
func (b *outbox) isEnding() bool {
	select {
	case <-b.ending:
		return true
	default:
		return false
	}
}

// sendBatch hands over a batch, however often that takes, until that is to end. It returns
// what the queue has not taken then.
func (b *outbox) sendBatch(ctx context.Context, batch []Event) []Event {
	var wait backoff.Backoff
	for tries := 1; ; tries++ {
		err := b.publish(ctx, batch)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || b.isEnding() {
			return batch
		}
		if errors.Is(err, context.DeadlineExceeded) {
			b.outage.Failed(err) // a refusal does not take so long
		}
		if tries > 1 {
			// It may be away, or refuse one of the events.
			on := false
			if batch, on = b.siftBatch(ctx, batch, b.isEnding); len(batch) == 0 {
				return nil
			}
			if on {
				tries = 1
				wait.Reset()
				continue
			}
			b.outage.Failed(err)
		}
		select {
		case <-time.After(wait.Next()):
		case <-b.ending:
			return batch
		}
	}
}

// publish hands over events once. Those that the queue can never take are counted as set
// aside.
func (b *outbox) publish(ctx context.Context, batch []Event) error {
	bounded, cancel := context.WithTimeout(ctx, maxPublish)
	defer cancel()
	err := b.queue.Publish(bounded, batch)
	invalid, some := errors.AsType[*Invalid](err)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil || some:
		taken := len(batch)
		if some {
			for _, i := range invalid.Events {
				b.countRejected(&batch[i], invalid.Err)
				taken--
			}
		}
		b.published, b.sending, b.down = b.published+uint64(taken), b.sending-len(batch), false
		if taken > 0 {
			b.outage.Succeeded()
		}
		return nil
	case ctx.Err() == nil:
		b.failures, b.down = b.failures+1, true
	}
	return err
}

// countRejected counts an event that the queue refuses. Requires: mu is held.
func (b *outbox) countRejected(e *Event, err error) {
	b.countLost(e)
	b.rejected++
	b.down = false
	b.faults.Report("event rejected by the queue; it is skipped", fmt.Errorf("%s: %w", e.ID(), err))
}

const (
	// probes is how many other events are tried to find out whether a queue takes any.
	probes = 4
	// proofs is how often a queue must take another event and refuse the same one after
	// it, until that is set aside.
	proofs = 2
)

// siftBatch finds out whether a queue that refused a batch refuses one of its events or all:
// it hands over ever shorter beginnings of the batch, and where the first event alone is
// refused, others in its stead. It returns what is left of the batch, and whether
// anything was taken or set aside; if nothing was, the queue is away.
func (b *outbox) siftBatch(ctx context.Context, batch []Event, ends func() bool) (left []Event, on bool) {
	for n := len(batch) / 2; n >= 1; n /= 2 {
		if b.publish(ctx, batch[:n]) == nil {
			return batch[n:], true
		}
		if ctx.Err() != nil || ends() {
			return batch, false
		}
	}
	first, rest := batch[:1], batch[1:]
	var why error
	if b.suspect != first[0].Sequence {
		b.suspect, b.proofs = first[0].Sequence, 0
	}
	for ; b.proofs < proofs; b.proofs++ {
		var taken bool
		if rest, taken = b.probeQueue(ctx, rest); !taken || ctx.Err() != nil {
			return slices.Concat(first, rest), on
		}
		on = true
		if why = b.publish(ctx, first); why == nil {
			return rest, true
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sending--
	b.countRejected(&first[0], why)
	return rest, true
}

// probeQueue hands over a single event: of those given the next one, or else some by lot, or
// else the newest of those that wait. It returns the others of those given, and whether
// one was taken.
func (b *outbox) probeQueue(ctx context.Context, from []Event) (left []Event, taken bool) {
	for i := range min(len(from), probes) {
		at := 0
		if i > 0 {
			at = rand.IntN(len(from))
		}
		if b.publish(ctx, from[at:at+1]) == nil {
			return slices.Delete(from, at, at+1), true
		}
	}
	b.mu.Lock()
	last := len(b.events) - 1
	if last < 0 {
		b.mu.Unlock()
		return from, false
	}
	newest := b.events[last]
	b.events, b.sending = b.events[:last], b.sending+1
	b.mu.Unlock()
	if b.publish(ctx, []Event{newest}) == nil {
		return from, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events, b.sending = append(b.events, newest), b.sending-1
	return from, false
}

// putBack puts a batch that was not sent to where it was.
func (b *outbox) putBack(batch []Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events, b.sending = append(batch, b.events...), 0
}

// flushEvents hands over what is left, once, and counts what the queue does not take: of
// more than a batch, records last.
func (b *outbox) flushEvents(ctx context.Context) error {
	b.moveRecordsLast()
	var failed error
	for batch := b.takeBatch(); batch != nil; batch = b.takeBatch() {
		if failed == nil {
			batch, failed = b.sendWithoutWaiting(ctx, batch)
		}
		if failed == nil {
			continue
		}
		b.mu.Lock()
		b.sending = 0
		for i := range batch {
			b.countLost(&batch[i])
		}
		b.mu.Unlock()
	}
	return failed
}

// sendWithoutWaiting hands over a batch without waiting for a queue that is away. It returns what it has
// not taken, and why.
func (b *outbox) sendWithoutWaiting(ctx context.Context, batch []Event) (left []Event, err error) {
	for on := true; on && len(batch) > 0; {
		if err = b.publish(ctx, batch); err == nil {
			return nil, nil
		}
		if ctx.Err() != nil {
			break
		}
		batch, on = b.siftBatch(ctx, batch, func() bool { return ctx.Err() != nil })
	}
	if len(batch) == 0 {
		err = nil
	}
	return batch, err
}

// moveRecordsLast moves records behind all else where there is more than one batch: a slow queue
// need not take the last in time.
func (b *outbox) moveRecordsLast() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) <= maxBatch {
		return
	}
	rank := func(e Event) int {
		if e.Record != nil {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(b.events, func(x, y Event) int { return rank(x) - rank(y) })
}
