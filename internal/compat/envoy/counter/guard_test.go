package counter

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

func TestFraming(t *testing.T) {
	for text, want := range map[string]int64{
		"":                                    0,
		"+OK\r\n":                             1,
		":1\r\n:2\r\n":                        2,
		"-ERR a\r\n+":                         1,
		"$-1\r\n*-1\r\n":                      2,
		"$0\r\n\r\n":                          1,
		"$8\r\n\r\n*1\r\n:1\r\n:7\r\n":        2,
		"*0\r\n*2\r\n*1\r\n:1\r\n$1\r\na\r\n": 2,
		"*3\r\n$6\r\nINCRBY\r\n$1\r\na\r\n$1\r\n1\r\n*1\r\n":  1,
		"*2\r\n*2\r\n:1\r\n:2\r\n*1\r\n*1\r\n$-1\r\n+end\r\n": 2,
	} {
		// In every way to cut it in two, and byte by byte.
		for cut := range len(text) + 2 {
			var f framing
			var got int64
			parts := []string{text[:min(cut, len(text))], text[min(cut, len(text)):]}
			if cut > len(text) {
				parts = strings.Split(text, "")
			}
			for _, part := range parts {
				n, err := f.countValues([]byte(part))
				if err != nil {
					t.Fatal(text, err)
				}
				got += n
			}
			if got != want {
				t.Errorf("%q cut at %d: %d values, want %d", text, cut, got, want)
			}
		}
	}
	for _, text := range []string{
		"hello\r\n", "\r\n", "+OK\n", ">2\r\n", "%1\r\n", "_\r\n", "$x\r\n", "$-2\r\n", "$99999999999\r\n", "*1048577\r\n", "$9223372036854775807\r\n",
		strings.Repeat("*1\r\n", 17), "+" + strings.Repeat("a", 65<<10), "+" + strings.Repeat("a", 65<<10) + "\r\n",
	} {
		if n, err := new(framing).countValues([]byte(text)); err == nil {
			t.Errorf("%.20q is taken for %d values", text, n)
		}
	}
}

// Whatever a server says, at whatever time, is an error and not the end of the
// process; and where it says what it should afterwards, that is heard.
func TestHostileServer(t *testing.T) {
	for _, said := range []string{":1\r\n", ":1\r\n:2\r\n", "+OK\r\n", "*0\r\n", "$-1\r\n", ">2\r\n+a\r\n+b\r\n", "nonsense\r\n", "$99999999999\r\n", "*99999999\r\n", "*-5\r\n", "-ERR bye\r\n"} {
		for _, kind := range []string{"single", "cluster"} {
			server := serveRedis(t)
			c, err := OpenRedis(t.Context(), RedisOptions{Server: RedisServer{URL: server.addr, Type: kind, Timeout: 5 * time.Second}})
			if err != nil {
				t.Fatal(kind, err)
			}
			for i := range 2 {
				server.say(said)
				// Until it has hung up, connected again, and is answered.
				heard := false
				for end := time.Now().Add(20 * time.Second); !heard && time.Now().Before(end); {
					hits := []Hit{{Key: []byte("a"), Hits: 1, Period: 60, End: 60}}
					heard = c.Add(t.Context(), 0, hits) == nil && server.hungUp() > i
				}
				if !heard {
					t.Errorf("%s, %.20q: not heard again", kind, said)
				}
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// fakeRedis replies to commands, and says more.
type fakeRedis struct {
	addr  string
	conns chan net.Conn
	ended chan struct{}
	gone  int
}

func serveRedis(t *testing.T) *fakeRedis {
	ln := servertest.Listen(t)
	r := &fakeRedis{addr: ln.Addr().String(), conns: make(chan net.Conn, 100), ended: make(chan struct{}, 100)}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			r.conns <- conn
			go r.serve(conn)
		}
	}()
	return r
}

// say says something on every connection so far.
func (r *fakeRedis) say(text string) {
	for range len(r.conns) {
		conn := <-r.conns
		_, _ = io.WriteString(conn, text) // it may have ended
	}
}

// hungUp returns how many connections have ended.
func (r *fakeRedis) hungUp() int {
	for range len(r.ended) {
		<-r.ended
		r.gone++
	}
	return r.gone
}

func (r *fakeRedis) serve(conn net.Conn) {
	defer func() {
		conn.Close()
		r.ended <- struct{}{}
	}()
	in := bufio.NewReader(conn)
	host, port, err := net.SplitHostPort(r.addr)
	if err != nil {
		return
	}
	replies := map[string]string{
		"PING": "+PONG\r\n", "INCRBY": ":1\r\n", "EXPIRE": ":1\r\n", "HELLO": "-ERR unknown command 'HELLO'\r\n", "CLIENT": "+OK\r\n", "READONLY": "+OK\r\n",
		"CLUSTER": "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n" + host + "\r\n:" + port + "\r\n$1\r\na\r\n",
	}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if reply, ok := replies[strings.TrimSpace(line)]; ok {
			if _, err := io.WriteString(conn, reply); err != nil && !errors.Is(err, net.ErrClosed) {
				return
			}
		}
	}
}

func FuzzFraming(f *testing.F) {
	f.Add([]byte("*2\r\n$1\r\na\r\n:1\r\n+OK\r\n"), 3)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		var whole, parts framing
		want, err := whole.countValues(b)
		if cut < 0 || cut > len(b) {
			return
		}
		got, err1 := parts.countValues(b[:cut])
		if err1 == nil {
			var more int64
			more, err1 = parts.countValues(b[cut:])
			got += more
		}
		if got != want || (err == nil) != (err1 == nil) {
			t.Fatalf("%q: %d %v, cut at %d: %d %v", b, want, err, cut, got, err1)
		}
	})
}
