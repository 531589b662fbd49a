package faults

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// minInterval is the least time between two lines about one outage and the next: what comes
// and goes must not fill the log.
const minInterval = 10 * time.Second

// Outage logs that something does not answer, and what is done meanwhile: once, and once
// when it answers again. Safe for concurrent use.
type Outage struct {
	log        *slog.Logger
	level      slog.Level
	down, back string
	args       []any
	reported   atomic.Bool // that it is down

	mu         sync.Mutex
	begun      time.Time // of the outage that was told last
	suppressed int       // failures since that were not told
}

// NewOutage returns an Outage that writes down and back to l, each with args. Nil means
// nowhere.
func NewOutage(l *slog.Logger, down, back string, args ...any) *Outage {
	return &Outage{log: cmp.Or(l, slog.New(slog.DiscardHandler)), level: slog.LevelError, down: down, back: back, args: args}
}

// Warns makes it a warning and returns o: it follows from something else, which is logged
// as an error.
func (o *Outage) Warns() *Outage {
	o.level = slog.LevelWarn
	return o
}

// Failed notes that it does not answer.
func (o *Outage) Failed(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.suppressed++
	if o.reported.Load() || !o.begun.IsZero() && time.Since(o.begun) < minInterval {
		return
	}
	unreported := o.suppressed - 1
	o.begun, o.suppressed = time.Now(), 0
	o.reported.Store(true)
	o.log.Log(context.Background(), o.level, o.down, append(o.args[:len(o.args):len(o.args)], "err", err, "suppressed", unreported)...)
}

// Succeeded notes that it answers. Where nothing was told it costs one look.
func (o *Outage) Succeeded() { o.Recovered() }

// Recovered is Succeeded with more to log.
func (o *Outage) Recovered(more ...any) {
	if !o.reported.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.reported.Swap(false) {
		return
	}
	more = append([]any{"after", time.Since(o.begun).Round(time.Millisecond).String(), "failures", o.suppressed + 1}, more...)
	o.log.Info(o.back, append(o.args[:len(o.args):len(o.args)], more...)...)
	o.suppressed = 0
}

// IsReported reports whether it was told last that it does not answer: what follows from that
// need not be.
func (o *Outage) IsReported() bool { return o.reported.Load() }
