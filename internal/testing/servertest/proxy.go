package servertest

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// Way is a direction through a Proxy.
type Way int

// The two directions.
const (
	Requests Way = iota
	Replies
)

// Proxy passes TCP connections on to a server, with faults that a test sets while
// it runs. Safe for concurrent use.
type Proxy struct {
	// Addr is HOST:PORT.
	Addr string

	ln   net.Listener
	life sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	target  string
	latency [2]time.Duration
	stalled [2]bool
	cut     int64 // bytes of replies until connections are cut; negative if not
	closed  bool
	conns   map[*net.TCPConn]bool
}

// NewProxy returns a proxy without a fault before the server at target, HOST:PORT.
// It ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: ln.Addr().String(), ln: ln, target: target, cut: -1, conns: map[*net.TCPConn]bool{}}
	p.changed = sync.NewCond(&p.mu)
	p.life.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Target makes new connections go to another server.
func (p *Proxy) Target(addr string) { p.change(func() { p.target = addr }) }

// Delay holds each piece that goes one way back for d.
func (p *Proxy) Delay(w Way, d time.Duration) { p.change(func() { p.latency[w] = d }) }

// Stall lets nothing pass one way, or lets it pass again, late.
func (p *Proxy) Stall(w Way, stalled bool) { p.change(func() { p.stalled[w] = stalled }) }

// CutAfter resets the connection on which the n-th byte of replies from now on
// goes, after it. Negative: none.
func (p *Proxy) CutAfter(n int64) { p.change(func() { p.cut = n }) }

// Reset breaks every connection off, as a server does whose machine was replaced.
func (p *Proxy) Reset() {
	p.change(func() {
		for c := range p.conns {
			reset(c)
		}
	})
}

// HalfClose ends every connection's replies and goes on reading requests.
func (p *Proxy) HalfClose() {
	p.change(func() {
		for c, client := range p.conns {
			if client {
				// One that has ended already cannot be ended.
				_ = c.CloseWrite()
			}
		}
	})
}

func (p *Proxy) change(f func()) {
	p.mu.Lock()
	f()
	p.mu.Unlock()
	p.changed.Broadcast()
}

// reset closes a connection without a farewell.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

func (p *Proxy) close() {
	p.ln.Close()
	p.change(func() {
		p.closed = true
		for c := range p.conns {
			reset(c)
		}
	})
	p.life.Wait()
}

func (p *Proxy) accept() {
	for {
		conn, err := p.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			p.life.Go(func() { p.serve(conn.(*net.TCPConn)) })
		}
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	defer client.Close()
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	conn, err := net.DialTimeout("tcp", target, 30*time.Second)
	if err != nil {
		reset(client)
		return
	}
	server := conn.(*net.TCPConn)
	defer server.Close()
	p.change(func() {
		p.conns[client], p.conns[server] = true, false
		if p.closed {
			reset(client)
			reset(server)
		}
	})
	defer p.change(func() { delete(p.conns, client); delete(p.conns, server) })
	var both sync.WaitGroup
	both.Go(func() { p.pass(server, client, Requests) })
	both.Go(func() { p.pass(client, server, Replies) })
	both.Wait()
}

func (p *Proxy) pass(dst, src *net.TCPConn, w Way) {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			n, cut := p.hold(w, n)
			if _, wrong := dst.Write(buf[:n]); wrong != nil && err == nil {
				err = wrong
			}
			if cut {
				reset(dst)
				reset(src)
				return
			}
		}
		if errors.Is(err, io.EOF) {
			_ = dst.CloseWrite()
			return
		}
		if err != nil {
			reset(dst)
			reset(src)
			return
		}
	}
}

// hold waits until n bytes may go on. It returns how many of them, and whether
// the connection is cut after them.
func (p *Proxy) hold(w Way, n int) (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.latency[w]; d > 0 && !p.closed {
		p.mu.Unlock()
		<-time.After(d)
		p.mu.Lock()
	}
	for p.stalled[w] && !p.closed {
		p.changed.Wait()
	}
	if w == Requests || p.cut < 0 {
		return n, false
	}
	if int64(n) < p.cut {
		p.cut -= int64(n)
		return n, false
	}
	n, p.cut = int(p.cut), -1
	return n, true
}
