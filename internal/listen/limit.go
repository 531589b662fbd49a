package listen

import (
	"cmp"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/address"
	"github.com/weirlimit/weir/internal/faults"
)

// Limits bounds the connections of a listener.
type Limits struct {
	// Max is how many connections there are at once. Zero means no bound.
	Max int64
	// Client is how many of them one client may hold: an IPv4 address, or an IPv6
	// /64, as identity.AppendClient has it. Zero means a quarter of Max.
	Client int64
	// Unauthenticated is how many connections without SetAuthenticated may push out
	// others: from that many on, when Max is reached, the one of them that is idle for
	// longest is closed for the next. Zero means that it makes no difference.
	Unauthenticated int64
	// Shared reports whether many clients come from an address, which then may hold
	// as many as there are. Nil means that loopback alone does so.
	Shared func(netip.Addr) bool
	// Refuse tells the client of a connection that is not let in so, before it is
	// closed; it must not wait for the client. A connection is then refused too where
	// all places are taken and none is idle; where the first bytes of some may be on
	// their way it waits for a second. Nil means that it is closed without a
	// word, and that it waits where all places are taken.
	Refuse func(net.Conn)
	// Counts counts what was refused and closed. Nil means that nothing does.
	Counts *Counts
	// ProxyAdvice says what to do about connections that begin with a PROXY header, which
	// whoever serves them cannot read: each network that sends them is logged once.
	// Empty means that nobody looks.
	ProxyAdvice string
	// Log is told when a connection is refused, at most once a second. Nil means
	// nobody.
	Log *slog.Logger
}

// Counts counts connections that were not let in, or not kept. Safe for concurrent
// use.
type Counts struct {
	// Refused were closed as they came: their client had its share, none of it idle.
	Refused atomic.Uint64
	// RefusedFull were closed as they came: all places were taken, none of them idle.
	RefusedFull atomic.Uint64
	// ClosedFull were idle for longest when all places were taken, ClosedClient when
	// their client had its share.
	ClosedFull, ClosedClient atomic.Uint64
	// ProxyHeader began with a PROXY header that was not asked for, and end by it.
	ProxyHeader atomic.Uint64
	// ClosedIdle were upgraded, and nothing moved on them for too long.
	ClosedIdle atomic.Uint64
}

// idleAfter is how long nothing moves on an upgraded connection before it counts as
// idle: what it is used for cannot be seen.
const idleAfter = 10 * time.Second

// batch is how many connections one look at all of them finds to close.
const batch = 64

// Limit bounds the connections of ln. When Max is reached, the connection that is
// idle for longest is closed for a new one; where none is idle the new one waits,
// and those behind it wait in the kernel's queue, or it is refused if there is a
// Refuse. A client that holds its share gets
// a new one for its own longest idle one, or is refused. Connections with requests
// under way are never closed.
//
// A connection is idle until TrackState or SetIdle say otherwise, and unauthenticated
// until SetAuthenticated.
func Limit(ln net.Listener, limits Limits) net.Listener {
	if limits.Client == 0 {
		limits.Client = max(limits.Max/4, 1)
	}
	if limits.Shared == nil {
		limits.Shared = netip.Addr.IsLoopback
	}
	if limits.Counts == nil {
		limits.Counts = new(Counts)
	}
	limits.Log = cmp.Or(limits.Log, slog.New(slog.DiscardHandler))
	return &limitListener{
		Listener: ln, limits: limits, faults: faults.New(limits.Log), ended: make(chan struct{}), room: make(chan struct{}, 1),
		all: newGroup(), unauthenticated: newGroup(), clients: make(map[string]*group),
	}
}

// limitListener bounds connections.
type limitListener struct {
	net.Listener
	limits Limits
	faults *faults.Log
	// balancers are those that send PROXY headers unasked.
	balancers faults.Networks
	ended     chan struct{}
	once      sync.Once
	// waits: a connection waits for room, which there may be when room is sent to.
	waits atomic.Bool
	room  chan struct{}

	mu      sync.Mutex
	all     *group            // Requires: mu.
	clients map[string]*group // Requires: mu. But for those that are shared.
	// unauthenticated is empty where it makes no difference. Requires: mu.
	unauthenticated *group
}

