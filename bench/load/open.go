package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/bench/measure"
)

// Open sends requests at a constant rate, however long their answers take: what
// a slow answer holds up counts as well. A generator that waits for an answer
// before it sends the next request would leave that out ("coordinated
// omission").
type Open struct {
	// Address is the host and port of an HTTP/1.1 server.
	Address string
	// Request is what to send, whole. It must not end the connection.
	Request []byte
	// Rate is requests a second.
	Rate float64
	// Warm is for how long requests are sent before they are counted, For how
	// long they are counted.
	Warm, For time.Duration
	// Connections that are kept open. Where all are in use, requests wait for
	// one, which counts.
	Connections int
}

// Opened is what an open loop has seen.
type Opened struct {
	// Latency is from the instant that a request was due to the end of its
	// answer.
	Latency measure.Histogram
	// Late is how long after that instant it was sent.
	Late measure.Histogram
	// Requests that were counted.
	Requests int
}

// maxBody bounds an answer's body, in bytes.
const maxBody = 1 << 20

// answerTime bounds the wait for answers after the last request.
const answerTime = 10 * time.Second

// Run sends the requests. It fails on the first answer whose status is not 200,
// and on any that does not come whole.
func (o Open) Run(ctx context.Context) (*Opened, error) {
	n := int((o.Warm + o.For).Seconds() * o.Rate)
	if n < 1 || o.Connections < 1 {
		return nil, fmt.Errorf("%g requests a second for %s over %d connections: nothing to send", o.Rate, o.Warm+o.For, o.Connections)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r := &opening{Open: o, free: make(chan *openConn, o.Connections), fail: fail}
	var readers sync.WaitGroup
	defer readers.Wait()
	end := time.Now().Add(o.Warm + o.For + answerTime)
	for range o.Connections {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", o.Address)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		if err := conn.SetDeadline(end); err != nil {
			return nil, err
		}
		c := &openConn{Conn: conn, in: bufio.NewReaderSize(conn, 16<<10)}
		r.free <- c
		readers.Go(func() { r.read(c) })
	}
	r.start = time.Now()
	r.send(ctx, n)
	for range o.Connections { // all answers are there when all are free
		if _, err := r.take(ctx); err != nil {
			return nil, err
		}
	}
	r.over.Store(true)
	return &r.seen, context.Cause(ctx)
}

// opening is an open loop under way.
type opening struct {
	Open
	start time.Time
	free  chan *openConn
	fail  context.CancelCauseFunc
	over  atomic.Bool // the connections are being closed

	mu   sync.Mutex
	seen Opened
}

// openConn is one connection of an open loop.
type openConn struct {
	net.Conn
	in *bufio.Reader
	// due is when its request was due, as a time.Duration since the start.
	due atomic.Int64
}

func (r *opening) take(ctx context.Context) (*openConn, error) {
	select {
	case c := <-r.free:
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// send sends n requests, each when it is due or as soon after as a connection
// is free.
func (r *opening) send(ctx context.Context, n int) {
	// The thread's timer is set, and what it sleeps for no other goroutine waits.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer sharpen()()
	for i := range n {
		due := time.Duration(float64(i) / r.Rate * float64(time.Second))
		if wait := due - time.Since(r.start); wait > 0 {
			sleep(wait)
		}
		c, err := r.take(ctx)
		if err != nil {
			return
		}
		c.due.Store(int64(due))
		late := time.Since(r.start) - due
		if _, err := c.Write(r.Request); err != nil {
			r.fail(fmt.Errorf("send a request: %w", err))
			return
		}
		if due >= r.Warm {
			r.mu.Lock()
			r.seen.Late.Add(max(late, 0))
			r.mu.Unlock()
		}
	}
}

// read reads the answers of c until its end.
func (r *opening) read(c *openConn) {
	for {
		if err := readAnswer(c.in); err != nil {
			if !r.over.Load() {
				r.fail(err)
			}
			return
		}
		due := time.Duration(c.due.Load())
		took := time.Since(r.start) - due
		if due >= r.Warm {
			r.mu.Lock()
			r.seen.Latency.Add(took)
			r.seen.Requests++
			r.mu.Unlock()
		}
		r.free <- c
	}
}

var (
	statusOK      = []byte("HTTP/1.1 200 ")
	contentLength = []byte("Content-Length:")
)

// readAnswer reads one answer, which must be of status 200 and state its
// length. It does not allocate.
func readAnswer(in *bufio.Reader) error {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("read an answer: %w", err)
	}
	if !bytes.HasPrefix(line, statusOK) {
		return fmt.Errorf("answered %q, want status 200", bytes.TrimSpace(line))
	}
	length := -1
	for {
		if line, err = in.ReadSlice('\n'); err != nil {
			return fmt.Errorf("read the header of an answer: %w", err)
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			break
		}
		if n := len(contentLength); len(line) > n && bytes.EqualFold(line[:n], contentLength) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[n:]))); err != nil || length > maxBody {
				return fmt.Errorf("an answer has the length %q", line[n:])
			}
		}
	}
	if length < 0 {
		return errors.New("an answer does not state its length")
	}
	if _, err = in.Discard(length); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("read the body of an answer: %w", err)
	}
	return nil
}
