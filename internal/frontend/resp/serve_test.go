package resp

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/listen"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// TestPipeline: replies come in the order of the commands, whatever they are and
// however they are cut.
func TestPipeline(t *testing.T) {
	for _, parallel := range []int{0, 8} {
		b := newBench(t, Options{Parallel: parallel})
		c := connect(t, b.listen(t))
		var all []byte
		var want []string
		for i := range 1000 {
			key := fmt.Sprint(i % 7)
			switch i % 5 {
			case 0:
				all, want = append(all, wire("ECHO", key)...), append(want, "$1|"+key)
			case 1:
				all, want = append(all, wire("CL.THROTTLE", "n"+fmt.Sprint(i), "15", "30", "60")...), append(want, "*5|:0|:16|:15|:-1|:2")
			case 2:
				all, want = append(all, "CL.THROTTLE same 999 1000 1000\r\n"...), append(want, fmt.Sprintf("*5|:0|:1000|:%d|:-1|:%d", 999-i/5, 1+i/5))
			case 3:
				all, want = append(all, wire("nosuch")...), append(want, "-ERR unknown command 'nosuch', with args beginning with: ")
			case 4:
				all, want = append(all, wire("WEIR.PEEK", "nosuch", "k", key)...), append(want, "*18|$7|allowed|:1|$5|limit|$-1|$9|remaining|$-1|$14|retry_after_ms|:0|$14|reset_after_ms|:0|$8|delay_ms|:0|$5|exact|:0|$8|degraded|:0|$7|at_most|$-1")
			}
		}
		var sent sync.WaitGroup
		sent.Go(func() {
			for piece := range bytes.SplitSeq(all, []byte("7")) {
				// What was cut off goes with the next.
				if _, err := c.nc.Write(piece); err != nil {
					t.Error(err)
				}
				if _, err := c.nc.Write([]byte("7")); err != nil {
					t.Error(err)
				}
			}
		})
		for i := range want {
			if got := c.reply(); got != want[i] {
				t.Fatalf("reply %d: %s, want %s", i, got, want[i])
			}
		}
		sent.Wait()
	}
}

// TestLanes: however many pipelines are under way, no more than so many decisions
// are asked of the store beside each other, and those left over are decided too.
func TestLanes(t *testing.T) {
	b := newBench(t, Options{Parallel: MaxParallel})
	b.workers.Store(maxWorkers - MaxParallel)
	asks := make([]ask, maxPending)
	by, err := b.limits.limitFor(numbers{burst: maxPending, count: 1, period: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, taken := range []int64{0, 1} {
		b.workers.Add(taken)
		for i := range asks {
			asks[i] = ask{key: fmt.Sprint(taken, i), by: by, cost: 1}
		}
		b.decideAll(asks)
		for i := range asks {
			if a := &asks[i]; a.err != nil || a.decision.Limit == nil || a.decision.Remaining != maxPending {
				t.Fatalf("%+v", a)
			}
		}
	}
	if n := b.workers.Load(); n != maxWorkers-MaxParallel+1 {
		t.Errorf("%d lanes are left", n)
	}
}

// TestLargeReplies: replies larger than any buffer come whole and in order.
func TestLargeReplies(t *testing.T) {
	b := newBench(t, Options{})
	c := connect(t, b.listen(t))
	big := strings.Repeat("x", maxBulk)
	var sent sync.WaitGroup
	sent.Go(func() {
		for range 20 {
			c.send(append(append(wire("ECHO", big), wire("COMMAND")...), wire("CL.THROTTLE", "k", "0", "1", "1", "0")...))
		}
	})
	for range 20 {
		if got := c.reply(); got != "$65536|"+big {
			t.Fatalf("%d bytes", len(got))
		}
		if got := c.reply(); !strings.HasPrefix(got, fmt.Sprintf("*%d|", len(b.commands.sorted))) {
			t.Fatalf("%.40s", got)
		}
		if got := c.reply(); got != "*5|:0|:1|:1|:-1|:0" {
			t.Fatal(got)
		}
	}
	sent.Wait()
}

func TestEncrypted(t *testing.T) {
	cert, _, pair := servertest.Certificate(t, t.TempDir(), "localhost")
	_ = cert
	b := newBench(t, Options{TLS: &tls.Config{Certificates: []tls.Certificate{pair}}, Timeout: 2 * time.Second})
	addr := b.listen(t)
	pool := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(leaf)
	nc, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	c := newClient(t, nc)
	if got := c.do("CL.THROTTLE", "k", "15", "30", "60"); got != "*5|:0|:16|:15|:-1|:2" {
		t.Error(got)
	}
	// Whoever does not shake hands is not waited for.
	plain := connect(t, addr)
	plain.ended()
	plain = connect(t, addr)
	plain.send(wire("PING"))
	plain.ended()
}

// gate holds connections in their commands, after the replies, while it is shut.
type gate struct{ sync.RWMutex }

func (g *gate) pass(int, time.Duration) {
	g.RLock()
	defer g.RUnlock()
}

// TestMaxClients: where all places are taken by commands under way, a further client
// is told so; else the connection that is idle for longest is closed for it.
func TestMaxClients(t *testing.T) {
	var g gate
	var counts listen.Counts
	b := newBench(t, Options{MaxClients: 3, Batch: g.pass, Connections: &counts})
	addr := b.listen(t)
	g.Lock()
	open := sync.OnceFunc(g.Unlock)
	defer open()
	var in []*client
	for range 3 {
		c := connect(t, addr)
		c.do("PING")
		in = append(in, c)
	}
	if got := connect(t, addr).ended(); got != "-ERR max number of clients reached" {
		t.Error(got)
	}
	if s := b.Stats(); s.Clients != 3 || s.Accepted != 3 || s.Refused != 1 {
		t.Errorf("%+v", s)
	}
	open()
	for _, c := range in {
		if got := c.do("PING"); got != "+PONG" {
			t.Error(got)
		}
	}
	// A connection is idle a moment after its reply.
	servertest.Await(t, "room", func() bool { return tryPing(t, addr) })
	if n := counts.ClosedFull.Load(); n != 1 {
		t.Errorf("%d idle connections were closed for one, want 1", n)
	}
}

// tryPing reports whether a new connection is let in.
func tryPing(t *testing.T, addr string) bool {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_, _ = nc.Write(wire("PING")) // it fails where the connection is refused at once
	return newClient(t, nc).reply() == "+PONG"
}

// connectAs connects as a client: from 127.0.0.n.
func connectAs(t *testing.T, addr string, n int) *client {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(n))}, Timeout: time.Minute}
	nc, err := d.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return newClient(t, nc)
}

