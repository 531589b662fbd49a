package client

import (
	"context"
	"crypto/rand"
	"errors"
	"time"
)

// Reservation is an estimate that was spent and is to be settled.
type Reservation struct {
	Decision Decision
	// Handle names it to Commit and Cancel, on any node. Empty if it was refused,
	// or decided without the service: then there is nothing to settle.
	Handle string
	// Expires is when it can no longer be settled and stays spent in full.
	Expires time.Time
}

// Settlement is what a reservation came to.
type Settlement struct{ Reserved, Actual int64 }

// Reserve spends an estimate, for a request whose cost is known only afterwards.
// Its error is that of Check.
func (c *Client) Reserve(ctx context.Context, k Check) (Reservation, error) {
	var res Reservation
	err := c.decideHeld(ctx, &k, &res.Decision, nil, func(ctx context.Context, k Check) (d Decision, err error) {
		d, res.Handle, res.Expires, err = c.opt.Wire.Reserve(ctx, k)
		if err == nil && d.Allowed != (res.Handle != "") {
			err = errors.New("weir: a reservation without a handle, or a handle without a reservation")
		}
		if err != nil { // what came with it is nothing to settle
			res.Handle, res.Expires = "", time.Time{}
		}
		return d, err
	})
	if err != nil {
		return Reservation{}, err
	}
	return res, nil
}

// Commit settles a reservation by what was used. A service that does not answer
// is an error here, after which it may be called again, and is answered as the first was:
// an *[Error] of the code SETTLED says with which other cost the reservation was settled.
func (c *Client) Commit(ctx context.Context, r Reservation, actual int64) (Settlement, error) {
	if actual < 0 {
		return Settlement{}, &Error{Status: 400, Detail: "what was used must not be negative"}
	}
	return c.settle(ctx, r, actual)
}

// Cancel settles a reservation by giving all of it back.
func (c *Client) Cancel(ctx context.Context, r Reservation) (Settlement, error) {
	return c.settle(ctx, r, -1)
}

func (c *Client) settle(ctx context.Context, r Reservation, actual int64) (s Settlement, err error) {
	if r.Handle == "" {
		return Settlement{Actual: max(actual, 0)}, nil
	}
	err = c.callService(ctx, func(ctx context.Context) (err error) {
		s, err = c.opt.Wire.Settle(ctx, r.Handle, actual)
		return err
	})
	if err == nil && s.Actual < s.Reserved {
		c.memory.forgetAll()
	}
	return s, err
}

// Lease is a place under a concurrency limit.
type Lease struct {
	// Check is what it was acquired by; Check.Lease names it.
	Check Check
	// remote and local: who may hold it.
	remote, local bool
}

// Acquire takes a place under the concurrency limits that a check meets. It is
// held until Release, or until the limit's period is over without Renew. The
// lease is empty if the decision refuses. Its error is that of Check.
func (c *Client) Acquire(ctx context.Context, k Check) (Lease, Decision, error) {
	if k.Lease == "" {
		// Named here and not by the service: a lease whose answer is lost can be
		// released.
		k.Lease = rand.Text()
	}
	return c.askForLease(ctx, k, c.opt.Wire.Acquire)
}

// askForLease asks for a lease.
func (c *Client) askForLease(ctx context.Context, k Check, ask func(context.Context, Check) (Decision, error)) (Lease, Decision, error) {
	l := Lease{remote: true}
	var d Decision
	err := c.decideHeld(ctx, &k, &d, &l, ask)
	if err != nil {
		return Lease{}, Decision{}, err
	}
	if !d.Allowed {
		if d.Degraded && l.remote {
			// It may have been granted, and the answer lost: it ends by itself.
			c.counts.lost.Add(1)
		}
		return Lease{}, d, nil
	}
	l.Check = k
	return l, d, nil
}

// Renew holds a lease for another period, or takes it anew if it was lost and there is
// room; no other limit is charged. A decision that refuses says that it was lost.
func (c *Client) Renew(ctx context.Context, l Lease) (Lease, Decision, error) {
	if l.Check.Lease == "" {
		return c.Acquire(ctx, l.Check)
	}
	next, d, err := c.askForLease(ctx, l.Check, c.opt.Wire.Renew)
	if next.Check.Lease != "" {
		next.remote, next.local = next.remote || l.remote, next.local || l.local
	}
	return next, d, err
}

// Release ends a lease, wherever it is held, and reports whether it was; one that is not
// held is no error. A service that does not answer is, and then the lease ends by itself.
func (c *Client) Release(ctx context.Context, l Lease) (released bool, err error) {
	if l.Check.Lease == "" {
		return false, nil
	}
	var local, remote error
	if l.local && c.opt.Local != nil {
		r := c.opt.Local.Acquire()
		l.Check.fillRequest(r)
		released, local = c.opt.Local.Release(ctx, r)
		c.opt.Local.Recycle(r)
	}
	if l.remote {
		remote = c.callService(ctx, func(ctx context.Context) error {
			held, err := c.opt.Wire.Release(ctx, l.Check)
			released = released || held
			return err
		})
	}
	return released, errors.Join(local, remote)
}

// decideHeld asks for what must be given back, and decides without the service where
// that does not answer. l, unless nil, is told who may hold it.
func (c *Client) decideHeld(ctx context.Context, k *Check, d *Decision, l *Lease, ask func(context.Context, Check) (Decision, error)) error {
	ks := []Check{*k}
	if err := c.complete(&ks); err != nil {
		return err
	}
	*k = ks[0]
	err := c.callService(ctx, func(ctx context.Context) (err error) {
		*d, err = ask(ctx, *k)
		return err
	})
	var outage *unavailable
	if !errors.As(err, &outage) {
		return err
	}
	if l != nil {
		l.remote, l.local = outage.sent, c.opt.Fallback == DecideLocally
	}
	ds, err := c.without(ctx, ks, false, outage)
	if err == nil {
		*d = ds[0]
	}
	return err
}