// group is a set of connections.
type group struct {
	conns map[*slotConn]struct{}
	// idle are those that were idle for longest when they were last looked at, the
	// longest at the end, each with the time since when.
	idle []idleConn
}

func newGroup() *group { return &group{conns: make(map[*slotConn]struct{})} }

type idleConn struct {
	conn  *slotConn
	since int64
}

// closeIdle closes the connection that is idle for longest, and returns false if none
// is idle. One whose first bytes may be on their way is closed only if all may be, and
// there is no other. Requires: limitListener.mu.
func (g *group) closeIdle(now time.Time, all bool) bool {
	for looks := 0; ; looks++ {
		for len(g.idle) > 0 {
			last := g.idle[len(g.idle)-1]
			g.idle = g.idle[:len(g.idle)-1]
			// If it has been idle all the time, none is idle for longer: those that
			// were not found then have been idle for less, or were busy.
			if _, open := g.conns[last.conn]; open && last.conn.evictIfIdle(last.since) {
				return true
			}
		}
		if looks > 1 || looks > 0 && !all {
			return false
		}
		g.findIdle(now, looks > 0)
	}
}

// hasIdle reports whether a connection is idle, be it that its first bytes are on their way.
// Requires: limitListener.mu.
func (g *group) hasIdle(now time.Time) bool {
	for c := range g.conns {
		if c.idleSince(now) > 0 {
			return true
		}
	}
	return false
}

// findIdle finds the connections that are idle for longest, those whose first bytes may be
// on their way only if all may be closed. Requires: limitListener.mu.
func (g *group) findIdle(now time.Time, all bool) {
	found := make([]idleConn, 0, len(g.conns))
	for c := range g.conns {
		since := c.idleSince(now)
		age := now.UnixNano() - since
		young := c.preface.Load() == unknownPreface && age < int64(firstTime) || since == c.first.Load() && age < int64(beginTime)
		if since > 0 && (all || !young) {
			found = append(found, idleConn{c, since})
		}
	}
	slices.SortFunc(found, func(a, b idleConn) int { return cmp.Compare(b.since, a.since) })
	g.idle = slices.Clone(found[max(0, len(found)-batch):])
}

// Accept implements net.Listener.
func (l *limitListener) Accept() (net.Conn, error) {
	for {
		in, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &slotConn{Conn: in, of: l}
		c.idle.Store(time.Now().UnixNano())
		c.client, c.shared = l.clientOf(in.RemoteAddr())
		switch err := l.admitOrWait(c); {
		case err == nil:
			return c, nil
		case errors.Is(err, net.ErrClosed):
			_ = in.Close() // nothing was said on it
			return nil, err
		case errors.Is(err, errFull):
			l.limits.Counts.RefusedFull.Add(1) // first: the client may look at once
			l.refuseConnection(in)
			l.faults.Report("connection refused: maximum of all clients reached; raise it if there are so many", err)
		default:
			l.limits.Counts.Refused.Add(1)
			l.refuseConnection(in)
			l.faults.Report("connection refused: maximum of one client reached; raise it, or trust the proxy", err)
		}
	}
}

// refuseConnection closes a connection that is not let in.
func (l *limitListener) refuseConnection(in net.Conn) {
	if l.limits.Refuse != nil {
		l.limits.Refuse(in)
	}
	_ = in.Close() // its client may be gone
}

// reportProxy counts a connection that begins with a PROXY header.
func (l *limitListener) reportProxy(remote net.Addr) {
	l.limits.Counts.ProxyHeader.Add(1)
	peer, _ := netip.ParseAddrPort(remote.String()) // zero for a Unix socket
	if log := l.balancers.Log(l.limits.Log, peer.Addr().Unmap()); log != nil {
		log.Warn("connection refused: it begins with a PROXY header of a peer from which none is read", "cure", l.limits.ProxyAdvice)
	}
}

