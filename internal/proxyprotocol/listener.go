// Package proxyprotocol has balancers of TCP name the client of a connection, by a header of
// the PROXY protocol before its first byte.
//
// Source: the PROXY protocol, versions 1 and 2, HAProxy Technologies.
package proxyprotocol

import (
	"cmp"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/address"
	"github.com/weirlimit/weir/internal/faults"
)

// Options configures a [Listener].
type Options struct {
	// From lists the peers that send a PROXY protocol header. They must: a
	// connection without one is closed. Of all others nothing is read, so that
	// nobody else can name an address. Zero means that nobody is listed, which
	// Listen refuses unless Unix is set.
	From []netip.Prefix
	// Unix lists the peers without an address, those of a Unix socket. Zero means
	// that they are not.
	Unix bool
	// Timeout is how long a peer may take to send its header. Zero means 5
	// seconds.
	Timeout time.Duration `yaml:"timeout"`
	// MaxPending is how many connections may wait for their header at once;
	// further ones of listed peers are closed. Zero means 4096.
	MaxPending int
	// Log is told of connections that are closed for their header, once a second at
	// most. Nil means nobody.
	Log *slog.Logger
}

// Listener accepts connections whose RemoteAddr is the client that the
// PROXY protocol, version 1 or 2, names. A connection is accepted once its
// header is read; one that is slow with it holds up no other. Safe for
// concurrent use.
type Listener struct {
	net.Listener
	opt     Options
	from    address.Set
	ready   chan accepted
	pending chan struct{}
	done    chan struct{}
	close   sync.Once
	refused atomic.Uint64
	faults  *faults.Log
	// handing is how many connections have their header read and wait to be
	// accepted.
	handing atomic.Int64

	mu      sync.Mutex
	waiting map[net.Conn]struct{} // for their header
	closed  bool
	running sync.WaitGroup
}

// accepted is what Accept returns.
type accepted struct {
	conn net.Conn
	err  error
}

// Listen returns a listener that takes its connections from ln, and
// closes ln when it is closed.
func Listen(ln net.Listener, opt Options) (*Listener, error) {
	if len(opt.From) == 0 && !opt.Unix {
		return nil, errors.New("the PROXY protocol is never trusted: list the proxies in from")
	}
	if opt.Timeout < 0 || opt.MaxPending < 0 {
		return nil, errors.New("timeout and max_pending of the PROXY protocol must not be negative")
	}
	opt.Timeout, opt.MaxPending = cmp.Or(opt.Timeout, 5*time.Second), cmp.Or(opt.MaxPending, 4096)
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	l := &Listener{
		Listener: ln, opt: opt, from: address.NewSet(opt.From),
		ready: make(chan accepted), pending: make(chan struct{}, opt.MaxPending), done: make(chan struct{}),
		waiting: map[net.Conn]struct{}{}, faults: faults.New(opt.Log),
	}
	l.running.Go(l.takeConnections)
	return l, nil
}

// Accept returns the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case a := <-l.ready:
		return a.conn, a.err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Refused returns how many connections were closed for their header, or for
// want of room to wait for it.
func (l *Listener) Refused() uint64 { return l.refused.Load() }

// Close ends listening and the connections that were not accepted yet.
func (l *Listener) Close() error {
	var err error
	l.close.Do(func() {
		err = l.Listener.Close() // first, because it may let the last ones in
		close(l.done)
		l.mu.Lock()
		l.closed = true
		for c := range l.waiting {
			c.Close()
		}
		l.mu.Unlock()
		l.running.Wait()
	})
	return err
}

// takeConnections takes connections until the listener is closed. Errors are handed to
// whoever accepts, whose pace keeps this from spinning.
func (l *Listener) takeConnections() {
	for {
		c, err := l.Listener.Accept()
		if err != nil || !l.mustSendHeader(c.RemoteAddr()) {
			if !l.handOver(accepted{c, err}) {
				return
			}
			continue
		}
		if l.admitPending(c) {
			l.running.Go(func() { l.readAndHandOver(c) })
		}
	}
}

// admitPending takes one of the places of those who wait for their header, or closes
// c. Where some only wait to be accepted it waits with them: then whoever
// accepts has enough to do, and the rest may stay in the backlog of the kernel.
func (l *Listener) admitPending(c net.Conn) bool {
	select {
	case l.pending <- struct{}{}:
		return true
	default:
	}
	if l.handing.Load() == 0 {
		l.refuseConnection(c, errors.New("too many connections wait for their header"))
		return false
	}
	select {
	case l.pending <- struct{}{}:
		return true
	case <-l.done:
		c.Close()
		return false
	}
}

// handOver gives a to whoever accepts. It returns false if the listener is closed.
func (l *Listener) handOver(a accepted) bool {
	select {
	case l.ready <- a:
		return true
	case <-l.done:
		if a.conn != nil {
			a.conn.Close()
		}
		return false
	}
}

// mustSendHeader reports whether peer must send a header.
func (l *Listener) mustSendHeader(peer net.Addr) bool {
	switch p := peer.(type) {
	case *net.TCPAddr:
		return l.from.Has(address.Bare(p.AddrPort().Addr()))
	case *net.UnixAddr:
		return l.opt.Unix
	}
	return false
}

func (l *Listener) refuseConnection(c net.Conn, why error) {
	all := l.refused.Add(1)
	if l.faults.IsDue() { // a health check that only connects does so for ever
		l.opt.Log.Warn("connection closed: peers listed in http.proxy_protocol must begin with a PROXY header; have the load balancer send it, or take the peer off the list", "peer", c.RemoteAddr().String(), "err", why, "closed", all)
	}
	c.Close()
}

// readAndHandOver reads the header of c and hands c on.
func (l *Listener) readAndHandOver(c net.Conn) {
	defer func() { <-l.pending }()
	if !l.setWaiting(c, true) {
		c.Close()
		return
	}
	c.SetReadDeadline(time.Now().Add(l.opt.Timeout))
	client, err := readHeader(c)
	if err == nil {
		err = c.SetReadDeadline(time.Time{})
	}
	l.setWaiting(c, false)
	if err != nil {
		l.refuseConnection(c, err)
		return
	}
	l.handing.Add(1)
	l.handOver(accepted{conn: proxied(c, client)})
	l.handing.Add(-1)
}

// setWaiting notes that c waits for its header, or that it does no longer. It
// returns false if the listener is closed.
func (l *Listener) setWaiting(c net.Conn, begin bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if begin && !l.closed {
		l.waiting[c] = struct{}{}
	} else {
		delete(l.waiting, c)
	}
	return !l.closed
}

// proxied returns c with the client as its other end. It has all that c can
// do, such as to send files and to close one direction.
func proxied(c net.Conn, client netip.AddrPort) net.Conn {
	if !client.IsValid() {
		return c
	}
	remote := net.TCPAddrFromAddrPort(client)
	if t, ok := c.(*net.TCPConn); ok {
		return &proxiedTCP{t, remote}
	}
	return &proxiedConn{c, remote}
}

type proxiedTCP struct {
	*net.TCPConn
	remote *net.TCPAddr
}

func (c *proxiedTCP) RemoteAddr() net.Addr { return c.remote }

type proxiedConn struct {
	net.Conn
	remote *net.TCPAddr
}

func (c *proxiedConn) RemoteAddr() net.Addr { return c.remote }