// TestFamilyStrangersKeepTheirPlaces: clients without the password, from however many
// addresses and whatever they say, push out few of those who have given it, and those
// keep their connections although they are idle for longer.
func TestFamilyStrangersKeepTheirPlaces(t *testing.T) {
	const places, known = 16, 12
	for name, said := range map[string]string{
		"says nothing":     "",
		"half a command":   "*2\r\n$4\r\nAUTH\r\n$10\r\nab",
		"commands":         "PING\r\nPING\r\n",
		"a wrong password": "AUTH wrong\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			var counts listen.Counts
			b := newBench(t, Options{
				MaxClients: places, Timeout: time.Minute, Connections: &counts, Password: "secret",
				Shared: func(netip.Addr) bool { return false },
			})
			addr := b.listen(t)
			var in []*client
			for i := range known {
				c := connectAs(t, addr, 100+i)
				if got := c.do("AUTH", "secret"); got != "+OK" {
					t.Fatalf("answered %s", got)
				}
				in = append(in, c)
			}
			for i := range 5 * places {
				c := connectAs(t, addr, 2+i)
				_, _ = c.nc.Write([]byte(said)) // it fails where the connection is closed at once
				if strings.HasSuffix(said, "\r\n") {
					c.reply()
				}
			}
			servertest.Await(t, "strangers to make room", func() bool {
				return counts.ClosedFull.Load()+counts.RefusedFull.Load()+counts.Refused.Load() >= 4*places
			})
			askAll := func() {
				t.Helper()
				for i, c := range in {
					if got := c.do("PING"); got != "+PONG" {
						t.Errorf("authenticated client %d was answered %s", i, got)
					}
				}
			}
			askAll()
			// A stranger whose bytes nobody has read yet is not idle: until they are, one
			// more is refused, and nothing else happens to him.
			refused := func() uint64 { return counts.RefusedFull.Load() + counts.Refused.Load() }
			servertest.Await(t, "room for one more", func() bool {
				before := refused()
				last := connectAs(t, addr, 99)
				_, _ = last.nc.Write(wire("AUTH", "secret")) // it fails where the connection is refused at once
				raw, err := readReply(last.r)
				if err == nil && bars(raw) == "+OK" {
					return true
				}
				if refused() == before {
					t.Fatalf("one more, who is not refused, is answered %q: %v", raw, err)
				}
				return false
			})
			askAll()
		})
	}
}

