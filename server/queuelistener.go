package server

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
}

// queueGrace bounds how long Close waits for the queue to be empty.
const queueGrace = time.Second

// Accept implements net.Listener.
func (l *queueListener) Accept() (net.Conn, error) {
	l.called.Store(true)
	return l.Listener.Accept()
}

// Close implements net.Listener. It returns after a second at the latest. Who
// connects in the instant between the last look at the queue and the closing is
// cut off: that instant is what --drain-delay is for.
func (l *queueListener) Close() error {
	for began := time.Now(); l.called.Load() && waiting(l.socket) && time.Since(began) < queueGrace; {
		time.Sleep(50 * time.Microsecond)
	}
	return l.Listener.Close()
}
