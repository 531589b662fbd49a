package admit

import (
	"context"
	"sync"
	"time"

	"github.com/weirlimit/weir"
)

// leastRenewal is the shortest interval at which permits are renewed.
const leastRenewal = 10 * time.Millisecond

// hold renews the permits that the last decision granted until Release.
func (a *Admission) hold(ctx context.Context) {
	period := weir.Forever
	for _, o := range a.Req.Ops() {
		if o.Charged && o.Limit.Traits()&weir.Leases != 0 {
			// Each on its own account: one that was lost must not take the others
			// with it.
			a.permits = append(a.permits, weir.Op{Key: o.Key, Limit: o.Limit, Cost: o.Cost, ID: o.ID, Role: weir.Always})
			period = min(period, o.Limit.Period)
		}
	}
	if len(a.permits) > 0 {
		a.renewal = renew(context.WithoutCancel(ctx), a.gate, a.permits, max(period/3, leastRenewal))
	}
}

// Release gives the permits back. It asks no rules, which may have changed since they
// were granted.
func (a *Admission) Release(ctx context.Context) {
	a.stopRenewal()
	if len(a.permits) == 0 {
		return
	}
	for i := range a.permits {
		a.permits[i] = a.permits[i].Undo(a.permits[i].Cost)
		a.permits[i].NewLease = true
	}
	a.after(ctx, "releasing a permit failed", func(ctx context.Context) error {
		_, err := a.gate.Limiter.Apply(ctx, a.permits)
		return err
	})
	a.permits = a.permits[:0]
}

func (a *Admission) stopRenewal() {
	if a.renewal != nil {
		a.renewal.stop()
		a.renewal = nil
	}
}

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

func renew(ctx context.Context, g *Gate, permits []weir.Op, every time.Duration) *renewal {
	r := &renewal{ctx: ctx, gate: g, permits: permits, every: every}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = time.AfterFunc(every, r.run)
	return r
}

func (r *renewal) run() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return
	}
	ctx, stop := detach(r.ctx)
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