// TestFamilyNobodyTakesAllRedisConnections: a client that opens more connections than
// there are places, in whatever way it holds them, keeps nobody else out and ends
// nobody else's connections. An address that many share has no share.
func TestFamilyNobodyTakesAllRedisConnections(t *testing.T) {
	const places = 16
	for name, said := range map[string]string{
		"says nothing":          "",
		"half a command":        "*2\r\n$4\r\nECHO\r\n$10\r\nab",
		"half a line":           "PI",
		"idle after a command":  "PING\r\n",
		"a transaction":         "MULTI\r\nPING\r\n",
		"commands and a half":   "PING\r\nPING\r\nPI",
		"a command under way":   "PING\r\n",
		"shared, says nothing":  "",
		"shared, after command": "PING\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			shared := strings.HasPrefix(name, "shared")
			busy := name == "a command under way"
			var g gate
			var counts listen.Counts
			opt := Options{
				MaxClients: places, Timeout: time.Minute, Connections: &counts,
				Shared: func(netip.Addr) bool { return shared },
			}
			if busy {
				opt.Batch = func(n int, took time.Duration) {
					if n == 1 { // the others' commands come in twos
						g.pass(n, took)
					}
				}
			}
			b := newBench(t, opt)
			addr := b.listen(t)
			other := connectAs(t, addr, 2)
			askTwice := func(c *client) {
				t.Helper()
				c.send([]byte("PING\r\nPING\r\n"))
				if one, two := c.reply(), c.reply(); one != "+PONG" || two != "+PONG" {
					t.Errorf("another client was answered %s %s", one, two)
				}
			}
			askTwice(other)
			g.Lock()
			defer g.Unlock()
			refused := 0
			for range 2 * places {
				c := connectAs(t, addr, 1)
				_, _ = c.nc.Write([]byte(said)) // it fails where the connection is refused at once
				if !strings.HasSuffix(said, "PING\r\n") {
					continue
				}
				if got := c.reply(); got == "-ERR max number of clients reached" {
					refused++
				} else if got != "+PONG" && got != "+OK" {
					t.Errorf("answered %s", got)
				}
			}
			if shared {
				servertest.Await(t, "room made by the longest idle", func() bool { return counts.ClosedFull.Load() >= places })
				if n := counts.ClosedClient.Load() + counts.Refused.Load(); n > 0 {
					t.Errorf("%d connections of an address that many share were bounded", n)
				}
				return
			}
			askTwice(other)
			for range 3 {
				askTwice(connectAs(t, addr, 2))
			}
			// Those that were closed are counted until they have been served to their end.
			servertest.Await(t, fmt.Sprintf("at most %d clients", places), func() bool { return b.Stats().Clients <= places })
			if counts.ClosedClient.Load()+counts.Refused.Load() < 2*places-places/4 || counts.ClosedFull.Load()+counts.RefusedFull.Load() > 0 {
				t.Errorf("of the client's own %d were closed and %d refused; of all %d and %d", counts.ClosedClient.Load(), counts.Refused.Load(),
					counts.ClosedFull.Load(), counts.RefusedFull.Load())
			}
			if busy && refused != 2*places-places/4 {
				t.Errorf("%d connections beyond the share were told so, want %d", refused, 2*places-places/4)
			}
		})
	}
}

