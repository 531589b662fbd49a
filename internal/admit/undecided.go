package admit

import (
	"context"
	"errors"
	"time"

	"github.com/weirlimit/weir"
)

// A Reason is why a request was not decided.
type Reason uint8

const (
	// StoreFailed: the store gave no decision.
	StoreFailed Reason = iota
	// CostOutOfRange: its cost can never be charged. The store is not to blame, and such
	// a request never passes: else a client would pass by making its cost so high.
	CostOutOfRange
	// ClientGone: its context has ended. The store is not to blame, and such a request
	// never passes: else a client would pass by leaving early.
	ClientGone
)

// Undecided is the error of an outgoing request that was not decided.
type Undecided struct {
	Reason Reason
	Err    error
}

// Error implements error.
func (e *Undecided) Error() string { return e.Err.Error() }

// Unwrap serves errors.Is.
func (e *Undecided) Unwrap() error { return e.Err }

// reasonOf returns why a request under ctx got err instead of a decision.
func reasonOf(ctx context.Context, err error) Reason {
	switch {
	case errors.Is(err, weir.ErrCost):
		return CostOutOfRange
	case ctx.Err() != nil:
		return ClientGone
	}
	return StoreFailed
}

// Undecided returns why a request got err instead of a decision, and logs it unless the
// client has gone. It forgets what the ops say, which was neither decided nor charged.
func (a *Admission) Undecided(ctx context.Context, err error) Reason {
	a.Req.Reset()
	if ctx.Err() == nil {
		a.gate.Faults.Report("request undecided", err)
	}
	return reasonOf(ctx, err)
}

// cancelTimeout bounds a call to the store that outlives its request.
const cancelTimeout = 5 * time.Second

// detachContext returns a context for a call to the store that outlives its request.
func detachContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
}
