package resp

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/admit"
)

// checkRules takes WEIR.CHECK.
func checkRules(c *conn, cmd *command) {
	if r := readRequest(c, cmd, mayCost|mayPriority|mayLease); r != nil {
		c.batch.add(ask{req: r})
	}
}

// peekRules takes WEIR.PEEK.
func peekRules(c *conn, cmd *command) {
	if r := readRequest(c, cmd, mayCost|mayPriority); r != nil {
		r.Verb = weir.Peek
		c.batch.add(ask{req: r})
	}
}

// acquirePermits takes WEIR.ACQUIRE: a check under a lease, which is made up if there is
// none.
func acquirePermits(c *conn, cmd *command) {
	if r := readRequest(c, cmd, mayCost|mayPriority|mayLease); r != nil {
		if r.Lease == "" {
			r.Lease, r.NewLease = rand.Text(), true
		}
		c.batch.add(ask{req: r, lease: true})
	}
}

// decideAlone reads the request of a command that is not decided with others, and does
// f with it.
func decideAlone(c *conn, cmd *command, may options, f func(ctx context.Context, r *weir.Request) error) {
	c.batch.decide()
	r := readRequest(c, cmd, may)
	if r == nil {
		return
	}
	defer c.s.limiter.Recycle(r)
	if err := f(c.s.ctx, r); err != nil {
		c.complain(c.s.undecided(err))
	}
	c.batch.entries = c.batch.entries[:0]
}

// releasePermits takes WEIR.RELEASE. Releasing what is not held is no error: a client
// that heard no answer asks again.
func releasePermits(c *conn, cmd *command) {
	decideAlone(c, cmd, mayLease, func(ctx context.Context, r *weir.Request) error {
		if err := c.s.limiter.Release(ctx, r); err != nil {
			return err
		}
		c.ok()
		return nil
	})
}

// errNoKeyring: the store cannot forget.
var errNoKeyring = errors.New("the store of this service cannot forget single keys")

// resetRules takes WEIR.RESET and replies with how many keys were known.
func resetRules(c *conn, cmd *command) {
	decideAlone(c, cmd, 0, func(ctx context.Context, r *weir.Request) error {
		if c.s.opt.Keyring == nil {
			return errNoKeyring
		}
		n := int64(0)
		for _, o := range c.s.limiter.Match(r) {
			if o.Role == weir.Deny {
				continue
			}
			found, err := c.s.opt.Keyring.Forget(ctx, o.Key, o.Limit)
			if err != nil {
				return err
			}
			if found {
				n++
			}
		}
		c.replies.out = appendInt(c.replies.out, n)
		return nil
	})
}

// refundRules takes WEIR.REFUND and replies with how many limits took units back.
func refundRules(c *conn, cmd *command) {
	decideAlone(c, cmd, mayCost, func(ctx context.Context, r *weir.Request) error {
		if r.Verb == weir.Peek {
			c.replies.out = appendInt(c.replies.out, 0) // COST 0 gives nothing back
			return nil
		}
		refunds, permits, err := admit.Refunds(nil, c.s.limiter.Match(r))
		switch {
		case err != nil:
			return err
		case permits:
			return weir.ErrRefund
		}
		if len(refunds) > 0 {
			if _, err := c.s.limiter.Apply(ctx, refunds); err != nil {
				return err
			}
		}
		c.replies.out = appendInt(c.replies.out, int64(len(refunds)))
		return nil
	})
}

// undecided returns the reply to a command that err kept from being carried out,
// and notes it if the store is to blame.
func (s *Server) undecided(err error) string {
	switch {
	case errors.Is(err, weir.ErrNoLease):
		return "ERR a concurrency limit applies: use WEIR.ACQUIRE, or name the unit of work with LEASE"
	case errors.Is(err, weir.ErrCost):
		return "ERR the cost, with what is kept for higher priorities, must be from 0 to 2^53"
	case errors.Is(err, weir.ErrRefund):
		return "ERR a limit applies that cannot give back units"
	case errors.Is(err, errNoKeyring):
		return "ERR " + err.Error()
	}
	if !errors.Is(err, context.Canceled) {
		s.faults.Report("request undecided", err)
	}
	return "ERR the store did not answer; nothing was decided"
}

// appendDecision appends what WEIR.CHECK says: a map.
func appendDecision(b []byte, proto int, a *ask) []byte {
	d, r := a.decision, a.req
	pairs := 9
	if a.lease && d.Allowed() || d.Banned() {
		pairs++
	}
	b = appendMap(b, proto, pairs)
	b = appendBool(append(b, "$7\r\nallowed\r\n"...), proto, d.Allowed())
	b = append(b, "$5\r\nlimit\r\n"...)
	if d.Limit == nil {
		b = appendNull(b, proto)
		b = appendNull(append(b, "$9\r\nremaining\r\n"...), proto)
	} else {
		b = appendBulk(b, d.Limit.Name)
		b = appendInt(append(b, "$9\r\nremaining\r\n"...), d.Remaining)
	}
	b = appendInt(append(b, "$14\r\nretry_after_ms\r\n"...), milliseconds(d.RetryAfter))
	b = appendInt(append(b, "$14\r\nreset_after_ms\r\n"...), milliseconds(d.ResetAfter))
	b = appendInt(append(b, "$8\r\ndelay_ms\r\n"...), milliseconds(r.Delay()))
	g := r.Guarantee()
	b = appendBool(append(b, "$5\r\nexact\r\n"...), proto, g.Exact)
	b = appendBool(append(b, "$8\r\ndegraded\r\n"...), proto, g.Degraded)
	b = append(b, "$7\r\nat_most\r\n"...)
	if g.AtMost == weir.Unbounded {
		b = appendNull(b, proto)
	} else {
		b = appendInt(b, g.AtMost)
	}
	switch {
	case d.Banned():
		b = appendBool(append(b, "$6\r\nbanned\r\n"...), proto, true)
	case pairs == 10:
		b = appendBulk(append(b, "$5\r\nlease\r\n"...), r.Lease)
	}
	return b
}

// milliseconds rounds d up: whoever waits as long must not come too early. Never
// is -1.
func milliseconds(d time.Duration) int64 {
	if d == weir.Never {
		return -1
	}
	return roundUp(d, time.Millisecond, 1)
}

// roundUp returns d in units: one more if at least that much is left over.
func roundUp(d, unit, least time.Duration) int64 {
	n := int64(d / unit)
	if d%unit >= least {
		n++
	}
	return n
}
