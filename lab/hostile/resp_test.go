package hostile

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

const respPassword = "correct-horse"

// serveRedis starts a node for Redis clients, who must authenticate and have a
// second for whatever they begin. The address is that of the Redis protocol.
func serveRedis(t *testing.T, args ...string) *node {
	t.Helper()
	s := serve(t, append([]string{"--resp", "127.0.0.1:0", "WEIR_RESP_PASSWORD=" + respPassword, "--config", servertest.Config(t, "resp: {timeout: 1s}")}, args...)...)
	servertest.Await(t, "weir to listen for Redis clients", func() bool {
		s.addr = s.Listening("resp") // the last that is logged
		return s.addr != ""
	})
	return s
}

// bulk returns words as a command of the Redis protocol.
func bulk(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// redisNeighbour returns a client that asks again and again on one connection.
func (s *node) redisNeighbour(t *testing.T) func() error {
	t.Helper()
	c, r := s.authenticated(t)
	return func() error {
		if err := c.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
			return err
		}
		if _, err := io.WriteString(c, bulk("CL.THROTTLE", "neighbour", "1000000", "1000000", "1")); err != nil {
			return err
		}
		for i := range 6 {
			line, err := r.ReadString('\n')
			if err != nil {
				return err
			}
			if i == 1 && line != ":0\r\n" {
				return fmt.Errorf("answered %q", line)
			}
		}
		return nil
	}
}

// authenticated returns a connection of a client who has given the password.
func (s *node) authenticated(t *testing.T) (net.Conn, *bufio.Reader) {
	t.Helper()
	return s.authenticatedFrom(t, "127.0.0.2")
}

// authenticatedFrom is authenticated from an address. On a machine that stands still
// the client's time for that may be over before it has.
func (s *node) authenticatedFrom(t *testing.T, from string) (net.Conn, *bufio.Reader) {
	t.Helper()
	for {
		began := time.Now()
		c := s.dialFrom(t, from)
		r := bufio.NewReader(c)
		_, err := io.WriteString(c, bulk("AUTH", respPassword))
		var line string
		if err == nil {
			line, err = r.ReadString('\n')
		}
		if err == nil && line == "+OK\r\n" {
			return c, r
		}
		if took := time.Since(began); line != "" || took < time.Second/2 || took > 30*time.Second {
			t.Fatalf("after %s: %q, %v", took, line, err)
		}
	}
}

// attackRedis runs f for several strangers, and for several clients who have
// authenticated.
func attackRedis(t *testing.T, s *node, most int64, f func(c net.Conn)) {
	t.Helper()
	ask := s.redisNeighbour(t)
	for _, known := range []bool{false, true} {
		s.attackBeside(t, most, ask, func() {
			each(8, func(int) {
				var c net.Conn
				if known {
					c, _ = s.authenticated(t)
				} else {
					c = s.dial(t)
				}
				defer c.Close()
				f(c)
			})
		})
	}
}

// pour writes b again and again until the node does not take more, and reports
// how much it took.
func pour(t *testing.T, c net.Conn, b []byte) {
	t.Helper()
	const enough = 300 << 20
	for sent := 0; sent < enough; sent += len(b) {
		if _, err := c.Write(b); err != nil {
			return
		}
	}
	t.Errorf("%d MiB were taken", enough>>20)
}

// TestRedisAnnouncements: a length is not believed. Whoever announces two
// gigabytes, or a million arguments, is told so and cut off.
func TestRedisAnnouncements(t *testing.T) {
	t.Parallel()
	s := serveRedis(t)
	for _, head := range []string{"*2\r\n$4\r\nECHO\r\n$2147483647\r\n", "*1000000\r\n", "*1024\r\n$60000\r\n", "*-1\r\n*99999999999999999999\r\n"} {
		attackRedis(t, s, 24*mib, func(c net.Conn) {
			if _, err := io.WriteString(c, head); err != nil {
				return
			}
			pour(t, c, bytes.Repeat([]byte("x"), 64<<10))
		})
	}
}

// TestRedisEndlessLine: a line without end is cut off where it is too long, and
// commands that never end are not gathered.
func TestRedisEndlessLine(t *testing.T) {
	t.Parallel()
	s := serveRedis(t)
	for _, line := range []string{"x", "x ", "\"\\x41", "*", "*1\r\n$", "*0\r\n"} {
		attackRedis(t, s, 24*mib, func(c net.Conn) {
			if line == "*0\r\n" {
				// Commands of no words: no replies, and nothing to keep.
				for range 100 {
					if _, err := c.Write(bytes.Repeat([]byte(line), 4096)); err != nil {
						return
					}
				}
				return
			}
			head, rest := line[:len(line)-1], line[len(line)-1:]
			if len(line) < 4 {
				head, rest = "", line
			}
			if _, err := io.WriteString(c, head); err != nil {
				return
			}
			pour(t, c, bytes.Repeat([]byte(rest), 64<<10))
		})
	}
}

