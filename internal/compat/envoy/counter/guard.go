package counter

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
)

// guard is a connection that ends when the server says what nobody asked for, or
// what is no RESP2. The client library takes the one for a fault of its own and
// panics, where no caller can recover it, and makes room for whatever length the
// other names. Its methods are for one reader and one writer.
type guard struct {
	net.Conn
	asked, replied framing
	// open is how many commands are not replied to.
	open atomic.Int64
}

var errUnasked = errors.New("unsolicited reply from Redis; connection closed: see that nothing else speaks on its port")

// Write implements net.Conn.
func (c *guard) Write(b []byte) (int, error) {
	commands, err := c.asked.countValues(b)
	if err != nil {
		return 0, err
	}
	c.open.Add(commands)
	return c.Conn.Write(b)
}

// Read implements net.Conn.
func (c *guard) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	replies, broken := c.replied.countValues(b[:n])
	if broken != nil {
		return 0, broken
	}
	if c.open.Add(-replies) < 0 {
		return 0, errUnasked
	}
	return n, err
}

// The largest parts of RESP2 that are let through. Replies are numbers and short
// lines; the slots of a cluster are the longest.
const (
	maxRESPLine  = 64 << 10
	maxRESPBulk  = 64 << 20
	maxRESPArray = 1 << 20
	maxRESPDepth = 16
)

// framing counts the whole values in a stream of RESP2, which commands are too.
type framing struct {
	// line is the beginning of a line whose end is yet to come.
	line []byte
	// skip is how many bytes of a bulk, and of the line end behind it, are.
	skip int
	// left are how many values the arrays around lack, the innermost last.
	left []int
}

// countValues returns how many values end in b.
func (f *framing) countValues(b []byte) (values int64, err error) {
	for len(b) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(b))
			f.skip, b = f.skip-n, b[n:]
			if f.skip == 0 {
				values += f.endValue()
			}
			continue
		}
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		if len(f.line)+len(line) > maxRESPLine {
			return values, fmt.Errorf("redis sent a line of more than %d bytes: not RESP2", maxRESPLine)
		}
		if !whole || len(f.line) > 0 {
			f.line = append(f.line, line...)
			line = f.line
		}
		if !whole {
			return values, nil
		}
		b = rest
		n, err := f.takeHeader(line)
		if err != nil {
			return values, err
		}
		f.line = f.line[:0]
		values += n
	}
	return values, nil
}

// takeHeader takes a line without its \n and returns how many values end with it.
func (f *framing) takeHeader(line []byte) (int64, error) {
	if len(line) < 2 || line[len(line)-1] != '\r' {
		return 0, fmt.Errorf("redis sent %.20q: not RESP2", line)
	}
	kind, most := line[0], 0
	switch kind {
	case '+', '-', ':':
		return f.endValue(), nil
	case '$':
		most = maxRESPBulk
	case '*':
		most = maxRESPArray
	default:
		return 0, fmt.Errorf("redis sent %.20q: not RESP2", line)
	}
	n, err := strconv.Atoi(string(line[1 : len(line)-1]))
	switch {
	case err != nil || n < -1 || n > most || len(f.left) == maxRESPDepth:
		return 0, fmt.Errorf("redis sent %.20q: not RESP2, or too long", line)
	case n == -1, kind == '*' && n == 0:
		return f.endValue(), nil
	case kind == '*':
		f.left = append(f.left, n)
	default:
		f.skip = n + len("\r\n")
	}
	return 0, nil
}

// endValue ends a value, and the arrays that end with it: it returns 1 if none is left
// around.
func (f *framing) endValue() int64 {
	for i := len(f.left) - 1; i >= 0; i-- {
		if f.left[i]--; f.left[i] > 0 {
			return 0
		}
		f.left = f.left[:i]
	}
	return 1
}
