package listen

import (
	"net"
	"sync"
)

// limitListener accepts at most as many connections as slots has room for;
// further ones wait in the kernel's queue.
type limitListener struct {
	net.Listener
	slots chan struct{}
	ended chan struct{}
	once  sync.Once
}

// Limit bounds ln to n connections at once; zero means no bound.
func Limit(ln net.Listener, n int64) net.Listener {
	if n == 0 {
		return ln
	}
	return &limitListener{Listener: ln, slots: make(chan struct{}, n), ended: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *limitListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.ended:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &slotConn{Conn: c, free: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close implements net.Listener.
func (l *limitListener) Close() error {
	err := l.Listener.Close() // first, because it may let the last ones in
	l.once.Do(func() { close(l.ended) })
	return err
}

// slotConn gives its slot back when it is closed.
type slotConn struct {
	net.Conn
	free func()
}

// Close implements net.Conn.
func (c *slotConn) Close() error {
	err := c.Conn.Close()
	c.free()
	return err
}

// CloseWrite ends what is written, and lets the peer finish: net/http does so
// before it closes, and so do upgraded connections.
func (c *slotConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return c.Close()
}
