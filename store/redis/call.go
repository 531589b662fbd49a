package redis

import (
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/store/internal/transport"
)

// A call is one script to run, for a call of the queue. It
// is the pipeline's from send until it is settled.
type call struct {
	script *script
	keys   []string
	args   []string

	reply []int64
	// bits of a row's answer, see rows.lua.
	bits int64

	// What the queue carries: an op that stands alone, or ops of one part in work.
	carrier  *transport.Call
	single   *plan
	work     *work
	to       *pipeline
	repaired bool
	why      error // of one to be repaired
	// pause is how long it waited before it was sent again, zero if it never was, and until
	// when that is of use.
	pause time.Duration
	until time.Time
}

var calls = sync.Pool{New: func() any { return new(call) }}

func newCall(s *script) *call {
	c := calls.Get().(*call)
	*c = call{script: s, keys: c.keys[:0], args: c.args[:0], reply: c.reply[:0]}
	return c
}

func (c *call) recycle() {
	clear(c.keys)
	clear(c.args)
	if c.work != nil {
		c.work.recycle()
	}
	calls.Put(c)
}

// readIntegers takes the integers of a reply.
func (c *call) readIntegers(values []rueidis.RedisMessage) error {
	for i := range values {
		n, err := values[i].ToInt64()
		if err != nil {
			return errReply
		}
		c.reply = append(c.reply, n)
	}
	return nil
}

// readRow makes of the time and of a row's words what other scripts reply.
func (c *call) readRow(time rueidis.RedisMessage, row []rueidis.RedisMessage) error {
	if row[0].IsString() {
		why, err := row[0].ToString()
		if err != nil {
			return errReply
		}
		return rowError(why)
	}
	if err := c.readIntegers(row); err != nil {
		return err
	}
	twice, err := time.ToInt64()
	if err != nil {
		return errReply
	}
	c.bits = c.reply[0]
	c.reply[0] = twice + c.bits&1
	return nil
}

// isInsane reports whether a script told numbers that no row of ours has: they are
// beyond 2^54, or none.
func isInsane(state []int64) bool {
	return slices.ContainsFunc(state, func(n int64) bool { return n >= 1<<54 || n <= -1<<54 })
}
