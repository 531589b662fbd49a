package grpcserver

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/weirlimit/weir/internal/backoff"
)

// unsent counts the answers that clients have not taken yet. grpc bounds what a
// client sends, and the calls on a connection, but neither how large their answers
// are nor how long it keeps those that a client gives no room for.
//
// Safe for concurrent use.
type unsent struct {
	// most is how many bytes there may be; beyond it the connection with the most
	// of them is closed.
	most  int64
	total atomic.Int64

	mu    sync.Mutex
	conns map[*conn]struct{}
}

func newUnsent(most int64) *unsent { return &unsent{most: most, conns: make(map[*conn]struct{})} }

// conn is a connection. The buffers of its answers come from it and go back to it:
// it is a mem.BufferPool.
type conn struct {
	net.Conn
	of *unsent

	mu sync.Mutex
	// bytes that it has not taken, and since when it has taken nothing.
	bytes int64
	since time.Time
	gone  bool
}

// connAddr is the address of a client, by which calls find their connection: there
// is nothing else that grpc passes on.
type connAddr struct {
	net.Addr
	conn *conn
}

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return connAddr{c.Conn.RemoteAddr(), c} }

// NetConn returns the connection below.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Close implements net.Conn.
func (c *conn) Close() error {
	c.of.mu.Lock()
	c.leaveTotal()
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// leaveTotal takes what the connection holds out of the total. Requires: of.mu.
func (c *conn) leaveTotal() {
	delete(c.of.conns, c)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		c.gone = true
		c.of.total.Add(-c.bytes)
	}
}

const (
	// pooled is the least capacity of which grpc tells when it is not needed any
	// more.
	pooled = 1<<10 + 1
	// common is the largest size that the pool has but for a MiB.
	common = 32 << 10
	// streamBytes is about what grpc keeps of a call beside its answer.
	streamBytes = 2 << 10
)

// Get implements mem.BufferPool: a buffer for an answer of n bytes.
func (c *conn) Get(n int) *[]byte {
	b := allocateBuffer(n)
	size := int64(cap(*b)) + streamBytes
	c.mu.Lock()
	if c.bytes == 0 {
		c.since = time.Now()
	}
	c.bytes += size
	over := !c.gone && c.of.total.Add(size) > c.of.most
	c.mu.Unlock()
	if over {
		c.of.closeWorst()
	}
	return b
}

// Put implements mem.BufferPool: the answer was written, or nobody waits for it.
func (c *conn) Put(b *[]byte) {
	size := int64(cap(*b)) + streamBytes
	c.mu.Lock()
	c.bytes -= size
	c.since = time.Now()
	if !c.gone {
		c.of.total.Add(-size)
	}
	c.mu.Unlock()
	if cap(*b) <= common {
		mem.DefaultBufferPool().Put(b)
	}
}

// allocateBuffer returns n bytes. Those of large answers are made for them: of what the pool
// has they would take a MiB each.
func allocateBuffer(n int) *[]byte {
	if n > common {
		b := make([]byte, n)
		return &b
	}
	b := mem.DefaultBufferPool().Get(max(n, pooled))
	*b = (*b)[:n]
	return b
}

// stalled reports whether the client has taken nothing since before.
func (c *conn) stalled(before time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes > 0 && c.since.Before(before)
}

// closeWorst closes connections, those that hold the most first, until there are
// no more bytes than there may be.
func (u *unsent) closeWorst() {
	for {
		c := u.forgetWorst()
		if c == nil {
			return
		}
		_ = c.Conn.Close() // its client has gone if this fails
	}
}

// forgetWorst takes the connection that holds the most out of the total, and returns
// it. It returns nil if there are no more bytes than there may be: who comes at the same
// time finds the total without that connection, and takes no other.
func (u *unsent) forgetWorst() (worst *conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.total.Load() <= u.most {
		return nil
	}
	var most int64
	for c := range u.conns {
		c.mu.Lock()
		if c.bytes > most {
			worst, most = c, c.bytes
		}
		c.mu.Unlock()
	}
	if worst != nil {
		worst.leaveTotal()
	}
	return worst
}

// closeStalled closes connections that have taken nothing of what there is for them for so
// long, until ctx ends.
func (u *unsent) closeStalled(ctx context.Context, stall time.Duration) {
	for backoff.Sleep(ctx, stall/4+1) {
		for _, c := range u.stalled(time.Now().Add(-stall)) {
			_ = c.Close()
		}
	}
}

func (u *unsent) stalled(before time.Time) (all []*conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.conns {
		if c.stalled(before) {
			all = append(all, c)
		}
	}
	return all
}

// countUnsent returns in, which counts what its client has not taken.
func (u *unsent) countUnsent(in net.Conn) net.Conn {
	c := &conn{Conn: in, of: u}
	u.mu.Lock()
	u.conns[c] = struct{}{}
	u.mu.Unlock()
	return c
}