// TestSlowClients: whoever does not authenticate, does not finish what he has
// begun, or takes nothing of his replies, is not waited for; whoever only says
// nothing is, unless the server is told otherwise.
func TestSlowClients(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const timeout = time.Second
		b := newBench(t, Options{Timeout: timeout})
		silent := b.dial(t)
		began := time.Now()
		unfinished := b.dial(t)
		unfinished.send([]byte("*5\r\n$11\r\nCL.THR"))
		unfinished.ended()
		if took := time.Since(began); took != timeout {
			t.Errorf("the rest of a command was waited for %s", took)
		}
		// A byte now and then does not buy more time.
		drip := b.dial(t)
		began = time.Now()
		for _, b := range []byte("*2\r\n$4\r\nECHO\r\n$4000\r\n" + strings.Repeat("x", 80)) {
			if _, err := drip.nc.Write([]byte{b}); err != nil {
				break
			}
			time.Sleep(timeout / 5)
		}
		if took := time.Since(began); took > 2*timeout {
			t.Errorf("a client that drips was there for %s", took)
		}
		deaf := b.dial(t)
		began = time.Now()
		for many := bytes.Repeat(wire("COMMAND"), 100); ; {
			if _, err := deaf.nc.Write(many); err != nil {
				break
			}
		}
		if took := time.Since(began); took < timeout || took > 2*timeout {
			t.Errorf("a client that reads nothing was there for %s", took)
		}
		if got := silent.do("PING"); got != "+PONG" {
			t.Error(got)
		}
		synctest.Wait()
		if s := b.Stats(); s.Clients != 1 || s.Slow != 3 {
			t.Errorf("%+v", s)
		}

		idle := newBench(t, Options{Timeout: timeout, IdleTimeout: timeout})
		c := idle.dial(t)
		for range 5 {
			c.do("PING")
			time.Sleep(timeout / 3)
		}
		if got := c.ended(); got != "" {
			t.Error(got)
		}

		guarded := newBench(t, Options{Timeout: timeout, Password: "secret"})
		stranger, friend := guarded.dial(t), guarded.dial(t)
		friend.do("AUTH", "secret")
		go func() { _, _ = io.Copy(io.Discard, stranger.r) }()
		began = time.Now()
		for time.Since(began) < 10*timeout {
			if _, err := stranger.nc.Write(append(wire("PING"), wire("RESET")...)); err != nil {
				break
			}
			time.Sleep(timeout / 10)
		}
		if took := time.Since(began); took > 2*timeout {
			t.Errorf("a stranger may stay for %s if he speaks", took)
		}
		if got := friend.do("PING"); got != "+PONG" {
			t.Error(got)
		}
	})
}

// TestStrangersAreBounded: whoever does not authenticate may send so much and no
// more, even if he resets the connection, and whatever came before is answered.
func TestStrangersAreBounded(t *testing.T) {
	b := newBench(t, Options{Password: "secret"})
	for _, first := range [][]string{nil, {"AUTH", "secret"}} {
		c := b.dial(t)
		if first != nil {
			c.do(first...)
			for range 2 * maxEarly / (64 << 10) {
				c.do("ECHO", strings.Repeat("x", 64<<10-100))
			}
			c.do("RESET")
		}
		echo := wire("ECHO", strings.Repeat("x", 4000))
		n := 0
		for {
			c.send(echo)
			n += len(echo)
			got := c.reply()
			if got == "-NOAUTH Authentication required." && n <= maxEarly {
				continue
			}
			if n <= maxEarly || n > maxEarly+len(echo) {
				t.Errorf("after %d bytes: %s", n, got)
			}
			break
		}
		if got := c.ended(); got != "-ERR Protocol error: too much before authentication" {
			t.Error(got)
		}
	}
	if s := b.Stats(); s.Malformed != 2 {
		t.Errorf("%+v", s)
	}
}

// TestWrongPasswords: whoever tries too many is cut off.
func TestWrongPasswords(t *testing.T) {
	b := newBench(t, Options{Password: "secret", User: "app"})
	c := connect(t, b.listen(t))
	for range maxWrongPasswords {
		if got := c.do("AUTH", "app", "wrong"); got != "-"+wrongPass {
			t.Fatal(got)
		}
	}
	if got := c.ended(); got != "" || b.Stats().WrongPasswords != maxWrongPasswords {
		t.Errorf("%q, %+v", got, b.Stats())
	}
	c = connect(t, b.listen(t))
	if got := c.do("AUTH", "secret"); got != "-"+wrongPass {
		t.Error("the password is another user's:", got)
	}
	if got := c.do("AUTH", "app", "secret"); got != "+OK" {
		t.Error(got)
	}
}

// TestBrowser: a request that a web page makes a browser send here is not taken
// for commands.
func TestBrowser(t *testing.T) {
	b := newBench(t, Options{})
	addr := b.listen(t)
	for _, text := range []string{
		"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nCL.THROTTLE k 0 1 1\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nCL.THROTTLE k 0 1 1\r\n",
	} {
		c := connect(t, addr)
		c.send([]byte(text))
		if got := c.ended(); strings.Contains(got, "*5") {
			t.Errorf("%q", got)
		}
	}
	if got := connect(t, addr).do("TTL", "k"); got != ":-2" {
		t.Error(got)
	}
}

