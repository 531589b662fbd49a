package client

import (
	"math/rand/v2"
	"sync"
	"time"

	circuit "github.com/weirlimit/weir/internal/breaker"
)

// breaker is open while the service is taken to be away. Once it has been open
// for a time one call probes; a failure opens it for longer, a success closes
// it. Safe for concurrent use.
type breaker struct {
	least, most time.Duration

	mu       sync.Mutex
	isOpen   bool
	probing  bool
	until    time.Time     // when the next probe may go
	wait     time.Duration // how long it is open this time
	failures circuit.Failures
}

// admitCall reports whether a call may go, which must tell how it went, and whether
// it is a probe; else how long until one may.
func (b *breaker) admitCall(now time.Time) (ok, probe bool, left time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isOpen {
		return true, false, 0
	}
	if left = b.until.Sub(now); left > 0 {
		return false, false, left
	}
	if b.probing {
		return false, false, time.Millisecond // its outcome is about to be known
	}
	b.probing = true
	return true, true, 0
}

// succeeded and failed tell how a call went; failed reports whether the breaker
// opened for it.
func (b *breaker) succeeded(probe bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isOpen && !probe {
		return // sent before it opened
	}
	if b.isOpen {
		b.failures = circuit.Failures{}
	}
	b.isOpen, b.probing, b.wait = false, false, 0
	b.failures.Record(false)
}

func (b *breaker) recordFailure(now time.Time, probe bool) (opened bool) {
	return b.countFailure(now, 0, probe, (*circuit.Failures).AreMany)
}

// recordBusy opens the breaker for at least d, within the longest wait, if the service
// has asked for it twice without an answer between: once may be the trouble of
// one question, as when one of its stores is away.
func (b *breaker) recordBusy(now time.Time, d time.Duration, probe bool) (opened bool) {
	return b.countFailure(now, min(d, b.most), probe, func(f *circuit.Failures) bool { return f.Row() >= 2 })
}

// countFailure counts a failure, and opens the breaker for at least d if there are enough of
// them, or again if the call was a probe.
func (b *breaker) countFailure(now time.Time, d time.Duration, probe bool, areEnough func(*circuit.Failures) bool) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isOpen {
		if probe {
			b.probing = false
			b.open(now, d)
		}
		return false
	}
	if b.failures.Record(true); !areEnough(&b.failures) {
		return false
	}
	b.open(now, d)
	return true
}

// canceled is a probe of which nothing can be said.
func (b *breaker) canceled() {
	b.mu.Lock()
	b.probing = false
	b.mu.Unlock()
}

// open opens the breaker for twice as long as last time, up to the most, and at
// least d; and for up to half of that longer, so that clients do not all
// return at one instant. Requires: mu.
func (b *breaker) open(now time.Time, d time.Duration) {
	b.isOpen = true
	b.wait = max(min(max(2*b.wait, b.least), b.most), d)
	b.until = now.Add(b.wait + rand.N(b.wait/2+1))
}

// state reports whether the breaker is open, and for how long.
func (b *breaker) state(now time.Time) (open bool, left time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.isOpen, max(b.until.Sub(now), 0)
}
