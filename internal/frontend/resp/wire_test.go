package resp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/store/memory"
)

// epoch is where set clocks begin, in microseconds.
const epoch = int64(1_750_000_000_000_000)

// bench is a server on a clock of its own, with a rule for the domain api: five a
// minute for each client, and two at once for each worker.
type bench struct {
	*Server
	store *memory.Store
	now   atomic.Int64
}

// byDomain are rules of which each has a domain.
type byDomain map[string]weir.Limits

func (b byDomain) Match(dst []weir.Op, r *weir.Request) []weir.Op { return b[r.Domain].Match(dst, r) }

func newBench(t testing.TB, opt Options) *bench {
	t.Helper()
	b := &bench{}
	b.now.Store(epoch)
	b.store = memory.New(memory.Options{MaxBytes: 8 << 20, Now: b.now.Load})
	t.Cleanup(func() { b.store.Close() })
	rules := byDomain{
		"api":  {{Name: "per client", Algorithm: algorithm.FixedWindow, Count: 5, Period: time.Minute}},
		"work": {{Name: "at once", Algorithm: algorithm.Concurrency, Count: 2, Period: time.Minute}},
		"late": {{Name: "queue", Algorithm: algorithm.LeakyQueue, Count: 1, Period: time.Second, Burst: 3}},
	}
	for _, ls := range rules {
		for _, l := range ls {
			if err := l.Compile(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if opt.Limiter == nil {
		l, err := weir.New(b.store, rules, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		opt.Limiter, opt.Keyring = l, b.store
	}
	s, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	b.Server = s
	return b
}

// commandNames returns the names of all commands, sorted.
func (b *bench) commandNames() []string {
	names := make([]string, len(b.commands.sorted))
	for i, o := range b.commands.sorted {
		names[i] = strings.ToUpper(o.name)
	}
	return names
}

// dial returns a client on a connection in memory.
func (b *bench) dial(t testing.TB) *client {
	t.Helper()
	here, there := net.Pipe()
	b.done.Go(b.addConnection(there).serveClient)
	t.Cleanup(func() { here.Close() })
	return newClient(t, here)
}

// listen serves on loopback until the test ends.
func (b *bench) listen(t testing.TB) string {
	t.Helper()
	ln := servertest.Listen(t)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- b.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		<-served // a test that looks at it calls Serve itself
	})
	return ln.Addr().String()
}

// client speaks the protocol by hand.
type client struct {
	testing.TB
	nc net.Conn
	r  *bufio.Reader
}

func newClient(t testing.TB, nc net.Conn) *client {
	t.Helper()
	if err := nc.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return &client{t, nc, bufio.NewReader(nc)}
}

func connect(t testing.TB, addr string) *client {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return newClient(t, nc)
}

// wire returns words as a command.
func wire(words ...string) []byte {
	b := appendArray(nil, len(words))
	for _, w := range words {
		b = appendBulk(b, w)
	}
	return b
}

func (c *client) send(b []byte) {
	c.Helper()
	if _, err := c.nc.Write(b); err != nil {
		c.Fatal(err)
	}
}

// do returns the reply as it came, its ends of lines as bars.
func (c *client) do(words ...string) string {
	c.Helper()
	c.send(wire(words...))
	return c.reply()
}

func (c *client) reply() string {
	c.Helper()
	raw, err := readReply(c.r)
	if err != nil {
		c.Fatalf("after %q: %v", raw, err)
	}
	return bars(raw)
}

func bars(raw []byte) string {
	text := strings.TrimSuffix(strings.ReplaceAll(string(raw), "\r\n", "|"), "|")
	return strings.ReplaceAll(text, "\n", `\n`)
}

// ended reports how the connection goes on: what comes until its end.
func (c *client) ended() string {
	c.Helper()
	rest, err := io.ReadAll(c.r)
	if err != nil && !errors.Is(err, io.ErrClosedPipe) && !strings.Contains(err.Error(), "reset") {
		c.Fatal(err)
	}
	return bars(rest)
}

// readReply reads one reply whole.
func readReply(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return line, err
	}
	if len(line) < 3 || !bytes.HasSuffix(line, []byte("\r\n")) {
		return line, fmt.Errorf("a line of %q", line)
	}
	n, numErr := strconv.Atoi(string(line[1 : len(line)-2]))
	values := n
	switch line[0] {
	case '+', '-', ':', '_', '#':
		return line, nil
	case '$', '=':
		if numErr != nil || n < 0 {
			return line, numErr
		}
		text := make([]byte, n+2)
		_, err := io.ReadFull(r, text)
		return append(line, text...), err
	case '%':
		values = 2 * n
	case '*', '~':
	default:
		return line, fmt.Errorf("a line of %q", line)
	}
	if numErr != nil {
		return line, numErr
	}
	for range values {
		v, err := readReply(r)
		line = append(line, v...)
		if err != nil {
			return line, err
		}
	}
	return line, nil
}

// checkReplies reads replies to the end and returns how many there are.
func checkReplies(t *testing.T, b []byte) int {
	t.Helper()
	r, n := bufio.NewReader(bytes.NewReader(b)), 0
	for {
		raw, err := readReply(r)
		if errors.Is(err, io.EOF) && len(raw) == 0 {
			return n
		}
		if err != nil {
			t.Fatalf("reply %d, %q of %q: %v", n, raw, b, err)
		}
		n++
	}
}
