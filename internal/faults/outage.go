package faults

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// quiet is the least time between two lines about one outage and the next: what comes
// and goes must not fill the log.
const quiet = 10 * time.Second

// Outage logs that something does not answer, and what is done meanwhile: once, and once
// when it answers again. Safe for concurrent use.
type Outage struct {
	log        *slog.Logger
	down, back string
	args       []any
	told       atomic.Bool // that it is down

	mu     sync.Mutex
	begun  time.Time // of the outage that was told last
	missed int       // failures since that were not told
}

// NewOutage returns an Outage that writes down and back to l, each with args. Nil means
// nowhere.
func NewOutage(l *slog.Logger, down, back string, args ...any) *Outage {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	return &Outage{log: l, down: down, back: back, args: args}
}

// Failed notes that it does not answer.
func (o *Outage) Failed(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.missed++
	if o.told.Load() || !o.begun.IsZero() && time.Since(o.begun) < quiet {
		return
	}
	unreported := o.missed - 1
	o.begun, o.missed = time.Now(), 0
	o.told.Store(true)
	o.log.Error(o.down, append(o.args[:len(o.args):len(o.args)], "err", err, "suppressed", unreported)...)
}

// Answered notes that it answers. Where nothing was told it costs one look.
func (o *Outage) Answered() {
	if !o.told.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.told.Swap(false) {
		return
	}
	o.log.Info(o.back, append(o.args[:len(o.args):len(o.args)], "after", time.Since(o.begun).Round(time.Millisecond).String(), "failures", o.missed+1)...)
	o.missed = 0
}

// IsTold reports whether it was told last that it does not answer: what follows from that
// need not be.
func (o *Outage) IsTold() bool { return o.told.Load() }
