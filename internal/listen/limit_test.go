package listen

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"
)

// limited is a listener of Limit under test, whose connections are accepted one by
// one. Every address of loopback is a client.
type limited struct {
	net.Listener
	counts   Counts
	accepted chan net.Conn
}

func limit(t *testing.T, limits Limits) *limited {
	t.Helper()
	// At an address of its own: others on this machine look for their servers at ports
	// of 127.0.0.1 that were free a moment ago.
	ln, err := net.Listen("tcp", "127.0.0.200:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &limited{accepted: make(chan net.Conn)}
	limits.Counts = &l.counts
	if limits.Shared == nil {
		limits.Shared = func(netip.Addr) bool { return false }
	}
	l.Listener = Limit(ln, limits)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
				return
			}
			select {
			case l.accepted <- c:
			case <-time.After(time.Minute):
				c.Close()
			}
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l
}

// dial opens a connection from 127.0.0.n.
func (l *limited) dial(t *testing.T, client int) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(client))}, Timeout: time.Minute}
	c, err := d.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ended reports whether the server has closed a connection, which takes a moment.
func ended(t *testing.T, c net.Conn, wait time.Duration) bool {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(wait)); err != nil {
		t.Fatal(err)
	}
	_, err := c.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// modelConn is what the test knows of a connection.
type modelConn struct {
	client int
	near   net.Conn // the client's end
	far    net.Conn // the server's
	since  int      // the step since which it is idle, zero when it is busy
}

// TestFamilyLongestIdleGoesFirst: whatever connections come, go, begin and end
// requests, the one that makes room is the one that is idle for longest: of the
// client if it has its share, and else of all.
func TestFamilyLongestIdleGoesFirst(t *testing.T) {
	cases := uint64(20)
	if os.Getenv("WEIR_SOAK") == "1" {
		cases = 1000
	}
	for seed := range cases {
		// A test of its own, whose connections end with it.
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { playConnections(t, seed) })
	}
}

// playConnections is one case of TestFamilyLongestIdleGoesFirst.
func playConnections(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	most, share := 2+r.IntN(10), 1+r.IntN(4)
	l := limit(t, Limits{Max: int64(most), Client: int64(share)})
	var open []*modelConn
	longest := func(client int) (at, many int) {
		at = -1
		for i, c := range open {
			if client != 0 && c.client != client {
				continue
			}
			many++
			if c.since > 0 && (at < 0 || c.since < open[at].since) {
				at = i
			}
		}
		return at, many
	}
	what := fmt.Sprintf("seed %d, %d connections, %d of a client", seed, most, share)
	for step := 1; step <= 150; step++ {
		if len(open) > 0 && r.IntN(2) == 0 {
			i := r.IntN(len(open))
			switch c := open[i]; r.IntN(8) {
			case 0:
				c.far.Close()
				open = append(open[:i:i], open[i+1:]...)
			case 1, 2:
				SetIdle(c.far, true)
				c.since = step
			default:
				SetIdle(c.far, false)
				c.since = 0
			}
			continue
		}
		client := 1 + r.IntN(4)
		own, has := longest(client)
		any, _ := longest(0)
		var goes *modelConn
		switch {
		case has >= share && own < 0:
			if near := l.dial(t, client); !ended(t, near, time.Minute) {
				t.Fatalf("%s, step %d: a client with its share, none idle, was let in", what, step)
			}
			continue
		case has >= share:
			goes = open[own]
			open = append(open[:own:own], open[own+1:]...)
		case len(open) >= most && any < 0:
			continue // it would wait
		case len(open) >= most:
			goes = open[any]
			open = append(open[:any:any], open[any+1:]...)
		}
		near := l.dial(t, client)
		var far net.Conn
		select {
		case far = <-l.accepted:
		case <-time.After(time.Minute):
			t.Fatalf("%s, step %d: nobody was let in", what, step)
		}
		if goes != nil && !ended(t, goes.near, time.Minute) {
			t.Fatalf("%s, step %d: the connection of client %d that is idle for longest, since step %d, was not closed", what, step, goes.client, goes.since)
		}
		open = append(open, &modelConn{client, near, far, step})
	}
	for _, c := range open {
		if ended(t, c.near, time.Millisecond) {
			t.Errorf("%s: a connection was closed that was not to be", what)
		}
		c.far.Close()
	}
	l.Close()
}

// TestFamilyUnauthenticatedMakeRoom: connections that have not authenticated push out
// those that have only up to their bound, however many come, and the longest idle one
// of them goes first.
func TestFamilyUnauthenticatedMakeRoom(t *testing.T) {
	for bound := int64(1); bound <= 4; bound++ {
		const most = 8
		l := limit(t, Limits{Max: most, Client: most, Unauthenticated: bound})
		var known []net.Conn
		for range most {
			near := l.dial(t, 1)
			SetAuthenticated(<-l.accepted)
			known = append(known, near)
		}
		var strangers []net.Conn
		for i := range 20 {
			near := l.dial(t, 2+i)
			<-l.accepted
			strangers = append(strangers, near)
			goes := known[min(int64(i), most-1)]
			if int64(i) >= bound {
				goes = strangers[int64(i)-bound]
			}
			if !ended(t, goes, time.Minute) {
				t.Fatalf("bound %d: for connection %d, the longest idle one was not closed", bound, i)
			}
		}
		for i, near := range known[bound:] {
			if ended(t, near, time.Millisecond) {
				t.Errorf("bound %d: authenticated connection %d was closed", bound, i)
			}
		}
	}
}

