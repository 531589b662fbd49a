package hostile

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

const mib = 1 << 20

// TestIdleConnections: thousands of connections that ask once, or never, and then
// keep still, cost little memory and nobody else's service; and the idle
// timeout ends them.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		t.Fatal(err)
	}
	many := min(n(5000, 10_000), int(lim.Cur)-3000)
	if many < 4000 {
		t.Skipf("%d files may be open, 7,000 are needed: ulimit -n", lim.Cur)
	}
	s := serve(t, "--limit", unlimited, "--upstream", nginx(t), "--config", servertest.Config(t, "http: {read_header_timeout: 5s, idle_timeout: 3s}"))
	s.attack(t, int64(many)*32<<10, func() {
		conns := make([]net.Conn, many)
		each(16, func(w int) {
			for i := w; i < many; i += 16 {
				c, err := s.try()
				if err != nil {
					t.Error(err)
					return
				}
				conns[i] = c
				if i%2 == 0 {
					continue
				}
				if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
					t.Error(err)
				}
				if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != 200 {
					t.Errorf("connection %d: %v", i, err)
				}
			}
		})
		for i, c := range conns {
			if c == nil {
				continue
			}
			if _, err := closed(c); err != nil {
				t.Errorf("connection %d is not closed: %v", i, err)
			}
			c.Close()
		}
	})
}

// TestSlowloris: requests that come letter by letter are cut off after the time
// for headers, however steadily they come.
func TestSlowloris(t *testing.T) {
	t.Parallel()
	s := serve(t, "--limit", unlimited, "--upstream", nginx(t), "--config", servertest.Config(t, "http: {read_header_timeout: 3s}"))
	s.attack(t, int64(n(64, 384))*mib, func() {
		each(n(300, 5000), func(int) {
			c, err := s.try()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			began := time.Now()
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\nX-Slow: ")
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for range tick.C {
				if _, err := io.WriteString(c, "x"); err != nil {
					return // cut off: there is room for a byte at any time
				}
				if took := time.Since(began); took > 2*time.Minute {
					t.Errorf("still open after %s", took)
					return
				}
			}
		})
	})
}

// TestHeaderFloods: header fields without end, in number or in size, are
// answered 431 when they are above the bound, and read no further.
func TestHeaderFloods(t *testing.T) {
	t.Parallel()
	s := serve(t, "--limit", unlimited, "--upstream", nginx(t))
	for name, line := range map[string]string{
		"many":     "A:b\r\n",
		"repeated": "X-Forwarded-For: 203.0.113.7\r\n",
		"large":    strings.Repeat("x", 4096), // one field
		"folded":   "\r\n x",
		"request":  "", // one line
	} {
		t.Run(name, func(t *testing.T) {
			s.attack(t, 64*mib, func() {
				each(n(50, 500), func(int) {
					c, err := s.try()
					if err != nil {
						t.Error(err)
						return
					}
					defer c.Close()
					first, chunk := "GET / HTTP/1.1\r\nHost: h\r\nA: ", bytes.Repeat([]byte(line), 1+(16<<10)/max(1, len(line)))
					if name == "request" {
						first, chunk = "GET /", bytes.Repeat([]byte("a"), 16<<10)
					}
					said := make(chan string, 1)
					go func() { b, _ := closed(c); said <- b }()
					sent := 0
					io.WriteString(c, first)
					for ; sent < 64*mib; sent += len(chunk) {
						if _, err := c.Write(chunk); err != nil {
							break
						}
					}
					if sent >= 64*mib {
						t.Error("64 MiB of header were read")
					}
					// The answer may be lost in the reset that what is unread causes.
					if b := <-said; b != "" && !strings.HasPrefix(b, "HTTP/1.1 431 ") && !strings.HasPrefix(b, "HTTP/1.1 400 ") {
						t.Errorf("answered %.80q", b)
					}
				})
			})
		})
	}
}

