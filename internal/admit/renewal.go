package admit

import (
	"context"
	"sync"
	"time"

	"github.com/weirlimit/weir"
)

// renewal charges permits again every so often, which renews them. It has no goroutine
// until then: most requests are over before the first renewal.
type renewal struct {
	ctx   context.Context
	gate  *Gate
	every time.Duration

	mu      sync.Mutex
	permits []weir.Op
	timer   *time.Timer
	stopped bool
}

func startRenewal(ctx context.Context, g *Gate, permits []weir.Op, every time.Duration) *renewal {
	r := &renewal{ctx: ctx, gate: g, permits: permits, every: every}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = time.AfterFunc(every, r.renewPermits)
	return r
}

func (r *renewal) renewPermits() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return
	}
	ctx, stop := detachContext(r.ctx)
	defer stop()
	if _, err := r.gate.Limiter.Apply(ctx, r.permits); err != nil {
		r.gate.Faults.Report("renewing a permit failed", err)
	}
	r.timer.Reset(r.every)
}

// stop ends the renewal. It waits for one that is under way, cancelTimeout at
// most: one that
// reached the store after the release would take the permit anew.
func (r *renewal) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.timer.Stop()
}
