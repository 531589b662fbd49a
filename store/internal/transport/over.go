package transport

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/background"
)

// over is any store as a driver of one shard.
type over struct{ store weir.Store }

// DriverOver returns a driver for a store, which is one shard and takes one call a batch.
func DriverOver(store weir.Store) Driver { return over{store} }

func (o over) Shards() int { return 1 }

func (o over) Shard(string) int { return 0 }

// Probe implements Driver: nothing is known of a store but by what it decides.
func (o over) Probe(int, time.Duration) error { return nil }

func (o over) Send(_ int, batch []*Call) {
	for _, c := range batch {
		c.Finish(o.takeCall(c))
	}
}

func (o over) takeCall(c *Call) *Result {
	ctx := c.Context
	if c.class != Foreground {
		ctx = background.With(ctx, &background.Call{Timeout: c.Within})
	}
	ctx, cancel := context.WithTimeout(ctx, c.Within)
	defer cancel()
	err := o.store.Take(ctx, c.Ops)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return resultOf(err, len(c.Ops))
}

// resultOf returns what an error of a store means that was asked so many ops.
func resultOf(err error, ops int) *Result {
	var partial interface{ Partial() bool }
	var rejected interface{ Rejected() bool }
	r := &Result{Outcome: Failed, MayRun: true, Err: err}
	r.Excused = errors.As(err, &partial) && partial.Partial()
	switch {
	case errors.Is(err, weir.ErrCost), errors.Is(err, weir.ErrNoLease), errors.Is(err, weir.ErrRefund), errors.Is(err, weir.ErrClosed):
		r.Outcome, r.MayRun = Rejected, false
	case errors.As(err, &rejected) && rejected.Rejected():
		r.Outcome, r.MayRun = Rejected, ops > 1 // of several, others may have run
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		r.Outcome, r.Err = Late, errors.Join(ErrLate, err)
	case errors.Is(err, context.Canceled):
		r.Excused = true // by the store's end
	}
	return r
}

// DriverOf returns a driver for one queue before a store, and what it wants of that. A store
// that is not Driven is one shard.
func DriverOf(store weir.Store) (Driver, Tuning) {
	if d, ok := store.(Driven); ok {
		return d.Driver()
	}
	return DriverOver(store), Tuning{}
}
