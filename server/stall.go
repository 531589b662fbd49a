package server

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A peer that takes nothing of its answer, or sends nothing of its body, holds
// a connection, and what its request holds of the upstream and of limits on
// concurrency, at no cost of its own. Deadlines that move on with every byte
// end that; whoever is slow and steady has all the time there is.

// stallListener accepts connections on which a write fails after stall without
// a byte taken.
type stallListener struct {
	net.Listener
	stall time.Duration
}

// Accept implements net.Listener.
func (l stallListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil || l.stall == 0 {
		return c, err
	}
	w := &stallConn{Conn: c}
	w.write = pace{set: c.SetWriteDeadline, stall: l.stall}
	return w, nil
}

// stallConn is a connection of a stallListener.
type stallConn struct {
	net.Conn
	write pace
}

// Write implements net.Conn.
func (c *stallConn) Write(b []byte) (int, error) {
	for sent := 0; ; {
		c.write.moved()
		n, err := c.Conn.Write(b[sent:])
		sent += n
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || c.write.over() {
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
func (c *stallConn) SetWriteDeadline(t time.Time) error { return c.write.limit(t) }

// SetDeadline implements net.Conn.
func (c *stallConn) SetDeadline(t time.Time) error {
	return errors.Join(c.Conn.SetReadDeadline(t), c.write.limit(t))
}

// CloseWrite ends what is written, as slotConn's does.
func (c *stallConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return c.Close()
}

// pace sets a deadline anew as long as something moves. Safe for concurrent
// use.
type pace struct {
	stall time.Duration

	mu sync.Mutex
	// set sets the deadline. Nil when there is nothing left to set it on.
	set func(time.Time) error
	// rests: nothing is to move any more, and the deadline is others' business.
	rests bool
	// last is the deadline that others have asked for, zero for none.
	last time.Time
	// until is the deadline in force, zero if it is not known.
	until time.Time
}

// moved is called before each attempt to move something.
func (p *pace) moved() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.set == nil || p.rests || p.stall == 0 {
		return
	}
	// To set a deadline costs a lock of the runtime's: not for every write.
	until := time.Now().Add(p.stall)
	if !p.until.IsZero() && until.Sub(p.until) < p.stall/4 {
		return
	}
	if !p.last.IsZero() && p.last.Before(until) {
		until = p.last
	}
	p.until = until
	_ = p.set(until) // it fails on closed connections, as the move then does
}

// limit sets the deadline that holds however much moves, zero for none.
func (p *pace) limit(last time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.set == nil {
		return net.ErrClosed
	}
	p.last, p.until = last, time.Time{}
	return p.set(last)
}

// over reports, when a deadline has passed, whether it is one that others have
// asked for.
func (p *pace) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = time.Time{}
	return !p.last.IsZero() && !time.Now().Before(p.last)
}

// rest ends the watch.
func (p *pace) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rests = true
}

// end lets go of what the deadline is set on.
func (p *pace) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set = nil
}

// waiter ends what waits for a peer for too long. It is for the streams of
// HTTP/2, whose deadlines pass whether anybody waits or not. Safe for concurrent
// use, but one waits at a time.
type waiter struct {
	stall time.Duration
	// since is when the wait began, in nanoseconds since the Unix epoch, zero
	// when nobody waits.
	since atomic.Int64

	mu sync.Mutex
	// expire ends the wait. Nil when the request is over.
	expire func()
	timer  *time.Timer
}

// begin is called before each wait.
func (w *waiter) begin() {
	w.since.Store(time.Now().UnixNano())
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer == nil && w.expire != nil {
		w.timer = time.AfterFunc(w.stall, w.look)
	}
}

// done is called after each wait.
func (w *waiter) done() { w.since.Store(0) }

func (w *waiter) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.expire == nil {
		return
	}
	left := w.stall
	if since := w.since.Load(); since != 0 {
		left -= time.Duration(time.Now().UnixNano() - since)
	}
	if left > 0 {
		w.timer.Reset(left)
		return
	}
	w.expire()
}

// end ends the watch, and reports whether there was a wait.
func (w *waiter) end() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expire = nil
	if w.timer == nil {
		return false
	}
	w.timer.Stop()
	return true
}

// pacedBody is a body over HTTP/1, which must keep coming.
type pacedBody struct {
	io.ReadCloser
	read pace
	// broken: it ended before its end. What comes after it on the connection
	// must not be taken for a request, and with full duplex net/http would.
	broken atomic.Bool
}

// Read implements io.Reader.
func (b *pacedBody) Read(p []byte) (int, error) {
	b.read.moved()
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == io.EOF:
		// net/http reads on, to see whether the client is still there.
		b.read.rest()
	case err != nil && err != http.ErrBodyReadAfterClose:
		b.broken.Store(true)
	}
	return n, err
}

// awaitedBody is a body over HTTP/2, which must keep coming.
type awaitedBody struct {
	io.ReadCloser
	read waiter
}

// Read implements io.Reader.
func (b *awaitedBody) Read(p []byte) (int, error) {
	b.read.begin()
	defer b.read.done()
	return b.ReadCloser.Read(p)
}

// watch is what keeps one request moving. Over HTTP/1 the connection sees to its
// answer.
type watch struct {
	ctl   *http.ResponseController
	stall time.Duration
	paced *pacedBody   // nil over HTTP/2, and where there is no body
	body  *awaitedBody // nil over HTTP/1, and where there is no body
	write *waiter      // nil over HTTP/1
}

// newWatch watches a request, and returns the one to be served in its place,
// with a watched body. It returns nil where there is nothing to watch.
//
// net/http looks at the body of its own request to tell whether the connection
// can be used again, so that one stays as it is.
func newWatch(w http.ResponseWriter, r *http.Request, stall, whole time.Duration) (*watch, *http.Request) {
	hasBody := r.ContentLength != 0 && r.Body != nil
	if r.ProtoMajor == 1 && !hasBody || r.ProtoMajor >= 2 && stall == 0 {
		return nil, r
	}
	if hasBody {
		own := *r
		r = &own
	}
	a := &watch{ctl: http.NewResponseController(w), stall: stall}
	past := time.Unix(1, 0)
	switch {
	case r.ProtoMajor == 1:
		a.paced = &pacedBody{ReadCloser: r.Body, read: pace{set: a.ctl.SetReadDeadline, stall: stall}}
		if whole > 0 {
			a.paced.read.last = time.Now().Add(whole)
		}
		a.paced.read.moved() // also for what net/http reads when the handler does not
		r.Body = a.paced
		return a, r
	case hasBody:
		a.body = &awaitedBody{ReadCloser: r.Body, read: waiter{stall: stall, expire: func() { _ = a.ctl.SetReadDeadline(past) }}}
		r.Body = a.body
	}
	a.write = &waiter{stall: stall, expire: func() { _ = a.ctl.SetWriteDeadline(past) }}
	return a, r
}

// broken reports whether the connection is of no use for another request.
func (a *watch) broken() bool { return a != nil && a.paced != nil && a.paced.broken.Load() }

// end is called when the handler has returned, and net/http has yet to send
// what is left of the answer and to read what is left of the body.
func (a *watch) end() {
	if a.paced != nil {
		a.paced.read.moved()
		a.paced.read.end()
	}
	if a.body != nil {
		a.body.read.end()
	}
	if a.write != nil && a.write.end() {
		_ = a.ctl.SetWriteDeadline(time.Now().Add(a.stall)) // net/http always can
	}
}