// TestMalformed: whoever breaks the protocol is told how, after the answers to
// what came before, and cut off.
func TestMalformed(t *testing.T) {
	b := newBench(t, Options{})
	addr := b.listen(t)
	for _, test := range []struct{ text, want string }{
		{"PING\r\n*1\r\n$2147483648\r\n", "+PONG|-ERR Protocol error: invalid bulk length"},
		{"CL.THROTTLE k 15 30 60\r\n*1000000\r\nPING\r\n", "*5|:0|:16|:15|:-1|:2|-ERR Protocol error: invalid multibulk length"},
		{"*1\r\nPING\r\n", "-ERR Protocol error: expected '$', got 'P'"},
		{strings.Repeat("x", maxBulk), "-ERR Protocol error: too big inline request"},
	} {
		c := connect(t, addr)
		c.send([]byte(test.text))
		if got := c.ended(); got != test.want {
			t.Errorf("%.40q: %s", test.text, got)
		}
	}
	if n := b.Stats().Malformed; n != 4 {
		t.Errorf("%d malformed", n)
	}
}

// TestMemoryIsShared: all that is kept of commands larger than usual has one
// bound, whatever the number of clients.
func TestMemoryIsShared(t *testing.T) {
	b := newBench(t, Options{MaxClients: 2000})
	addr := b.listen(t)
	b.large.Store(maxLarge - 3*usualBuffer) // as if others had the rest
	half := append(appendHead(appendBulk(appendArray(nil, 2), "ECHO"), '$', maxBulk), strings.Repeat("x", maxBulk/2+1)...)
	var refused, kept int
	for range 4 {
		c := connect(t, addr)
		c.send(half)
		if err := c.nc.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
			t.Fatal(err)
		}
		switch rest, err := io.ReadAll(c.r); {
		case strings.Contains(string(rest), "too many large requests"):
			refused++
		case isTimeout(err):
			kept++
		default:
			t.Errorf("%q, %v", rest, err)
		}
	}
	if refused == 0 || kept == 0 {
		t.Errorf("%d refused, %d kept", refused, kept)
	}
	b.eachConnection(func(c *conn) { c.nc.Close() })
	servertest.Await(t, "the large to be gone", func() bool { return b.Stats().Clients == 0 })
	gatherer, told := connect(t, addr), 0
	gatherer.do("MULTI")
	for range 8 {
		if got := gatherer.do("ECHO", strings.Repeat("x", 8<<10)); got == "-ERR transaction is too large" {
			told++
		}
	}
	if got := gatherer.do("EXEC"); told != 1 || !strings.HasPrefix(got, "-EXECABORT") {
		t.Errorf("a transaction has no part in the bound: told %d times, %s", told, got)
	}
	if got := connect(t, addr).do("PING"); got != "+PONG" {
		t.Error(got)
	}
	b.eachConnection(func(c *conn) { c.nc.Close() })
	servertest.Await(t, "the memory to be given back", func() bool { return b.large.Load() == maxLarge-3*usualBuffer })
}

// TestIdleMemory: a client that says nothing costs little.
func TestIdleMemory(t *testing.T) {
	b := newBench(t, Options{})
	c := b.addConnection(&quiet{})
	c.reader.in = make([]byte, smallBuffer)
	raw := bytes.Repeat(wire("CL.THROTTLE", "k", "15", "30", "60"), 50)
	c.replies.out = []byte{}
	c.feed(raw)
	if cap(c.reader.parser.args) > 64 || len(c.reader.in) > smallBuffer {
		t.Errorf("%d arguments, %d bytes", cap(c.reader.parser.args), len(c.reader.in))
	}
	var args []string
	for range maxArgs {
		args = append(args, "DEL")
	}
	c.reader.in = make([]byte, maxCommand)
	c.feed(wire(args...))
	if cap(c.reader.parser.args) > 64 {
		t.Errorf("%d arguments are kept", cap(c.reader.parser.args))
	}
	if c.reader.makeRoom(); len(c.reader.in) > usualBuffer {
		t.Errorf("%d bytes are kept", len(c.reader.in))
	}
}

