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
type over struct {
	store  weir.Store
	within time.Duration // how long a call may take beyond its time; zero: not at all
	probe  func(ask func(ops []weir.Op) error) error
}

// Over returns a driver for a store, which is one shard and takes one call a batch. probe
// finds out by ask whether it answers. A self-bounded store ends each call by itself,
// within the time that it has for each of the servers that it asks one after the other.
func Over(store weir.Store, opt *Options, probe func(ask func(ops []weir.Op) error) error) Driver {
	o := &over{store: store, probe: probe}
	if opt.SelfBounded {
		o.within = opt.Timeout
	}
	return o
}

func (o *over) Shards() int { return 1 }

func (o *over) Shard(string) int { return 0 }

func (o *over) Probe(_ int, within time.Duration) error {
	return o.probe(func(ops []weir.Op) error {
		if r := o.take(&Call{Ops: ops, Context: context.Background(), Within: within}); r != nil {
			return r
		}
		return nil
	})
}

func (o *over) Send(_ int, batch []*Call) {
	for _, c := range batch {
		c.Finish(o.take(c))
	}
}

func (o *over) take(c *Call) *Result {
	ctx, within := c.Context, c.Within
	if c.class != Foreground {
		more := &background.Call{Timeout: within}
		if c.class == Fetch && o.within > 0 {
			more.Late = func(err error) { c.Overdue(resultOf(err, len(c.Ops))) }
		}
		ctx = background.With(ctx, more)
	}
	if o.within > 0 {
		within = boundOf(c) + o.within // the store ends it before
	}
	ctx, cancel := context.WithTimeout(ctx, within)
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

// boundOf returns when a call has had its time that a store bounds which may ask several
// servers one after the other: at most twice for each op, to look and to charge. What no
// decision waits for goes to all at once.
func boundOf(c *Call) time.Duration {
	if c.class != Foreground || len(c.Ops) == 1 || len(c.with) > 0 {
		return c.Within
	}
	return c.Within * time.Duration(2*len(c.Ops))
}

// resultOf returns what an error of a store means that was asked so many ops.
func resultOf(err error, ops int) *Result {
	var partial interface{ Partial() bool }
	var rejected interface{ Rejected() bool }
	var busy interface{ Busy() bool }
	var unsent interface{ Unsent() bool }
	r := &Result{Outcome: Failed, MayRun: true, Err: err}
	r.Excused = errors.As(err, &partial) && partial.Partial()
	switch {
	case errors.Is(err, weir.ErrCost), errors.Is(err, weir.ErrNoLease), errors.Is(err, weir.ErrRefund), errors.Is(err, weir.ErrClosed):
		r.Outcome, r.MayRun = Rejected, false
	case errors.As(err, &rejected) && rejected.Rejected(), errors.As(err, &busy) && busy.Busy():
		r.Outcome, r.MayRun = Rejected, ops > 1 // of several, others may have run
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		r.Outcome, r.Err = Late, errors.Join(ErrLate, err)
	case errors.Is(err, context.Canceled):
		r.Excused = true // by the store's end
	case errors.As(err, &unsent) && unsent.Unsent():
		r.MayRun = ops > 1
	}
	return r
}