// TestRedisSlowClients: whoever sends a byte now and then is cut off by the time
// for a command, and before it by the time to authenticate.
func TestRedisSlowClients(t *testing.T) {
	t.Parallel()
	attackRedis(t, serveRedis(t), 24*mib, func(c net.Conn) {
		began := time.Now()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for _, b := range []byte("*2\r\n$4\r\nECHO\r\n$4000\r\n" + strings.Repeat("x", 3000)) {
			if _, err := c.Write([]byte{b}); err != nil {
				return
			}
			if took := time.Since(began); took > 2*time.Minute {
				t.Errorf("still open after %s", took)
				return
			}
			<-tick.C
		}
	})
}

// TestRedisUnreadReplies: a client that pipelines and never reads is answered as
// long as its replies are taken, which the kernel does until its buffers are full,
// and then cut off: they do not pile up. What it could send by then depends on the
// kernel and on what is asked: here replies are half as long as commands at least,
// and the client's buffer is small.
func TestRedisUnreadReplies(t *testing.T) {
	t.Parallel()
	s := serveRedis(t)
	var next atomic.Int64
	commands := []string{bulk("PING"), bulk("COMMAND"), bulk("INFO"), bulk("ECHO", strings.Repeat("x", 4000)), bulk("CL.THROTTLE", "k", "15", "30", "60")}
	attackRedis(t, s, 48*mib, func(c net.Conn) {
		if err := c.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
			t.Error(err)
		}
		command := commands[next.Add(1)%int64(len(commands))]
		pour(t, c, bytes.Repeat([]byte(command), 1+64<<10/len(command)))
	})
}

// TestRedisFloods: more connections than there may be are told so and closed, do
// not keep those who are in from being served, and leave room when they go.
func TestRedisFloods(t *testing.T) {
	t.Parallel()
	s := serveRedis(t, "--config", servertest.Config(t, "resp: {max_clients: 500, timeout: 5s}"))
	ask := s.redisNeighbour(t)
	many := n(3000, 30_000)
	s.attackBeside(t, 48*mib, ask, func() {
		stay := make([]net.Conn, many)
		each(16, func(w int) {
			for i := w; i < many; i += 16 {
				c, err := s.try()
				if err != nil {
					t.Error(err)
					return
				}
				// Some stay, half open or silent, until the node ends them, and more than
				// there is room for would stay for ever. Who is refused is closed already.
				switch {
				case i < 700:
					_, _ = io.WriteString(c, bulk("AUTH", respPassword))
					stay[i] = c
				case i < 1000:
					stay[i] = c
				case i%3 == 0:
					_, _ = io.WriteString(c, bulk("AUTH", "guess"))
					c.Close()
				default:
					c.Close()
				}
			}
		})
		for _, c := range stay[:700] {
			if c != nil {
				c.Close()
			}
		}
		t.Cleanup(func() {
			for _, c := range stay {
				if c != nil {
					c.Close()
				}
			}
		})
	})
	// The strangers had five seconds to authenticate.
	servertest.Await(t, "room", func() bool { return s.metric(t, "weir_resp_clients") < 100 })
	// Where strangers guessed a password this short is compared in turn: from elsewhere at once.
	c, _ := s.authenticatedFrom(t, "127.0.0.1")
	c.Close()
	if s.metric(t, `weir_connections_closed_total{listener="resp",reason="full"}`) == 0 {
		t.Error("no idle connection made room")
	}
}

// TestRedisHalfCommands: what many clients have begun and not ended has one bound
// for all of them together.
func TestRedisHalfCommands(t *testing.T) {
	t.Parallel()
	s := serveRedis(t, "--config", servertest.Config(t, "resp: {timeout: 10s}"))
	ask := s.redisNeighbour(t)
	const clients = 1500
	conns := make([]net.Conn, clients)
	for i := range conns {
		conns[i], _ = s.authenticated(t)
	}
	half := bulk("DEL", strings.Repeat("x", 60_000), strings.Repeat("y", 60_000))
	half = half[:100_000]
	// 64 MiB for what is large, 16 KiB for each client, and room for the collector;
	// all of it would be 190 MiB, and what grew on the way as much again.
	s.attackBeside(t, 160*mib, ask, func() {
		each(16, func(w int) {
			for i := w; i < clients; i += 16 {
				_, _ = io.WriteString(conns[i], half) // some are cut off in the middle
			}
		})
		for _, c := range conns {
			c.Close()
		}
	})
}

// TestRedisNumbers: limits that a client makes up anew with each call leave
// nothing behind.
func TestRedisNumbers(t *testing.T) {
	t.Parallel()
	s := serveRedis(t)
	ask := s.redisNeighbour(t)
	s.attackBeside(t, 64*mib, ask, func() {
		c, r := s.authenticated(t)
		defer c.Close()
		each := n(50, 5000)
		for i := range each {
			var b strings.Builder
			for j := range 1000 {
				b.WriteString(bulk("CL.THROTTLE", "k", fmt.Sprint(j), fmt.Sprint(i+1), fmt.Sprint(j+1)))
			}
			if _, err := io.WriteString(c, b.String()); err != nil {
				t.Fatal(err)
			}
			for range 6000 {
				if _, err := r.ReadSlice('\n'); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
