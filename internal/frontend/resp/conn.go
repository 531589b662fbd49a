package resp

import (
	"net"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/guesses"
	"github.com/weirlimit/weir/internal/listen"
)

// A conn is one client. Its own goroutine runs it; others use nc alone, which the
// mutex of the server guards.
type conn struct {
	s  *Server
	nc net.Conn
	id uint64

	in       []byte // read so far and not yet taken: in[from:to]
	from, to int
	filled   bool   // the last read filled the buffer
	large    int64  // what of the buffer counts as large
	out      []byte // replies not yet written
	parser   parser
	cmd      command // the one that is carried out; here, as what it is given to lets it escape
	pending  []ask
	entries  []weir.Entry // of the questions that are pending
	memo     memo
	tx       *transaction // nil outside of MULTI

	authed bool
	proto  int
	db     int64
	// ends: the connection is closed when the replies are out; lost: nothing can
	// be written any more.
	ends, lost bool
	wrong      int // passwords
	early      int // bytes of commands before authentication

	born      time.Time
	authBy    time.Time // when the client must have authenticated
	partialBy time.Time // when the rest of a command must be there
	readBy    time.Time // the deadlines that are set
	writeBy   time.Time
	name      string
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{s: s, nc: nc, id: s.ids.Add(1), born: time.Now(), proto: 2, authed: s.opt.Password == ""}
	c.authBy = c.born.Add(s.opt.Timeout)
	return c
}

// run serves the connection until it ends.
func (c *conn) run() {
	defer c.close()
	nc, err := c.s.encrypt(c.nc)
	if err != nil {
		if isTimeout(err) {
			c.s.slow.Add(1)
		}
		return
	}
	c.s.mu.Lock()
	c.nc = nc
	c.s.mu.Unlock()
	c.in = make([]byte, smallBuffer)
	now := c.born
	for c.fill(now) && listen.SetIdle(c.nc, false) {
		began := time.Now()
		now = began
		buffer := c.s.outs.Get().(*[]byte)
		c.out = (*buffer)[:0]
		n := c.work()
		c.flush()
		if cap(c.out) <= 2*flushAt {
			*buffer = c.out
			c.s.outs.Put(buffer)
		}
		c.out = nil
		if n > 0 {
			c.s.handled.Add(uint64(n))
			if c.s.opt.Batch != nil {
				now = time.Now()
				c.s.opt.Batch(n, now.Sub(began))
			}
		}
		if c.ends || c.lost {
			return
		}
		listen.SetIdle(c.nc, true)
	}
}

func (c *conn) close() {
	// What is left to say was said, or could not be.
	_ = c.nc.Close()
	c.s.grow(&c.large, 0)
	c.endTransaction()
	c.s.leave(c)
}

// large returns how much of a buffer of n bytes counts as large.
func large(n int) int64 { return int64(max(n-usualBuffer, 0)) }

// grow makes what counts as large to bytes, and reports false if all connections
// together have no room for it.
func (s *Server) grow(counted *int64, to int64) bool {
	more := to - *counted
	if s.large.Add(more) > maxLarge && more > 0 {
		s.large.Add(-more)
		return false
	}
	*counted = to
	return true
}

// fill reads what there is, and returns false when there will be no more.
func (c *conn) fill(now time.Time) bool {
	if !c.makeRoom() {
		return false
	}
	c.expect(now)
	n, err := c.nc.Read(c.in[c.to:])
	c.to += n
	c.filled = c.to == len(c.in)
	if n > 0 {
		return true
	}
	if isTimeout(err) && c.s.drainBy.Load() == 0 {
		c.s.slow.Add(1)
	}
	return false
}

// makeRoom sees to it that there is room to read into, and returns false if the
// client may have no more.
func (c *conn) makeRoom() bool {
	size := len(c.in)
	switch {
	case c.from == c.to:
		c.from, c.to = 0, 0
		switch {
		case size > usualBuffer:
			size = smallBuffer
		case c.filled:
			size = usualBuffer
		}
	case c.from > 0:
		c.to = copy(c.in, c.in[c.from:c.to])
		c.from = 0
	}
	if c.to == size {
		size = max(2*size, usualBuffer)
	}
	if size == len(c.in) {
		return true
	}
	if !c.s.grow(&c.large, large(size)) {
		c.s.crowded.Add(1)
		c.out = appendError(nil, "ERR too many large requests at once, try again")
		c.flush()
		return false
	}
	grown := make([]byte, size)
	copy(grown, c.in[:c.to])
	c.in = grown
	return true
}