// TestRefusedAreCountedFirst: a client that is told that it is not let in is among the
// counts by then.
func TestRefusedAreCountedFirst(t *testing.T) {
	seen := make(chan uint64)
	var counts *Counts
	l := limit(t, Limits{Max: 2, Client: 1, Refuse: func(net.Conn) { seen <- counts.Refused.Load()<<32 + counts.RefusedFull.Load() }})
	counts = &l.counts
	take := func(client int) {
		l.dial(t, client)
		SetIdle(<-l.accepted, false)
	}
	take(1)
	l.dial(t, 1)
	if got := <-seen; got != 1<<32 {
		t.Errorf("of its share: counted %x", got)
	}
	take(2)
	l.dial(t, 3)
	if got := <-seen; got != 1<<32+1 {
		t.Errorf("of all places: counted %x", got)
	}
}

// TestEvictedStaysSo: a connection that is closed for another is told of it first, and
// nothing is carried out on it meanwhile.
func TestEvictedStaysSo(t *testing.T) {
	l := limit(t, Limits{Max: 1, Client: 1})
	first := l.dial(t, 1)
	server := <-l.accepted
	let := make(chan struct{})
	OnEvict(server, func() {
		<-let
		if _, err := server.Write([]byte("bye")); err != nil {
			t.Error(err)
		}
	})
	l.dial(t, 2)
	<-l.accepted // nobody waits for the words
	for range 2 {
		if SetIdle(server, true) || SetIdle(server, false) {
			t.Error("a request is carried out on a connection that is closed for another")
		}
	}
	close(let)
	b := make([]byte, 3)
	if err := first.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(first, b); err != nil || string(b) != "bye" {
		t.Errorf("the client was told %q, %v", b, err)
	}
	if !ended(t, first, time.Minute) {
		t.Error("it is not closed")
	}
}

// TestWaitsForRoom: where nothing is idle a connection waits, until a request ends, a
// connection ends, or the listener does.
func TestWaitsForRoom(t *testing.T) {
	for _, way := range []string{"idle", "closed", "upgraded", "listener"} {
		t.Run(way, func(t *testing.T) {
			l := limit(t, Limits{Max: 1, Client: 1})
			l.dial(t, 1)
			first := <-l.accepted
			SetIdle(first, false)
			second := l.dial(t, 2)
			select {
			case <-l.accepted:
				t.Fatal("two were let in")
			case <-time.After(20 * time.Millisecond):
			}
			switch way {
			case "idle":
				SetIdle(first, true)
			case "closed":
				first.Close()
			case "upgraded":
				slots(first, func(c *slotConn) { c.moved.Store(time.Now().Add(-idleAfter).UnixNano()) })
			case "listener":
				l.Close()
				if !ended(t, second, time.Minute) {
					t.Error("the one that waited is still open")
				}
				return
			}
			select {
			case <-l.accepted:
			case <-time.After(time.Minute):
				t.Fatal("nobody was let in")
			}
		})
	}
}

// TestUnreadRequestsAreKept: a connection on which a request has arrived, which nobody
// has read yet, is not closed, although it is idle for longest.
func TestUnreadRequestsAreKept(t *testing.T) {
	l := limit(t, Limits{Max: 2, Client: 2})
	first := l.dial(t, 1)
	server := <-l.accepted
	second := l.dial(t, 2)
	<-l.accepted
	if _, err := first.Write([]byte("GET")); err != nil {
		t.Fatal(err)
	}
	for by := time.Now().Add(time.Minute); !server.(*slotConn).hasUnread(); {
		if time.Now().After(by) {
			t.Fatal("what was sent does not arrive")
		}
	}
	l.dial(t, 3)
	<-l.accepted
	if !ended(t, second, time.Minute) {
		t.Error("the idle connection was not closed")
	}
	if n, err := server.Read(make([]byte, 8)); n != 3 {
		t.Errorf("the request was read as %d bytes, %v", n, err)
	}
}

// TestClients: who is one client, and who is many.
func TestClients(t *testing.T) {
	l := Limit(nil, Limits{Max: 8, Shared: func(a netip.Addr) bool { return a == netip.MustParseAddr("192.0.2.9") }}).(*limitListener)
	if l.limits.Client != 2 {
		t.Errorf("a client may hold %d of 8", l.limits.Client)
	}
	f := func(addr net.Addr, client string, shared bool) {
		t.Helper()
		got, many := l.clientOf(addr)
		if many != shared || !shared && got != client {
			t.Errorf("%s is %s, %t", addr, got, many)
		}
	}
	tcp := func(s string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)) }
	f(tcp("192.0.2.1:80"), "192.0.2.1", false)
	f(tcp("[::ffff:192.0.2.1]:80"), "192.0.2.1", false)
	// One IPv4 address has a /48 of 6to4; a translator's clients have one each.
	f(tcp("[2002:c000:201:1::1]:80"), "2002:c000:201::/48", false)
	f(tcp("[2002:c000:201:2::1]:80"), "2002:c000:201::/48", false)
	f(tcp("[64:ff9b::192.0.2.1]:80"), "192.0.2.1", false)
	f(tcp("[64:ff9b::192.0.2.2]:80"), "192.0.2.2", false)
	f(tcp("[2001:db8:1:2:3:4:5:6]:80"), "2001:db8:1:2::/64", false)
	f(tcp("[fe80::1%eth0]:80"), "fe80::/64", false)
	f(tcp("192.0.2.9:80"), "", true)
	f(&net.UnixAddr{Name: "@"}, "", true)
	local := Limit(nil, Limits{}).(*limitListener)
	if _, many := local.clientOf(tcp("127.0.0.2:80")); !many {
		t.Error("loopback is one client")
	}
}
