package event

import "time"

// publishTimeout is how long a queue may take over a batch until it counts as away.
const publishTimeout = 5 * time.Second

// Stats is how an observer and its queue are doing.
type Stats struct {
	// Loss is what the records leave out so far.
	Loss Loss
	// Published is how many events the queue has taken since the start, Failures
	// how many attempts to hand it some have failed.
	Published, Failures uint64
	// Rejected is how many events the queue refused while it took others. They are in
	// Loss too.
	Rejected uint64
	// Backlog is how many events wait for the queue, with those that are being
	// handed over; it is at most MaxBacklog.
	Backlog, MaxBacklog int
	// Down reports whether the last attempt failed, or has lasted for five seconds.
	Down bool
}

// Stats returns how the observer and its queue are doing.
func (o *Observer) Stats() Stats {
	s := o.outbox.readStats()
	s.Loss = o.Loss()
	return s
}

func (b *outbox) readStats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{
		Published: b.published, Failures: b.failures, Rejected: b.rejected,
		Down:    b.down || b.sending > 0 && time.Since(b.began) > publishTimeout,
		Backlog: len(b.events) + b.sending, MaxBacklog: b.max,
	}
}
