package resp

import (
	"fmt"
	"time"
	"unsafe"

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
		v, ok := parseInt(cmd.at(i))
		if !ok {
			c.complain(cellError("Couldn't parse as integer: " + short(cmd.at(i))).Error())
			return
		}
		values[i-1] = v
	}
	if values[4] < 0 {
		c.complain(cellError(fmt.Sprintf("quantity %d must not be negative", values[4])).Error())
		return
	}
	l, err := c.s.limits.of(numbers{db: c.session.db, burst: values[1], count: values[2], period: values[3]})
	if err != nil {
		c.complain(err.Error())
		return
	}
	if n == 5 {
		c.memo.keep(cmd, l)
	}
	// What exceeds every burst can never pass, whatever it is.
	c.batch.add(ask{key: text(cmd.at(1)), by: l, cost: min(values[4], weir.MaxCost)})
}

// appendThrottle appends the five numbers of redis-cell: limited or not, the
// limit, what remains, the seconds until a retry and those until the key is
// whole again.
func appendThrottle(b []byte, a *ask) []byte {
	d := &a.decision
	retry, limited := int64(-1), !d.Allowed()
	switch {
	case a.cost == 0 && d.ResetAfter > a.by.full:
		// The key owes more than this limit would ever let it, under another.
		limited, retry = true, wholeSeconds(d.ResetAfter-a.by.full)
	case limited && d.RetryAfter != weir.Never:
		retry = wholeSeconds(d.RetryAfter)
	}
	if limited {
		b = append(b, a.by.refused...)
	} else {
		b = append(b, a.by.allowed...)
	}
	b = appendInt(b, d.Remaining)
	b = appendInt(b, retry)
	return appendInt(b, wholeSeconds(d.ResetAfter))
}

// wholeSeconds rounds d as redis-cell does: up if at least a millisecond is left
// over.
func wholeSeconds(d time.Duration) int64 {
	return roundUp(d, time.Second, time.Millisecond)
}

// deleteKeys takes DEL key [key ...]: keys of CL.THROTTLE in the database of the connection.
func deleteKeys(c *conn, cmd *command) {
	if c.s.opt.Keyring == nil {
		c.complain(c.s.undecided(errNoKeyring))
		return
	}
	n := int64(0)
	for i := 1; i < len(cmd.args); i++ {
		found, err := c.s.opt.Keyring.Forget(c.s.ctx, text(cmd.at(i)), c.s.limits.base[c.session.db])
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
			ops := []weir.Op{{Key: text(cmd.at(1)), Limit: c.s.limits.base[c.session.db], Cost: 1, Verb: weir.Peek}}
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

// parseInt reads a decimal integer of 64 bits that may have a sign.
func parseInt(b []byte) (int64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	negative := b[0] == '-'
	if negative || b[0] == '+' {
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		c -= '0'
		// Below 2^60 another digit cannot wrap round.
		if c > 9 || n >= 1<<60 {
			return 0, false
		}
		n = n*10 + uint64(c)
	}
	switch {
	case negative && n <= 1<<63:
		return -int64(n), true
	case n < 1<<63:
		return int64(n), true
	}
	return 0, false
}

// text returns b as a string without copying it: it holds until the connection
// reads on.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// maxRepeated is the longest part of an argument that an error repeats.
const maxRepeated = 128

// short returns an argument as an error repeats it.
func short(b []byte) string { return string(b[:min(len(b), maxRepeated)]) }
