package listen

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// Stall returns a listener of connections on which a write fails after stall
// without a byte taken: a deadline moves on with every byte, and whoever is slow
// and steady has all the time there is. Zero means no bound.
func Stall(ln net.Listener, stall time.Duration) net.Listener {
	if stall == 0 {
		return ln
	}
	return Wrap(ln, func(c net.Conn) net.Conn {
		w := &stallConn{Conn: c}
		w.write = Pace{Set: c.SetWriteDeadline, Stall: stall}
		return w
	})
}

// stallConn is a connection of a listener of Stall.
type stallConn struct {
	net.Conn
	write Pace
}

// Write implements net.Conn.
func (c *stallConn) Write(b []byte) (int, error) {
	for sent := 0; ; {
		c.write.ExtendDeadline()
		n, err := c.Conn.Write(b[sent:])
		sent += n
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || c.write.HasLastPassed() {
			return sent, err
		}
		if n == 0 {
			// HTTP/2 of net/http goes on reading after a write that failed.
			_ = c.Conn.Close()
			return sent, err
		}
	}
}

// SetWriteDeadline implements net.Conn.
func (c *stallConn) SetWriteDeadline(t time.Time) error { return c.write.SetLastDeadline(t) }

// SetDeadline implements net.Conn.
func (c *stallConn) SetDeadline(t time.Time) error {
	return errors.Join(c.Conn.SetReadDeadline(t), c.write.SetLastDeadline(t))
}

// NetConn returns the connection below.
func (c *stallConn) NetConn() net.Conn { return c.Conn }

// CloseWrite ends what is written, as slotConn's does.
func (c *stallConn) CloseWrite() error { return closeWrite(c, c.Conn) }

// Pace sets a deadline anew as long as something moves. Safe for concurrent
// use.
type Pace struct {
	// Stall is how long nothing may move. Zero means no bound.
	Stall time.Duration
	// Set sets the deadline. It is nil, and used no more, after End.
	Set func(time.Time) error
	// Last is the deadline that holds however much moves, zero for none.
	Last time.Time

	mu sync.Mutex
	// rests: nothing is to move any more, and the deadline is others' business.
	rests bool
	// until is the deadline in force, zero if it is not known or none.
	until time.Time
}

// ExtendDeadline is called before each attempt to move something.
func (p *Pace) ExtendDeadline() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Set == nil || p.rests || p.Stall == 0 {
		return
	}
	// To set a deadline costs a lock of the runtime's: not for every write.
	until := time.Now().Add(p.Stall)
	isLast := !p.Last.IsZero() && p.Last.Before(until)
	if isLast {
		until = p.Last
	}
	later := until.Sub(p.until)
	if !p.until.IsZero() && (later == 0 || !isLast && later > 0 && later < p.Stall/4) {
		return
	}
	p.until = until
	_ = p.Set(until) // it fails on closed connections, as the move then does
}

// SetLastDeadline sets the deadline that holds however much moves, zero for none. An earlier one that
// is in force stays until something moves: net/http sets one for each request.
func (p *Pace) SetLastDeadline(last time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Set == nil {
		return net.ErrClosed
	}
	p.Last = last
	isEarlier := last.IsZero() || p.until.Before(last)
	if !p.rests && p.Stall > 0 && !p.until.IsZero() && isEarlier {
		return nil
	}
	p.until = last
	return p.Set(last)
}

// HasLastPassed reports, when a deadline has passed, whether it is one that others have
// asked for.
func (p *Pace) HasLastPassed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Time{}
	return !p.Last.IsZero() && !time.Now().Before(p.Last)
}

// StopWatching ends the watch.
func (p *Pace) StopWatching() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rests = true
}

// End lets go of what the deadline is set on.
func (p *Pace) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Set = nil
}