// clientOf returns the client that an address is of, and whether it is many.
func (l *limitListener) clientOf(remote net.Addr) (client string, shared bool) {
	ap, err := netip.ParseAddrPort(remote.String())
	if err != nil {
		return "", true // a Unix socket
	}
	addr := ap.Addr().Unmap().WithZone("")
	return string(identity.AppendClient(nil, addr)), l.limits.Shared(addr)
}

var errFull = errors.New("all connections are taken, and none of them is idle")

type shareError string

// Error implements error.
func (e shareError) Error() string {
	return string(e) + " holds its share of the connections, and none of them is idle"
}

// admitOrWait takes c in, and waits until there is room for it. It returns a shareError
// if its client holds its share, errFull in place of long waits if there is a Refuse,
// and net.ErrClosed when the listener is closed.
func (l *limitListener) admitOrWait(c *slotConn) error {
	// Looked at again from time to time, as upgraded connections become idle without
	// a word, and what has arrived on idle ones is read.
	const again = 50 * time.Millisecond
	for began := time.Now(); ; {
		l.waits.Store(true)
		now := time.Now()
		took, err := l.tryAdmit(c, now, now.Sub(began) >= firstTime)
		if took || err != nil {
			l.waits.Store(false)
			return err
		}
		timer := time.NewTimer(again)
		select {
		case <-l.room:
		case <-timer.C:
		case <-l.ended:
			return net.ErrClosed
		}
		timer.Stop()
	}
}

// tryAdmit takes c in if there is room, or if it can be made; late says that c has waited for
// that. It returns errFull where c is not to wait.
func (l *limitListener) tryAdmit(c *slotConn, now time.Time, late bool) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.clients[c.client]
	bounded := l.limits.Max > 0 && !c.shared
	if bounded && own != nil && int64(len(own.conns)) >= l.limits.Client {
		if !own.closeIdle(now, true) {
			return false, shareError(c.client)
		}
		l.limits.Counts.ClosedClient.Add(1)
	}
	if l.limits.Max > 0 && int64(len(l.all.conns)) >= l.limits.Max {
		if from := l.groupToEvict(); !from.closeIdle(now, late && l.limits.Refuse != nil) {
			if l.limits.Refuse != nil && (late || !from.hasIdle(now)) {
				return false, errFull
			}
			return false, nil
		}
		l.limits.Counts.ClosedFull.Add(1)
	}
	l.all.conns[c] = struct{}{}
	if l.limits.Unauthenticated > 0 {
		l.unauthenticated.conns[c] = struct{}{}
	}
	if bounded {
		if own = l.clients[c.client]; own == nil {
			own = newGroup()
			l.clients[c.client] = own
		}
		own.conns[c] = struct{}{}
	}
	return true, nil
}

// groupToEvict returns those of whom one makes room: the unauthenticated ones if there are as many
// as may push out others. Requires: mu.
func (l *limitListener) groupToEvict() *group {
	if most := l.limits.Unauthenticated; most > 0 && int64(len(l.unauthenticated.conns)) >= most {
		return l.unauthenticated
	}
	return l.all
}

// removeConnection takes c out. Requires: mu.
func (l *limitListener) removeConnection(c *slotConn) {
	delete(l.all.conns, c)
	delete(l.unauthenticated.conns, c)
	if own := l.clients[c.client]; own != nil {
		delete(own.conns, c)
		if len(own.conns) == 0 {
			delete(l.clients, c.client)
		}
	}
}

// wakeWaiting lets a connection that waits look for room.
func (l *limitListener) wakeWaiting() {
	if !l.waits.Load() {
		return
	}
	select {
	case l.room <- struct{}{}:
	default:
	}
}

// Close implements net.Listener.
func (l *limitListener) Close() error {
	err := l.Listener.Close() // first, because it may let the last ones in
	l.once.Do(func() { close(l.ended) })
	return err
}

