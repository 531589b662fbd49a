package listen

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// queueListener is a listener whose Close lets those in who are connected and
// wait in the kernel's queue: closing it would cut them off, although they may
// have sent a request.
type queueListener struct {
	net.Listener
	socket syscall.RawConn
	// called: somebody accepts, so that Close has somebody to wait for.
	called atomic.Bool
	// accepted counts the connections.
	accepted atomic.Int64
}

const (
	// queueGrace bounds how long Close waits for the next connection of the queue
	// to be accepted.
	queueGrace = time.Second
	// handshake is how long the last step of one that has begun may take.
	handshake = 100 * time.Millisecond
)

// Accept implements net.Listener.
func (l *queueListener) Accept() (net.Conn, error) {
	l.called.Store(true)
	c, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return c, err
}

// Close implements net.Listener.
func (l *queueListener) Close() error {
	if l.called.Load() {
		l.drainQueue()
	}
	return l.Listener.Close()
}

// drainQueue waits until nobody is in the queue, and none who could be.
func (l *queueListener) drainQueue() {
	// Without a filter people go on to join the queue, and the time for all of them
	// is bounded.
	closed := l.Addr().Network() == "tcp" && refuseConnects(l.socket) == nil
	idleFor := time.Duration(0)
	if closed {
		idleFor = handshake
	}
	accepted, moved, empty := l.accepted.Load(), time.Now(), time.Now()
	for {
		now := time.Now()
		if n := l.accepted.Load(); closed && n != accepted {
			accepted, moved = n, now
		}
		switch {
		case waiting(l.socket):
			empty = time.Now()
			if now.Sub(moved) >= queueGrace {
				return
			}
			time.Sleep(50 * time.Microsecond)
		case now.Sub(empty) >= idleFor:
			return
		default:
			time.Sleep(time.Millisecond)
		}
	}
}
