package listen

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/address"
)

// limited is a listener of Limit under test, whose connections are accepted one by
// one. Every address of loopback is a client.
type limited struct {
	net.Listener
	silent   bool // clients have not sent anything yet, else each has
	counts   Counts
	accepted chan net.Conn
}

func limit(t *testing.T, limits Limits) *limited {
	t.Helper()
	return limitWhere(t, limits, false)
}

// limitWhere is limit, where clients are silent or not.
func limitWhere(t *testing.T, limits Limits, silent bool) *limited {
	t.Helper()
	// At an address of its own: others on this machine look for their servers at ports
	// of 127.0.0.1 that were free a moment ago.
	ln, err := net.Listen("tcp", "127.0.0.200:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &limited{silent: silent, accepted: make(chan net.Conn)}
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
			if !l.silent {
				eachSlot(c, func(s *slotConn) { s.preface.Store(noPreface) })
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
				eachSlot(first, func(c *slotConn) { c.moved.Store(time.Now().Add(-idleAfter).UnixNano()) })
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

// TestFirstBytesAreWaitedFor: however many connections are opened that begin a request
// and do not end it, they push out each other, and not a client whose first bytes are
// on their way. Where all are silent the next one waits, for a second in all, also where
// it would be refused if all were busy.
func TestFirstBytesAreWaitedFor(t *testing.T) {
	const most = 8
	l := limitWhere(t, Limits{Max: most, Client: most}, true)
	begin := func(client int) (near net.Conn) {
		near = l.dial(t, client)
		far := <-l.accepted
		if _, err := near.Write([]byte("GET / HT")); err != nil {
			t.Fatal(err)
		}
		if _, err := far.Read(make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
		return near
	}
	for i := range most - 1 {
		begin(10 + i)
	}
	start := time.Now()
	operator := l.dial(t, 1)
	far := <-l.accepted
	for i := range 2 * most {
		begin(20 + i)
	}
	if _, err := operator.Write([]byte("GET / HTTP/1.1\r\n")); err != nil {
		t.Fatal(err)
	}
	if n, err := far.Read(make([]byte, 3)); n != 3 && time.Since(start) < time.Second {
		t.Fatalf("a client was closed before its first bytes came: %v", err)
	}
	if got := l.counts.ClosedFull.Load(); got < 2*most {
		t.Errorf("%d connections were closed for others, want %d", got, 2*most)
	}

	for _, refuses := range []bool{false, true} {
		limits := Limits{Max: 2, Client: 2}
		if refuses {
			limits.Refuse = func(net.Conn) { t.Error("refused") }
		}
		l := limitWhere(t, limits, true)
		start := time.Now()
		for client := range 2 {
			l.dial(t, 1+client)
			<-l.accepted
		}
		l.dial(t, 3)
		<-l.accepted
		if waited := time.Since(start); waited < 990*time.Millisecond {
			t.Errorf("refuses %v: a silent client was closed after %v", refuses, waited)
		}
	}
}

// TestFamilyFirstBytesInSegments: what a client speaks is known by its first bytes in whatever
// segments they come, and however few the server asks for; what they are reaches it whole.
func TestFamilyFirstBytesInSegments(t *testing.T) {
	v2 := address.ProxyV2 + "\x21\x11\x00\x0c\xcb\x00\x71\x01\x0a\x00\x00\x01\x00\x01\x00\x02"
	for text, want := range map[string]struct {
		proxies uint64
		preface int32
	}{
		"PROXY TCP4 203.0.113.1 10.0.0.1 1 2\r\n": {1, noPreface}, v2: {1, noPreface},
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": {0, isPreface}, "POST / HTTP/1.1\r\n\r\n": {0, noPreface}, "PROPFIND / HTTP/1.1\r\n\r\n": {0, noPreface},
		"PROVE / HTTP/1.1\r\n\r\n": {0, noPreface}, "\r\n\r\nGET / HTTP/1.1\r\n\r\n": {0, noPreface}, "\x16\x03\x01\x02\x00\x01": {0, noPreface},
	} {
		for first := range 13 {
			for _, size := range []int{1, 2, 5, 4096} {
				l := limitWhere(t, Limits{Max: 1, Client: 1, ProxyAdvice: "list it", Log: slog.New(slog.DiscardHandler)}, true)
				near := l.dial(t, 1)
				far := <-l.accepted
				parts := []string{text[:first%len(text)], text[first%len(text) : min(first%len(text)+1, len(text))], text[min(first%len(text)+1, len(text)):]}
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					for _, part := range parts {
						if _, err := near.Write([]byte(part)); err != nil {
							t.Error(err)
						}
						runtime.Gosched() // or they come as one segment
					}
				}()
				got, b := "", make([]byte, size)
				for len(got) < len(text) {
					n, err := far.Read(b)
					if err != nil {
						t.Fatal(err)
					}
					got += string(b[:n])
				}
				<-sent
				preface := int32(unknownPreface)
				eachSlot(far, func(s *slotConn) { preface = s.preface.Load() })
				if proxies := l.counts.ProxyHeader.Load(); got != text || proxies != want.proxies || preface != want.preface {
					t.Errorf("%q behind %d bytes, read by %d: got %q, %d PROXY headers, preface %d", text, first, size, got, proxies, preface)
				}
				near.Close()
				far.Close()
			}
		}
	}
}

// TestFirstBytesOfFewAreReadTogether: a server that answers or gives up after a segment gets
// none that does not tell, as a server of TLS does after five bytes.
func TestFirstBytesOfFewAreReadTogether(t *testing.T) {
	for text, first := range map[string]int{"PROXY TCP4 x": 3, address.ProxyV2 + "\x21": 4, "PRI * HTTP/2.0": 1, "PUT / HTTP/1.1": 1} {
		l := limitWhere(t, Limits{Max: 1, Client: 1, ProxyAdvice: "list it", Log: slog.New(slog.DiscardHandler)}, true)
		near := l.dial(t, 1)
		far := <-l.accepted
		if _, err := near.Write([]byte(text[:first])); err != nil {
			t.Fatal(err)
		}
		read := make(chan string)
		go func() {
			b := make([]byte, 4096)
			n, _ := far.Read(b)
			read <- string(b[:n])
		}()
		eachSlot(far, func(s *slotConn) {
			for s.preface.Load() != somePreface {
				runtime.Gosched()
			}
		})
		if _, err := near.Write([]byte(text[first:])); err != nil {
			t.Fatal(err)
		}
		if got := <-read; got != text {
			t.Errorf("%q is read as %q first", text, got)
		}
		near.Close()
		far.Close()
	}
}