// slotConn has a place among the connections of a limitListener.
type slotConn struct {
	net.Conn
	of     *limitListener
	client string
	shared bool
	// idle is since when nothing is under way, in nanoseconds since the Unix epoch;
	// zero while something is, and -1 when it is closed for another.
	idle atomic.Int64
	// first is when the first bytes were read.
	first atomic.Int64
	// moved is when a byte last moved on an upgraded connection, zero on others.
	moved atomic.Int64
	// unflushed: the end of an answer over HTTP/2 may still be to be written.
	unflushed atomic.Bool
	// preface says whether the first bytes were those of HTTP/2 in clear.
	preface atomic.Int32
	// begin[:begun] are the first bytes, which may come one by one, until they tell.
	begin [proxyBytes]byte
	begun int
	// onEvict is called before it is closed for another, if it is not nil.
	onEvict atomic.Pointer[func()]
}

// Values of slotConn.preface.
const (
	unknownPreface = iota
	somePreface    // what has come may begin several
	isPreface
	noPreface
)

// flushTime is how long after the end of an answer over HTTP/2 its last bytes are
// written at the latest. They are written after net/http says that the connection is
// idle, if they were not before.
const flushTime = time.Second

// firstTime is how long the first bytes of a client may be on their way: until then the
// connections of a flood give way before its own.
const firstTime = time.Second

// beginTime is how long those bytes may then take to be known as a request.
const beginTime = 100 * time.Millisecond

// idleSince returns since when c is idle, zero if it is not.
func (c *slotConn) idleSince(now time.Time) int64 {
	if moved := c.moved.Load(); moved != 0 {
		if now.UnixNano()-moved < int64(idleAfter) {
			return 0
		}
		return moved
	}
	since := max(c.idle.Load(), 0)
	if c.unflushed.Load() && now.UnixNano()-since < int64(flushTime) {
		return 0
	}
	return since
}

// hasUnread reports whether something has arrived that nobody has read yet, such as
// a request.
func (c *slotConn) hasUnread() bool {
	in, ok := c.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	socket, err := in.SyscallConn()
	return err == nil && waiting(socket)
}

// evictIfIdle closes c if it is idle since then. Requires: of.mu.
func (c *slotConn) evictIfIdle(since int64) bool {
	idle := &c.idle
	if c.moved.Load() != 0 {
		idle = &c.moved
	}
	if c.hasUnread() || !idle.CompareAndSwap(since, -1) {
		return false
	}
	c.of.removeConnection(c)
	if f := c.onEvict.Load(); f != nil {
		go func() { (*f)(); _ = c.Conn.Close() }() // no other connection waits for it
		return true
	}
	_ = c.Conn.Close() // whoever serves it hears of it
	return true
}

// setIdle sets since when c is idle, zero for not at all. It returns false if c was
// closed for another, which it stays.
func (c *slotConn) setIdle(since int64) bool {
	for {
		old := c.idle.Load()
		if old < 0 {
			return false
		}
		if c.idle.CompareAndSwap(old, since) {
			return true
		}
	}
}

// Read implements net.Conn. The first bytes are read together, in whatever segments they
// come, until they tell what the client speaks: some servers answer before that.
func (c *slotConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n == 0 {
		return n, err
	}
	c.noteMovement()
	for from := 0; c.preface.Load() <= somePreface; {
		if c.readBegin(b[from:n]); c.preface.Load() != somePreface || n == len(b) || err != nil {
			break
		}
		from = n
		var more int
		more, err = c.Conn.Read(b[n:])
		n += more
	}
	return n, err
}

// readBegin finds out by the first bytes what the client speaks.
func (c *slotConn) readBegin(b []byte) {
	if since, now := c.idle.Load(), time.Now().UnixNano(); c.begun == 0 && since > 0 && c.idle.CompareAndSwap(since, now) {
		c.first.Store(now)
	}
	c.begun += copy(c.begin[c.begun:], b)
	is, begin := int32(noPreface), string(c.begin[:c.begun])
	proxy := strings.HasPrefix(address.ProxyV1, begin) || strings.HasPrefix(address.ProxyV2, begin)
	switch {
	case strings.HasPrefix(begin, http2Preface):
		is = isPreface
	case proxy && c.begun == len(c.begin):
		if c.of.limits.ProxyAdvice != "" {
			c.of.reportProxy(c.RemoteAddr())
		}
	case proxy, strings.HasPrefix(http2Preface, begin):
		is = somePreface
	}
	c.preface.Store(is)
}

