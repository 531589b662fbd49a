package resp

import (
	"bytes"
	"fmt"
	"time"
	"unsafe"

	"github.com/weirlimit/weir"
)

// A memo is the last CL.THROTTLE of a connection but for its key, and the limit
// that it named: most clients name the same numbers again and again, and keys of
// one length.
type memo struct {
	head, tail [96]byte // before the key, and after it
	nhead, n   int
	key        int // its length
	limit      *numbered
}

// again reports whether b begins with the command of the memo, for whichever key,
// and returns that and the command's length. It takes a fifth of what reading the
// command takes (BenchmarkPipeline).
func (m *memo) again(b []byte) (key []byte, length int, ok bool) {
	length = m.nhead + m.key + m.n
	if m.limit == nil || m.nhead == 0 || len(b) < length ||
		!bytes.Equal(b[:m.nhead], m.head[:m.nhead]) || !bytes.Equal(b[m.nhead+m.key:length], m.tail[:m.n]) {
		return nil, 0, false
	}
	return b[m.nhead : m.nhead+m.key], length, true
}

// keep makes m the memo of a command.
func (m *memo) keep(cmd *command, l *numbered) {
	head, tail := cmd.raw[:cmd.args[1].from], cmd.raw[cmd.args[1].to:]
	if len(head) > len(m.head) || len(tail) > len(m.tail) {
		return
	}
	m.nhead, m.key, m.n = copy(m.head[:], head), len(cmd.at(1)), copy(m.tail[:], tail)
	m.limit = l
}

// throttle takes CL.THROTTLE key max_burst count_per_period period [quantity].
//
// It gathers the question; decide answers it.
func (c *conn) throttle(cmd *command) {
	n := len(cmd.args)
	if n != 5 && n != 6 {
		c.complain("Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]")
		return
	}
	key := text(cmd.at(1))
	m := &c.memo
	tail := cmd.raw[cmd.args[1].to:]
	if n == 5 && m.limit != nil && !cmd.inline && bytes.Equal(tail, m.tail[:m.n]) {
		c.ask(ask{key: key, by: m.limit, cost: 1})
		m.keep(cmd, m.limit) // for keys of this length
		return
	}
	var numbers [5]int64
	numbers[4] = 1 // the quantity
	for i := 2; i < n; i++ {
		v, ok := parseInt(cmd.at(i))
		if !ok {
			c.complain(string(cellError("Couldn't parse as integer: " + short(cmd.at(i))).Error()))
			return
		}
		numbers[i-1] = v
	}
	if numbers[4] < 0 {
		c.complain(cellError(fmt.Sprintf("quantity %d must not be negative", numbers[4])).Error())
		return
	}
	l, err := c.limit(numbers[1], numbers[2], numbers[3])
	if err != nil {
		c.complain(err.Error())
		return
	}
	if n == 5 && !cmd.inline {
		m.keep(cmd, l)
	}
	// What exceeds every burst can never pass, whatever it is.
	c.ask(ask{key: key, by: l, cost: min(numbers[4], weir.MaxCost)})
}

// limit returns that of the numbers in the connection's database.
func (c *conn) limit(burst, count, period int64) (*numbered, error) {
	if err := c.s.limits.unkept; err != nil {
		return nil, cellError("CL.THROTTLE needs a store that keeps a token bucket: " + err.Error())
	}
	return c.s.limits.of(numbers{db: c.db, burst: burst, count: count, period: period})
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
	s := int64(d / time.Second)
	if d%time.Second >= time.Millisecond {
		s++
	}
	return s
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
