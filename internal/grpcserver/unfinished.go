package grpcserver

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/weirlimit/weir/internal/bodies"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/listen"
)

// unfinished bounds what calls hold of the messages that are sent to them, until they
// are answered: grpc lets a client send a whole message on every stream at once.
//
// grpc tells nobody what has arrived, so connections follow the HTTP/2 frames that
// pass. A call for which the budget has no room is reset in both directions: grpc
// sees that the client has canceled it, and the client gets ENHANCE_YOUR_CALM, which
// gRPC maps to RESOURCE_EXHAUSTED. As the connections know which calls were begun, they
// also inform the client when they are closed for another.
//
// grpc's own bounds, on calls and on the bytes of a message, do not bound memory: grpc
// keeps each DATA frame apart, so a message in frames of one byte takes 41 times its
// bytes (TestFramesOfOneByte). 16,384 calls with messages of 64 KiB would hold 41 GiB;
// for 1 GiB a message could have 1,600 bytes. Windows do not help, as they open when a
// part of a message is read, nor does grpc's buffer pool, which is not asked for frames
// of up to a KiB, nor is there any other place that knows of a call before its message
// is whole. That a connection is idle shows in its frames alone too: grpc does not tell
// when an answer was written, and a client that is told too early calls twice.
type unfinished struct {
	budget *bodies.Budget
	// most is how many calls a connection may have.
	most   int
	faults *faults.Log
}

// errEvicted is returned for a call on a connection that is closed for another.
var errEvicted = errors.New("grpcserver: the connection is closed for another")

var errNoRoom = errors.New("unfinished messages use all memory reserved for them; the call fails with RESOURCE_EXHAUSTED")

// countedConn is a connection whose calls are counted.
type countedConn struct {
	net.Conn
	of *unfinished

	// in and rest are used by the goroutine that reads.
	in frames
	// rest was read and counted, and is still to be returned.
	rest []byte

	write sync.Mutex // held while something is written
	out   frames     // Requires: write.
	begun bool       // something was written. Requires: write.
	// evicted: the client is informed that the connection is closed for another.
	evicted sync.Once

	mu     sync.Mutex
	calls  map[uint32]received // the open streams. Requires: mu.
	last   uint32              // the highest stream that was opened; written by the reader. Requires: mu.
	resets []byte              // frames to be written. Requires: mu.
	closed bool                // Requires: mu.
	// pending: there are resets.
	pending atomic.Bool
}

// received is what has arrived on a stream.
type received struct {
	bytes int
	share *bodies.Share // nil for a small one
}

// prefaceBytes is the length of what a client begins with (RFC 9113 §3.4).
const prefaceBytes = 24

// countCalls returns c with its calls counted.
func (u *unfinished) countCalls(c net.Conn) net.Conn {
	counted := &countedConn{Conn: c, of: u, in: frames{skip: prefaceBytes}, calls: make(map[uint32]received)}
	listen.OnEvict(c, counted.goAway)
	return counted
}

// frameCost returns the memory that grpc holds for a DATA frame of n bytes: its buffers
// have few sizes, and a small one costs what it is kept by.
func frameCost(n int) int {
	const kept = 64
	switch {
	case n <= 1<<10:
		return n + kept
	case n <= 4<<10:
		return 4<<10 + kept
	default:
		return max(n, 16<<10) + kept
	}
}

// Codes of RST_STREAM frames (RFC 9113 §7).
const (
	codeCancel          = 0x8
	codeEnhanceYourCalm = 0xb
)

// Read implements net.Conn.
func (c *countedConn) Read(b []byte) (int, error) {
	if len(c.rest) > 0 {
		n := copy(b, c.rest)
		c.rest = c.rest[n:]
		return n, nil
	}
	n, err := c.Conn.Read(b)
	var spliced []byte // what is returned in place of b[:n], if anything
	from := 0
	for at := 0; at < n; {
		k, ended := c.in.followFrame(b[at:n])
		at += k
		if !ended {
			continue
		}
		fits, wrong := c.receive()
		if wrong != nil {
			return 0, wrong
		}
		if !fits {
			spliced = append(append(spliced, b[from:at]...), resetFrame(c.in.stream, codeCancel)...)
			from = at
		}
	}
	if spliced == nil {
		return n, err
	}
	spliced = append(spliced, b[from:n]...)
	n = copy(b, spliced)
	c.rest = spliced[n:]
	return n, err
}

// receive counts the frame that has arrived. It returns false if its call is
// refused, and an error if the client begins calls without end.
func (c *countedConn) receive() (fits bool, err error) {
	switch f := &c.in; f.kind {
	case typeHeaders:
		if f.stream > c.last {
			err := c.openCall(f.stream)
			if errors.Is(err, errEvicted) {
				c.goAway() // before grpc closes the connection
			}
			return true, err
		}
	case typeReset:
		if c.forgetCall(f.stream) {
			c.markIdle()
		}
	case typeData:
		if !c.growCall(f.stream, frameCost(f.length)) {
			c.of.budget.Refuse()
			c.of.faults.Report("gRPC call refused", errNoRoom)
			if c.forgetCall(f.stream) {
				c.markIdle()
			}
			return false, c.refuseCall(f.stream)
		}
	}
	return true, nil
}

