package resp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/weirlimit/weir/internal/backoff"
	"github.com/weirlimit/weir/internal/listen"
)

// linger is how long connections are answered after the listener has closed, for
// commands that are on their way: the protocol has no word by which a server says
// that it ends.
const linger = 500 * time.Millisecond

// Serve answers on ln until ctx ends, then drains: whoever is connected gets the
// answers to what has arrived. It returns nil when no connection had to be cut.
// It must be called once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	limits := listen.Limits{
		Max: int64(s.opt.MaxClients), Shared: s.opt.Shared, Refuse: s.refuseClient, Counts: s.opt.Connections, Log: s.opt.Log,
	}
	if s.opt.Password != "" {
		limits.Unauthenticated = max(limits.Max/4, 1)
	}
	ln = listen.Limit(ln, limits)
	ended, err := listen.Serve(ctx, ln, s.acceptClients, func() { time.Sleep(s.opt.DrainDelay) })
	if drainErr := s.drain(); !ended {
		err = errors.Join(err, drainErr)
	}
	return err
}

// acceptClients lets clients in until ln is closed.
func (s *Server) acceptClients(ln net.Listener) error {
	wait := backoff.Backoff{Min: 5 * time.Millisecond, Max: time.Second}
	for {
		nc, err := ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			// Such as too many open files: it passes when others close theirs.
			pause := wait.Next()
			s.opt.Log.Error("accept failed; will retry", "err", err, "retry_in", pause)
			time.Sleep(pause)
			continue
		}
		wait.Reset()
		s.done.Go(s.addConnection(nc).serveClient)
	}
}

// addConnection takes nc into the list of connections.
func (s *Server) addConnection(nc net.Conn) *conn {
	if s.opt.TLS != nil {
		nc = tls.Server(nc, s.opt.TLS)
	}
	c := &conn{s: s, nc: nc, id: s.ids.Add(1), reader: reader{s: s, nc: nc}, replies: writer{s: s, nc: nc, proto: 2}}
	c.batch = batch{s: s, replies: &c.replies}
	if s.opt.Password != "" {
		c.session.authBy = time.Now().Add(s.opt.Timeout)
	}
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	s.accepted.Add(1)
	return c
}

// refuseClient tells a client that there is no place for it, in the words of Redis.
func (s *Server) refuseClient(nc net.Conn) {
	if s.opt.TLS != nil {
		return
	}
	// A few bytes into an empty buffer: this does not wait, and if it fails there is
	// nobody to tell.
	_ = nc.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	_, _ = nc.Write([]byte("-ERR max number of clients reached\r\n"))
}

// removeConnection takes c from the list.
func (s *Server) removeConnection(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

// drain ends all connections: those that are idle after a moment, all others
// within DrainTimeout.
func (s *Server) drain() error {
	by := time.Now().Add(min(linger, s.opt.DrainTimeout))
	s.drainBy.Store(by.UnixNano())
	s.eachConnection(func(c *conn) { _ = c.nc.SetReadDeadline(by) }) // a closed connection has ended
	ended := make(chan struct{})
	go func() {
		s.done.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		s.cut()
		return nil
	case <-time.After(s.opt.DrainTimeout):
	}
	s.cut()
	n := 0
	s.eachConnection(func(c *conn) {
		n++
		_ = c.nc.Close() // it is to end, one way or another
	})
	<-ended
	return fmt.Errorf("drain: %d connections cut after %s", n, s.opt.DrainTimeout)
}

// eachConnection calls f for every connection.
func (s *Server) eachConnection(f func(*conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		f(c)
	}
}

// handshake begins TLS, if it is to be.
func (s *Server) handshake(nc net.Conn) error {
	t, ok := nc.(*tls.Conn)
	if !ok {
		return nil
	}
	ctx, stop := context.WithTimeout(s.ctx, s.opt.Timeout)
	defer stop()
	return t.HandshakeContext(ctx)
}

// serveClient serves the connection until it ends.
func (c *conn) serveClient() {
	defer c.close()
	now := time.Now()
	if err := c.s.handshake(c.nc); err != nil {
		if isTimeout(err) {
			c.s.slow.Add(1)
		}
		return
	}
	c.reader.in = make([]byte, smallBuffer)
	for c.readInput(now) && listen.SetIdle(c.nc, false) {
		began := time.Now()
		now = began
		buffer := c.s.outs.Get().(*[]byte)
		c.replies.out = (*buffer)[:0]
		n := c.runCommands()
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

// readInput reads what there is, and returns false when there will be no more.
func (c *conn) readInput(now time.Time) bool {
	switch err := c.reader.fillBuffer(now, c.session.authBy); {
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

// runCommands carries out all commands that are there, and returns how many.
func (c *conn) runCommands() int {
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
		done, err := c.reader.nextCommand(&c.cmd, most)
		if err != nil {
			c.breakOff(err)
			return n
		}
		if !done {
			break
		}
		if len(c.cmd.args) > 0 {
			n++
			c.runCommand(&c.cmd)
		}
		if !c.session.isAuthenticated() {
			if c.session.early += len(c.cmd.raw); c.session.early > maxEarly {
				c.breakOff(protocolError("too much before authentication"))
			}
		}
	}
	c.batch.decidePending()
	return n
}

func (c *conn) close() {
	// What is left to say was said, or could not be.
	_ = c.nc.Close()
	c.s.resizeLarge(&c.reader.large, 0)
	c.endTransaction()
	c.s.removeConnection(c)
}