// TestChunkFloods: what a chunked body carries beside data - extensions,
// trailers, chunks of one byte - is bounded too.
func TestChunkFloods(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	s := serve(t, "--limit", unlimited, "--upstream", u.URL)
	for name, f := range map[string]struct{ first, piece string }{
		"extension": {"1;", "x"},
		"trailers":  {"0\r\n", "A: b\r\n"},
		"trailer":   {"0\r\nA: ", "x"},
		"size":      {"", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			s.attack(t, 64*mib, func() {
				each(20, func(int) {
					c, err := s.try()
					if err != nil {
						t.Error(err)
						return
					}
					defer c.Close()
					go closed(c)
					io.WriteString(c, "POST /read HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"+f.first)
					piece := bytes.Repeat([]byte(f.piece), (16<<10)/len(f.piece))
					sent := 0
					for ; sent < 64*mib; sent += len(piece) {
						if _, err := c.Write(piece); err != nil {
							break
						}
					}
					if sent >= 64*mib {
						t.Error("64 MiB beside the data were read")
					}
				})
			})
		})
	}
}

// TestPipelining: requests that are sent without reading an answer are answered
// in turn, as far as the connection takes the answers; nothing piles up.
func TestPipelining(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	s := serve(t, "--limit", unlimited, "--upstream", u.URL, "--config", servertest.Config(t, "http: {stall_timeout: 1s}"))
	s.attack(t, 64*mib, func() {
		const request = "GET /page HTTP/1.1\r\nHost: h\r\n\r\n"
		each(8, func(int) {
			c, err := s.try()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			c.(*net.TCPConn).SetReadBuffer(4096)
			flood := []byte(strings.Repeat(request, 1000))
			for range 10_000 {
				if _, err := c.Write(flood); err != nil {
					if e, ok := err.(net.Error); ok && e.Timeout() {
						t.Errorf("still open after %s", patience)
					}
					return
				}
			}
			t.Error("ten million requests were taken, and no answer read")
		})
	})
}

// TestSlowReaders: who asks for much and reads nothing loses the connection,
// and with it what it held of the upstream and of a limit on concurrency; who
// reads slowly does not.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	many := n(100, 1000)
	s := serve(t, "--rules", rules(t, fmt.Sprintf("domain: api\ndescriptors:\n- {key: remote_address, limit: %d, algorithm: concurrency, ttl: 1m}\n", many)), "--upstream", u.URL, "--config", servertest.Config(t, "http: {stall_timeout: 3s}"))
	steady := s.dial(t)
	steady.(*net.TCPConn).SetReadBuffer(4096)
	s.attack(t, int64(n(128, 384))*mib, func() {
		each(many-1, func(int) {
			c, err := s.try()
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { c.Close() })
			c.(*net.TCPConn).SetReadBuffer(4096)
			io.WriteString(c, "GET /big HTTP/1.1\r\nHost: h\r\n\r\n")
		})
		servertest.Await(t, "all to be under way", func() bool { return u.requests.Load() >= int64(many) })
		io.WriteString(steady, "GET /big HTTP/1.1\r\nHost: h\r\n\r\n")
		b := make([]byte, 16<<10)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for began := time.Now(); time.Since(began) < 5*time.Second; {
			<-tick.C
			if _, err := steady.Read(b); err != nil {
				t.Fatalf("a slow reader was cut off: %v", err)
			}
		}
		servertest.Await(t, "the upstream to be let go", func() bool { return u.underWay.Load() <= 1 })
		// Their places are free.
		c := s.dial(t)
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != 200 {
			t.Errorf("the next of them: %v, %v", res, err)
		}
		c.Close()
		steady.Close()
	})
}

// TestSlowBodies: a body that stalls is given up, and what it held with it, also
// where there is no bound on whole uploads; one that trickles in is not.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	u := startUpstream(t)
	s := serve(t, "--limit", unlimited, "--upstream", u.URL, "--config", servertest.Config(t, "http: {read_timeout: 0s, stall_timeout: 3s}"))
	const head = "POST /read HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n"
	s.attack(t, int64(n(64, 384))*mib, func() {
		var cut atomic.Int64
		many := n(200, 2000)
		each(many+1, func(i int) {
			c, err := s.try()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			io.WriteString(c, head)
			if i < many {
				if _, err := closed(c); err != nil {
					t.Error(err)
				}
				cut.Add(1)
				return
			}
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for range 100 { // five seconds
				<-tick.C
				io.WriteString(c, "x")
			}
			if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != 200 {
				t.Errorf("who sends slowly: %v, %v", res, err)
			}
		})
		if cut.Load() != int64(many) {
			t.Errorf("%d of %d were cut off", cut.Load(), many)
		}
		servertest.Await(t, "the upstream to be let go", func() bool { return u.underWay.Load() == 0 })
	})
}