// TestDrain: what has arrived is answered, a client that is in the middle of
// something may finish, and Serve returns nil.
func TestDrain(t *testing.T) {
	b := newBench(t, Options{})
	ln := servertest.Listen(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- b.Serve(ctx, ln) }()
	c, busy := connect(t, ln.Addr().String()), connect(t, ln.Addr().String())
	c.do("PING")
	busy.do("PING")
	stop()
	servertest.Await(t, "the listener to close", func() bool {
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err == nil {
			nc.Close()
		}
		return err != nil
	})
	if got := busy.do("CL.THROTTLE", "k", "15", "30", "60"); got != "*5|:0|:16|:15|:-1|:2" {
		t.Error(got)
	}
	c.ended()
	busy.ended()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestDrainEndsTheBusy: clients that go on and on, in halves of commands too, are
// no reason to stay; and the time before is theirs.
func TestDrainEndsTheBusy(t *testing.T) {
	const delay = 2 * time.Second
	b := newBench(t, Options{DrainDelay: delay, DrainTimeout: time.Minute})
	ln := servertest.Listen(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- b.Serve(ctx, ln) }()
	c := connect(t, ln.Addr().String())
	c.do("PING")
	var done sync.WaitGroup
	done.Go(func() {
		for {
			for _, half := range []string{"*1\r\n$4\r\nPI", "NG\r\n"} {
				if _, err := c.nc.Write([]byte(half)); err != nil {
					return
				}
				<-time.After(time.Millisecond)
			}
			if _, err := readReply(c.r); err != nil {
				return
			}
		}
	})
	began := time.Now()
	stop()
	if got := connect(t, ln.Addr().String()).do("PING"); got != "+PONG" {
		t.Error(got)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < delay+linger/2 || took > 30*time.Second {
		t.Errorf("drained in %s", took)
	}
	done.Wait()
}

// TestDrainIsBounded: who takes nothing is cut.
func TestDrainIsBounded(t *testing.T) {
	b := newBench(t, Options{DrainTimeout: 100 * time.Millisecond})
	ln := servertest.Listen(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- b.Serve(ctx, ln) }()
	deaf := connect(t, ln.Addr().String())
	var told sync.WaitGroup
	told.Go(func() {
		for {
			if _, err := deaf.nc.Write(bytes.Repeat(wire("COMMAND"), 100)); err != nil {
				return
			}
		}
	})
	servertest.Await(t, "commands", func() bool { return b.outstanding() })
	stop()
	if err := <-served; err == nil || !strings.Contains(err.Error(), "drain: 1 connections cut") {
		t.Error(err)
	}
	told.Wait()
}

// outstanding reports whether somebody has sent what was not yet answered: what
// was accepted is being written.
func (b *bench) outstanding() bool {
	buf := make([]byte, 1<<16)
	return strings.Contains(string(buf[:runtime.Stack(buf, true)]), "writeDirect")
}

// TestListenerFails: an error of the listener ends Serve.
func TestListenerFails(t *testing.T) {
	b := newBench(t, Options{})
	ln := servertest.Listen(t)
	ln.Close()
	if err := b.Serve(context.Background(), ln); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestManyClients: clients do not get each other's answers.
func TestManyClients(t *testing.T) {
	b := newBench(t, Options{})
	addr := b.listen(t)
	var all sync.WaitGroup
	for i := range 16 {
		c := connect(t, addr)
		all.Go(func() {
			key := fmt.Sprint("client ", i)
			for j := range 200 {
				b := append(wire("CL.THROTTLE", key, "999", "1", "1"), wire("ECHO", key)...)
				if _, err := c.nc.Write(b); err != nil {
					t.Error(err)
					return
				}
				raw, err := readReply(c.r)
				if want := fmt.Sprintf("*5|:0|:1000|:%d|:-1|:%d", 999-j, j+1); err != nil || bars(raw) != want {
					t.Errorf("%s, %v, want %s", bars(raw), err, want)
					return
				}
				if raw, err := readReply(c.r); err != nil || bars(raw) != fmt.Sprintf("$%d|%s", len(key), key) {
					t.Errorf("%s, %v", bars(raw), err)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestOptions(t *testing.T) {
	b := newBench(t, Options{})
	for _, opt := range []Options{
		{}, {Limiter: b.limiter, Parallel: -1}, {Limiter: b.limiter, Parallel: MaxParallel + 1}, {Limiter: b.limiter, MaxClients: -1},
		{Limiter: b.limiter, Timeout: -1}, {Limiter: b.limiter, User: "u"}, {Limiter: b.limiter, Password: strings.Repeat("x", maxEarlyBulk+1)},
	} {
		if _, err := New(opt); err == nil {
			t.Errorf("%+v is taken", opt)
		}
	}
}