// openCall counts a call.
func (c *countedConn) openCall(stream uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	// grpc resets calls above the bound, and reads little before that is written.
	const unread = 8192
	if c.closed {
		return net.ErrClosed
	}
	if len(c.calls) >= c.of.most+unread {
		return fmt.Errorf("grpcserver: a connection has %d calls, and may have %d", len(c.calls), c.of.most)
	}
	if len(c.calls) == 0 && !listen.SetIdle(c.Conn, false) {
		return errEvicted
	}
	c.last = stream
	c.calls[stream] = received{}
	return nil
}

// growCall counts what has arrived on a stream, and returns false if there is no room
// for it.
func (c *countedConn) growCall(stream uint32, bytes int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, open := c.calls[stream]
	if !open {
		return true // grpc drops it
	}
	r.bytes += bytes
	if r.bytes > bodies.Free && r.share == nil {
		share := c.of.budget.Share()
		r.share = &share
	}
	c.calls[stream] = r
	return r.share == nil || r.share.Grow(r.bytes)
}

// forgetCall forgets a call, and returns false if there is no such call.
func (c *countedConn) forgetCall(stream uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, open := c.calls[stream]
	if r.share != nil {
		r.share.End()
	}
	delete(c.calls, stream)
	return open
}

// evictTimeout is how long a client may take to receive the frame of goAway.
const evictTimeout = time.Second

// goAway informs the client that the connection is closed for another, and which of
// its calls was the last that was begun: a call that is on its way was not carried
// out, and clients make it again on another connection (RFC 9113 §6.8).
func (c *countedConn) goAway() {
	c.evicted.Do(func() {
		// Fails on a closed connection, as the write then does.
		_ = c.Conn.SetWriteDeadline(time.Now().Add(evictTimeout))
		c.write.Lock()
		defer c.write.Unlock()
		if !c.begun || !c.out.between() {
			return
		}
		c.mu.Lock()
		last := c.last
		c.mu.Unlock()
		_, _ = c.Conn.Write(goAwayFrame(last)) // a client that is gone needs no information
	})
}

// markIdle says that the connection is idle if it has no calls.
func (c *countedConn) markIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) == 0 {
		listen.SetIdle(c.Conn, true)
	}
}

// refuseCall tells the client that a call is refused.
func (c *countedConn) refuseCall(stream uint32) error {
	c.mu.Lock()
	c.resets = append(c.resets, resetFrame(stream, codeEnhanceYourCalm)...)
	c.pending.Store(true)
	c.mu.Unlock()
	return c.flushResets()
}

// flushResets writes what resets there are, unless another goroutine writes, which then
// does so.
func (c *countedConn) flushResets() error {
	for c.pending.Load() && c.write.TryLock() {
		wrote, err := c.writeResets()
		c.write.Unlock()
		if err != nil || !wrote {
			return err
		}
	}
	return nil
}

// writeResets writes what resets there are, or returns false in the middle of a
// frame. Requires: write.
func (c *countedConn) writeResets() (bool, error) {
	if !c.out.between() {
		return false, nil
	}
	c.mu.Lock()
	b := c.resets
	c.resets = nil
	c.pending.Store(false)
	c.mu.Unlock()
	_, err := c.Conn.Write(b)
	return true, err
}

// Write implements net.Conn.
func (c *countedConn) Write(b []byte) (int, error) {
	n, ended, err := c.writeFrames(b)
	if ended {
		c.markIdle()
	}
	if err == nil {
		err = c.flushResets()
	}
	return n, err
}

// writeFrames writes b, and forgets the calls that end with it. It reports whether
// there were any.
func (c *countedConn) writeFrames(b []byte) (n int, ended bool, err error) {
	c.write.Lock()
	defer c.write.Unlock()
	for at := 0; at < len(b); {
		k, whole := c.out.followFrame(b[at:])
		at += k
		f := &c.out
		if !whole || f.kind != typeReset && (f.kind != typeHeaders && f.kind != typeData || f.flags&flagEndStream == 0) {
			continue
		}
		ended = c.forgetCall(f.stream) || ended
	}
	c.begun = true
	n, err = c.Conn.Write(b)
	return n, ended, err
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		for _, r := range c.calls {
			if r.share != nil {
				r.share.End()
			}
		}
		clear(c.calls)
	}
	c.mu.Unlock()
	return c.Conn.Close()
}

// countingCredentials counts the calls of connections that are encrypted.
type countingCredentials struct {
	credentials.TransportCredentials
	of *unfinished
}

// ServerHandshake implements credentials.TransportCredentials.
func (t countingCredentials) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	in, info, err := t.TransportCredentials.ServerHandshake(c)
	if err != nil {
		return nil, nil, err
	}
	return t.of.countCalls(in), info, nil
}

// Clone implements credentials.TransportCredentials.
func (t countingCredentials) Clone() credentials.TransportCredentials {
	return countingCredentials{t.TransportCredentials.Clone(), t.of}
}
