package resp

import (
	"context"
	"crypto/rand"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/admit"
)

// checkRules takes WEIR.CHECK.
func checkRules(c *conn, cmd *command) {
	if r := readRequest(c, cmd, mayCost|mayPriority|mayLease); r != nil {
		c.batch.addQuestion(ask{req: r})
	}
}

// peekRules takes WEIR.PEEK.
func peekRules(c *conn, cmd *command) {
	if r := readRequest(c, cmd, mayCost|mayPriority); r != nil {
		r.Verb = weir.Peek
		c.batch.addQuestion(ask{req: r})
	}
}

// acquirePermits takes WEIR.ACQUIRE: a check under a lease, which is made up if there is
// none.
func acquirePermits(c *conn, cmd *command) {
	if r := readRequest(c, cmd, mayCost|mayPriority|mayLease); r != nil {
		if r.Lease == "" {
			r.Lease, r.NewLease = rand.Text(), true
		}
		c.batch.addQuestion(ask{req: r, lease: true})
	}
}

// decideAlone reads the request of a command that is not decided with others, and does
// f with it.
func decideAlone(c *conn, cmd *command, may options, f func(ctx context.Context, r *weir.Request) error) {
	c.batch.decidePending()
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

// releasePermits takes WEIR.RELEASE and replies with 1 if the permit was held. Releasing
// what is not held is no error: a client that heard no answer asks again.
func releasePermits(c *conn, cmd *command) {
	decideAlone(c, cmd, mayLease, func(ctx context.Context, r *weir.Request) error {
		released, err := c.s.limiter.Release(ctx, r)
		if err != nil {
			return err
		}
		n := int64(0)
		if released {
			n = 1
		}
		c.replies.out = appendInt(c.replies.out, n)
		return nil
	})
}

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
		refunds, permits, err := admit.Refunds(c.s.limiter.Store(), nil, c.s.limiter.Match(r))
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