// http2Preface begins HTTP/2 in clear, as no other protocol begins, and so do so many bytes of
// address.ProxyV1 and ProxyV2 theirs: a server of TLS reads no more.
const (
	http2Preface = "PRI"
	proxyBytes   = 5
)

// Write implements net.Conn.
func (c *slotConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if n > 0 {
		c.noteMovement()
	}
	if c.unflushed.Load() {
		c.unflushed.Store(false)
		c.of.wakeWaiting()
	}
	return n, err
}

// noteMovement notes that a byte has moved.
func (c *slotConn) noteMovement() {
	if c.moved.Load() > 0 {
		c.moved.Store(time.Now().UnixNano())
	}
}

// Close implements net.Conn.
func (c *slotConn) Close() error {
	err := c.Conn.Close()
	c.of.mu.Lock()
	c.of.removeConnection(c)
	c.of.mu.Unlock()
	c.of.wakeWaiting()
	return err
}

// NetConn returns the connection below.
func (c *slotConn) NetConn() net.Conn { return c.Conn }

// CloseWrite ends what is written, and lets the peer finish: net/http does so
// before it closes, and so do upgraded connections.
func (c *slotConn) CloseWrite() error { return closeWrite(c, c.Conn) }

// eachSlot calls f for each limit that c counts for. c may be wrapped: by what has a
// method NetConn, as tls.Conn has.
func eachSlot(c net.Conn, f func(*slotConn)) {
	for c != nil {
		if s, ok := c.(*slotConn); ok {
			f(s)
		}
		w, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return
		}
		c = w.NetConn()
	}
}

// SetIdle says whether nothing is under way on a connection of a listener of
// Limit. It returns false if the connection was closed for another while it was
// idle: what has been read of it is then not to be carried out.
func SetIdle(c net.Conn, idle bool) (open bool) {
	open = true
	eachSlot(c, func(s *slotConn) {
		if !idle {
			open = s.setIdle(0) && open
			return
		}
		open = s.setIdle(time.Now().UnixNano()) && open
		s.of.wakeWaiting()
	})
	return open
}

// SetAuthenticated says that the client of a connection of a listener of Limit has
// proved who it is.
func SetAuthenticated(c net.Conn) {
	eachSlot(c, func(s *slotConn) {
		s.of.mu.Lock()
		defer s.of.mu.Unlock()
		delete(s.of.unauthenticated.conns, s)
	})
}

// OnEvict has f called before a connection of a listener of Limit is closed for
// another, so that f can inform the client. f runs in a goroutine of its own, and the
// connection is closed when f returns; f must not wait for the client for long.
func OnEvict(c net.Conn, f func()) {
	eachSlot(c, func(s *slotConn) { s.onEvict.Store(&f) })
}

// upgrade makes c one that is idle when nothing moves on it.
func (c *slotConn) upgrade(most time.Duration) {
	c.moved.Store(time.Now().UnixNano())
	if most > 0 {
		time.AfterFunc(most, func() { c.endIdle(most) })
	}
}

// endIdle closes c if nothing has moved on it for that long, and otherwise looks
// again.
func (c *slotConn) endIdle(most time.Duration) {
	c.of.mu.Lock()
	_, open := c.of.all.conns[c]
	c.of.mu.Unlock()
	moved := c.moved.Load()
	if !open || moved < 0 {
		return
	}
	if left := most - time.Duration(time.Now().UnixNano()-moved); left > 0 {
		time.AfterFunc(left, func() { c.endIdle(most) })
		return
	}
	if c.moved.CompareAndSwap(moved, -1) {
		c.of.limits.Counts.ClosedIdle.Add(1)
		_ = c.Close() // whoever uses it hears of it
	}
}
