package counter

import (
	"bytes"
	"net"
)

// hello is what the client library begins every connection with, behind AUTH.
// Proxies between here and Redis such as twemproxy end a connection on commands
// that they do not know, and envoyproxy/ratelimit sends them none.
var (
	hello   = []byte("*2\r\n$5\r\nHELLO\r\n$1\r\n2\r\n")
	noHello = []byte("-ERR unknown command 'HELLO'\r\n")
)

// withoutHello is a connection that does not send hello, and replies to it as a
// server that does not know it. Its methods are for one reader and one writer, as
// those of every connection of the library.
type withoutHello struct {
	net.Conn
	sent bool
	// replies tells the reader how many lines come before the reply to hello.
	replies chan int
	// lines is what is left of that, -1 when all is over; fake what is to be read.
	lines int
	asked bool
	fake  []byte
}

func leaveHelloOut(conn net.Conn) net.Conn {
	return &withoutHello{Conn: conn, replies: make(chan int, 1)}
}

// Write implements net.Conn.
func (c *withoutHello) Write(b []byte) (int, error) {
	if c.sent {
		return c.Conn.Write(b)
	}
	c.sent = true
	before, behind, found := bytes.Cut(b, hello)
	if !found {
		c.replies <- -1
		return c.Conn.Write(b)
	}
	// AUTH, which is replied to by one line.
	c.replies <- bytes.Count(before, []byte("\r\n$4\r\nAUTH\r\n"))
	if rest := append(bytes.Clone(before), behind...); len(rest) > 0 {
		if _, err := c.Conn.Write(rest); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// Read implements net.Conn.
func (c *withoutHello) Read(b []byte) (int, error) {
	if !c.asked {
		c.lines, c.asked = <-c.replies, true
	}
	switch {
	case len(c.fake) > 0:
	case c.lines == 0:
		c.fake, c.lines = noHello, -1
	case c.lines > 0 && len(b) > 0:
		// Byte by byte, so as not to read what comes behind.
		n, err := c.Conn.Read(b[:1])
		if n == 1 && b[0] == '\n' {
			c.lines--
		}
		return n, err
	default:
		return c.Conn.Read(b)
	}
	n := copy(b, c.fake)
	c.fake = c.fake[n:]
	return n, nil
}

// Close implements net.Conn. It lets a reader go that waits for a first write.
func (c *withoutHello) Close() error {
	select {
	case c.replies <- -1:
	default:
	}
	return c.Conn.Close()
}
