package resp

import (
	"errors"
	"net"
	"time"

	"github.com/weirlimit/weir/internal/listen"
)

// A conn is one client. Its own goroutine runs it; others use nc alone.
type conn struct {
	s  *Server
	nc net.Conn
	id uint64

	reader  reader
	replies writer
	batch   batch
	session session
	memo    memo
	tx      *transaction // nil outside of MULTI
	cmd     command      // the one that is carried out; here, as what it is given to lets it escape

	// ends: the connection is closed when the replies are out.
	ends bool
}

// run serves the connection until it ends.
func (c *conn) run() {
	defer c.close()
	now := time.Now()
	if err := c.s.handshake(c.nc); err != nil {
		if isTimeout(err) {
			c.s.slow.Add(1)
		}
		return
	}
	c.reader.in = make([]byte, smallBuffer)
	for c.fill(now) && listen.SetIdle(c.nc, false) {
		began := time.Now()
		now = began
		buffer := c.s.outs.Get().(*[]byte)
		c.replies.out = (*buffer)[:0]
		n := c.work()
		c.replies.flush()
		if cap(c.replies.out) <= 2*flushAt {
			*buffer = c.replies.out
			c.s.outs.Put(buffer)
		}
		c.replies.out = nil
		if n > 0 {
			c.s.handled.Add(uint64(n))
			if c.s.opt.Batch != nil {
				now = time.Now()
				c.s.opt.Batch(n, now.Sub(began))
			}
		}
		if c.ends || c.replies.lost {
			return
		}
		listen.SetIdle(c.nc, true)
	}
}

func (c *conn) close() {
	// What is left to say was said, or could not be.
	_ = c.nc.Close()
	c.s.grow(&c.reader.large, 0)
	c.endTransaction()
	c.s.leave(c)
}

// fill reads what there is, and returns false when there will be no more.
func (c *conn) fill(now time.Time) bool {
	switch err := c.reader.fill(now, c.session.authBy); {
	case err == nil:
		return true
	case errors.Is(err, errNoRoom):
		c.s.crowded.Add(1)
		c.complain("ERR " + err.Error())
		c.replies.flush()
	case isTimeout(err) && c.s.drainBy.Load() == 0:
		c.s.slow.Add(1)
	}
	return false
}

// work carries out all commands that are there, and returns how many.
func (c *conn) work() int {
	n := 0
	for !c.ends && !c.replies.lost && c.reader.from < c.reader.to {
		if c.session.isAuthenticated() && c.tx == nil && c.askAgain() {
			n++
			continue
		}
		most := lateBounds
		if !c.session.isAuthenticated() {
			most = earlyBounds
		}
		done, err := c.reader.next(&c.cmd, most)
		if err != nil {
			c.breakOff(err)
			return n
		}
		if !done {
			break
		}
		if len(c.cmd.args) > 0 {
			n++
			c.do(&c.cmd)
		}
		if !c.session.isAuthenticated() {
			if c.session.early += len(c.cmd.raw); c.session.early > maxEarly {
				c.breakOff(protocolError("too much before authentication"))
			}
		}
	}
	c.batch.decide()
	return n
}

// breakOff ends the connection of a client that broke the protocol or its bounds.
func (c *conn) breakOff(err error) {
	c.s.broken.Add(1)
	c.complain("ERR " + err.Error())
	c.ends = true
}

// complain replies with an error to a command that cannot be carried out.
func (c *conn) complain(text string) {
	c.batch.decide()
	c.replies.out = appendError(c.replies.out, text)
}

func (c *conn) ok() { c.replies.out = appendSimple(c.replies.out, "OK") }