// expect sets the deadline of the next read.
func (c *conn) expect(now time.Time) {
	if by := c.deadline(now); !by.Equal(c.readBy) {
		c.readBy = by
		_ = c.nc.SetReadDeadline(by) // it fails on a closed connection, and then so does the read
	}
	// Looked at last: whoever begins to drain says so first, and then sets the
	// deadline himself.
	if drain := c.s.drainBy.Load(); drain != 0 {
		_ = c.nc.SetReadDeadline(time.Unix(0, drain))
	}
}

// deadline returns when the next read must have brought something, zero for
// whenever.
func (c *conn) deadline(now time.Time) time.Time {
	switch idle := c.s.opt.IdleTimeout; {
	case !c.authed:
		return c.authBy
	case c.from < c.to:
		if c.partialBy.IsZero() {
			c.partialBy = now.Add(c.s.opt.Timeout)
		}
		return c.partialBy
	case idle > 0:
		by := now.Add(idle)
		if late := by.Sub(c.readBy); late >= 0 && late < idle/8 {
			return c.readBy // setting a deadline takes longer than most commands
		}
		return by
	}
	return time.Time{}
}

// work carries out all commands that are there, and returns how many.
func (c *conn) work() int {
	n := 0
	for !c.ends && !c.lost && c.from < c.to {
		if c.authed && c.tx == nil && c.parser.fresh() {
			if key, length, ok := c.memo.again(c.in[c.from:c.to]); ok {
				c.ask(ask{key: text(key), by: c.memo.limit, cost: 1})
				c.from += length
				c.partialBy = time.Time{}
				n++
				continue
			}
		}
		most := lateBounds
		if !c.authed {
			most = earlyBounds
		}
		done, err := c.parser.next(c.in[c.from:c.to], most)
		if err != nil {
			c.decide()
			c.s.broken.Add(1)
			c.out = appendError(c.out, "ERR "+err.Error())
			c.ends = true
			return n
		}
		if !done {
			break
		}
		p := &c.parser
		if len(p.args) > 0 {
			n++
			c.cmd = command{raw: c.in[c.from : c.from+int(p.pos)], args: p.args, inline: p.inline}
			c.do(&c.cmd)
		}
		c.from += int(p.pos)
		if !c.authed {
			c.early += int(p.pos)
		}
		p.reset()
		c.partialBy = time.Time{}
		if c.early > maxEarly {
			c.s.broken.Add(1)
			c.out = appendError(c.out, "ERR Protocol error: too much before authentication")
			c.ends = true
		}
	}
	c.decide()
	return n
}

// flush writes the replies. A client that does not take them is cut off.
func (c *conn) flush() {
	c.write(c.out)
	c.out = c.out[:0]
}

func (c *conn) write(b []byte) {
	if len(b) == 0 || c.lost {
		return
	}
	timeout := c.s.opt.Timeout
	// Setting a deadline takes longer than a reply: it is set for the next writes
	// too.
	if now := time.Now(); c.writeBy.Sub(now) < timeout {
		c.writeBy = now.Add(timeout + timeout/2)
		_ = c.nc.SetWriteDeadline(c.writeBy) // it fails on a closed connection, and then so does the write
	}
	if _, err := c.nc.Write(b); err != nil {
		c.lost = true
		if isTimeout(err) {
			c.s.slow.Add(1)
		}
	}
}

// writeDirect writes a large part of a reply as it is, without copying it.
func (c *conn) writeDirect(b []byte) {
	c.flush()
	c.write(b)
}

// complain replies with an error to a command that cannot be carried out.
func (c *conn) complain(text string) {
	c.decide()
	c.out = appendError(c.out, text)
}

// authenticate reports whether the user has the password. Without a password there is
// the default user alone, as of a Redis without one.
func (c *conn) authenticate(user, password []byte) bool {
	isUser, isPassword := guesses.Equal(text(user), c.s.opt.User), guesses.Equal(text(password), c.s.opt.Password)
	if isUser && (isPassword || c.s.opt.Password == "") {
		if !c.authed {
			listen.SetAuthenticated(c.nc)
		}
		c.authed = true
		return true
	}
	c.s.wrong.Add(1)
	c.wrong++
	// Another connection is no new start: what an address may guess is bounded too.
	if c.wrong == maxWrongPasswords ||
		c.s.opt.Guesses != nil && c.s.opt.Guesses.Wrong(c.s.ctx, "password of the Redis protocol", guesses.Client(c.nc.RemoteAddr().String())) > 0 {
		c.ends = true
	}
	return false
}
