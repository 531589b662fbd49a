package resp

import (
	"time"

	"github.com/weirlimit/weir"
)

// These commands know the keys of CL.THROTTLE in the connection's database.

// del takes DEL key [key ...].
func (c *conn) del(cmd *command) {
	if c.s.opt.Keyring == nil {
		c.complain("ERR the store of this service cannot forget single keys")
		return
	}
	n := int64(0)
	for i := 1; i < len(cmd.args); i++ {
		found, err := c.s.opt.Keyring.Forget(c.s.ctx, text(cmd.at(i)), c.s.limits.base[c.db])
		if err != nil {
			c.complain(c.s.undecided(err))
			return
		}
		if found {
			n++
		}
	}
	c.out = appendInt(c.out, n)
}

// whole returns how long it takes until a key is whole again, zero if it is, and
// reports false if it could not tell and has complained.
func (c *conn) whole(key []byte) (time.Duration, bool) {
	if err := c.s.limits.unkept; err != nil {
		return 0, true // no key is kept
	}
	ops := []weir.Op{{Key: text(key), Limit: c.s.limits.base[c.db], Cost: 1, Verb: weir.Peek}}
	if _, err := c.s.limiter.Apply(c.s.ctx, ops); err != nil {
		c.complain(c.s.undecided(err))
		return 0, false
	}
	return ops[0].Decision.ResetAfter, true
}

// noKey is the TTL of a key that there is not.
const noKey = -2

func (c *conn) ttl(cmd *command) { c.left(cmd, time.Second) }

func (c *conn) pttl(cmd *command) { c.left(cmd, time.Millisecond) }

// left replies with the time until a key is whole, rounded as Redis does.
func (c *conn) left(cmd *command, unit time.Duration) {
	d, ok := c.whole(cmd.at(1))
	switch {
	case !ok:
	case d == 0:
		c.out = appendInt(c.out, noKey)
	default:
		c.out = appendInt(c.out, int64((d/time.Millisecond*time.Millisecond+unit/2)/unit))
	}
}
