package resp

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir"
)

// throttleKey takes CL.THROTTLE key max_burst count_per_period period [quantity].
//
// It gathers the question; decide answers it.
func throttleKey(c *conn, cmd *command) {
	n := len(cmd.args)
	if n != 5 && n != 6 {
		c.complain("Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]")
		return
	}
	var values [5]int64
	values[4] = 1 // the quantity
	for i := 2; i < n; i++ {
		v, ok := parseInt(cmd.argument(i))
		if !ok {
			c.complain(cellError("Couldn't parse as integer: " + clipArgument(cmd.argument(i))).Error())
			return
		}
		values[i-1] = v
	}
	if values[4] < 0 {
		c.complain(cellError(fmt.Sprintf("quantity %d must not be negative", values[4])).Error())
		return
	}
	l, err := c.s.limits.limitFor(numbers{db: c.session.db, burst: values[1], count: values[2], period: values[3]})
	if err != nil {
		c.complain(err.Error())
		return
	}
	if n == 5 {
		c.memo.rememberCommand(cmd, l)
	}
	// What exceeds every burst can never pass, whatever it is.
	c.batch.addQuestion(ask{key: aliasBytes(cmd.argument(1)), by: l, cost: min(values[4], weir.MaxCost)})
}

// deleteKeys takes DEL key [key ...]: keys of CL.THROTTLE in the database of the connection.
func deleteKeys(c *conn, cmd *command) {
	if c.s.opt.Keyring == nil {
		c.complain(c.s.undecided(errNoKeyring))
		return
	}
	n := int64(0)
	for i := 1; i < len(cmd.args); i++ {
		found, err := c.s.opt.Keyring.Forget(c.s.ctx, aliasBytes(cmd.argument(i)), c.s.limits.base[c.session.db])
		if err != nil {
			c.complain(c.s.undecided(err))
			return
		}
		if found {
			n++
		}
	}
	c.replies.out = appendInt(c.replies.out, n)
}

// noKey is the TTL of a key that there is not.
const noKey = -2

// replyTTL takes TTL and PTTL: it replies with the time until a key is whole again,
// rounded to the unit as Redis does.
func replyTTL(unit time.Duration) func(*conn, *command) {
	return func(c *conn, cmd *command) {
		left := time.Duration(0)
		if c.s.limits.unkept == nil { // else no key is kept
			ops := []weir.Op{{Key: aliasBytes(cmd.argument(1)), Limit: c.s.limits.base[c.session.db], Cost: 1, Verb: weir.Peek}}
			if _, err := c.s.limiter.Apply(c.s.ctx, ops); err != nil {
				c.complain(c.s.undecided(err))
				return
			}
			left = ops[0].Decision.ResetAfter
		}
		reply := int64(noKey)
		if left > 0 {
			reply = int64((left/time.Millisecond*time.Millisecond + unit/2) / unit)
		}
		c.replies.out = appendInt(c.replies.out, reply)
	}
}
