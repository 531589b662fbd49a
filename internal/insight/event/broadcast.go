package event

import (
	"context"
	"errors"
	"sync"
)

// ErrTooMany is returned when a broadcast has all the subscribers that it may have.
var ErrTooMany = errors.New("event: too many subscribers")

// Broadcast copies events to subscribers, as many of them as there are, and keeps
// none: who is slow misses some, and is told how many. As a Queue it takes
// everything at once. Safe for concurrent use. Make it with NewBroadcast.
type Broadcast struct {
	max int

	mu          sync.Mutex
	closed      bool
	subscribers map[*Subscription]struct{}
	dropped     uint64
}

var _ Queue = (*Broadcast)(nil)

// NewBroadcast returns a broadcast to at most so many subscribers.
func NewBroadcast(max int) *Broadcast {
	return &Broadcast{max: max, subscribers: make(map[*Subscription]struct{})}
}

// Publish implements Queue. It never waits.
func (b *Broadcast) Publish(_ context.Context, batch []Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.subscribers {
		b.dropped += s.addBatch(batch)
	}
	if b.closed {
		return ErrClosed
	}
	return nil
}

// Subscribers returns how many there are.
func (b *Broadcast) Subscribers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.subscribers)
}

// Dropped returns how many events subscribers have missed, all of them together.
func (b *Broadcast) Dropped() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dropped
}

// Close implements Queue. Subscribers get what they have not read yet, and then
// ErrClosed.
func (b *Broadcast) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	for s := range b.subscribers {
		close(s.ended)
	}
	clear(b.subscribers)
	return nil
}

// Subscription is what one subscriber hears. Make it with Subscribe.
type Subscription struct {
	broadcast *Broadcast
	max       int
	keep      func(*Event) bool
	// more holds a token when there is something to read.
	more  chan struct{}
	ended chan struct{}

	mu      sync.Mutex
	events  []Event
	dropped uint64
}

// Subscribe returns a subscription to the events that keep holds for, all if it is
// nil, which is called while others wait for it. At most max of them wait to be
// read; then the oldest make way. The caller must close it.
func (b *Broadcast) Subscribe(max int, keep func(*Event) bool) (*Subscription, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil, ErrClosed
	case len(b.subscribers) >= b.max:
		return nil, ErrTooMany
	}
	s := &Subscription{broadcast: b, max: max, keep: keep, more: make(chan struct{}, 1), ended: make(chan struct{})}
	b.subscribers[s] = struct{}{}
	return s, nil
}

// addBatch takes over the events of a batch that are meant, and returns how many of
// those that were to be read are not any more.
func (s *Subscription) addBatch(batch []Event) (dropped uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range batch {
		if s.keep == nil || s.keep(&batch[i]) {
			s.events = append(s.events, batch[i])
		}
	}
	if over := len(s.events) - s.max; over > 0 {
		dropped = uint64(over)
		// Copied, so that what makes way is let go of.
		s.events = append(make([]Event, 0, s.max), s.events[over:]...)
	}
	s.dropped += dropped
	if len(s.events) > 0 {
		select {
		case s.more <- struct{}{}:
		default:
		}
	}
	return dropped
}

// Next returns the events since the last call, and how many the subscriber has
// missed before them. It waits for the first. After the broadcast was closed it
// returns what is left and then ErrClosed, when ctx has ended ctx.Err(). It must
// not be called twice at a time.
func (s *Subscription) Next(ctx context.Context) (events []Event, dropped uint64, err error) {
	for err == nil {
		select {
		case <-s.more:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-s.ended:
			err = ErrClosed
		}
		if events, dropped = s.takeEvents(); len(events) > 0 {
			return events, dropped, nil
		}
	}
	return nil, 0, err
}

func (s *Subscription) takeEvents() (events []Event, dropped uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events, dropped = s.events, s.dropped
	s.events, s.dropped = nil, 0
	return events, dropped
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.broadcast.mu.Lock()
	defer s.broadcast.mu.Unlock()
	delete(s.broadcast.subscribers, s)
}
