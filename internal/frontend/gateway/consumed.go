package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/answer"
)

// consumed is the body of an HTTP/1 request that knows how much of it has been
// read.
//
// With full duplex, net/http reads the rest of a body only when the handler has
// returned, and where it then finds its end, it fails in the next request on the
// connection: "invalid concurrent Body.Read call". So the end is read here, or
// the connection ends. Upstreams that answer before they have read everything
// are common: those that are down, those that refuse, those that do not care.
type consumed struct {
	io.ReadCloser
	length   int64 // -1: not known
	expected bool  // the client sends it only if it is asked to
	n        atomic.Int64
	whole    atomic.Bool
}

func newConsumed(r *http.Request) *consumed {
	return &consumed{ReadCloser: r.Body, length: r.ContentLength, expected: r.Header.Get("Expect") != ""}
}

// Read implements io.Reader.
func (b *consumed) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	if err == io.EOF {
		b.whole.Store(true)
	}
	return n, err
}

// endsConnection reports whether the connection must end with an answer that is begun
// now, because it is not known whether the rest of the body can be read.
func (b *consumed) endsConnection() bool {
	return !b.whole.Load() && (b.length < 0 || b.expected || b.length-b.n.Load() > maxRest)
}

// maxRest is how much of a body net/http reads for the sake of the connection,
// in bytes; it closes those with more.
const maxRest = 256 << 10

// stoppable is the body of an HTTP/2 request, of which nothing is read once the
// handler has returned.
//
// The transport may still read it then. What that tells net/http's server, that
// there is room for more, makes it fail if the stream has just ended ("attempt
// to send frame on a closed stream"), and with it every request on the
// connection.
type stoppable struct {
	io.ReadCloser
	mu      sync.Mutex // held while it is read
	stopped atomic.Bool
	whole   atomic.Bool
}

// Read implements io.Reader.
func (b *stoppable) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.whole.Store(true)
	}
	return n, err
}

// Close implements io.Closer. The rest is for the server to read, so that its sender
// hears the answer.
func (b *stoppable) Close() error {
	b.stopped.Store(true)
	return nil
}

// stopReading waits for the read that is under way, if there is one, and lets no other
// begin. Who waits for the client is woken, which breaks the body: only after a while
// where the client is to hear why nobody wants it.
func (b *stoppable) stopReading(w http.ResponseWriter, status int) {
	if b.stopped.Store(true); b.whole.Load() {
		return
	}
	if b.mu.TryLock() { // nobody reads
		b.mu.Unlock()
		return
	}
	rc, wake := http.NewResponseController(w), time.Unix(1, 0)
	if status >= 400 && rc.Flush() == nil {
		wake = time.Now().Add(wakeTime)
	}
	_ = rc.SetReadDeadline(wake)
	b.mu.Lock()
	defer b.mu.Unlock()
}

// What is read of a body that nobody wants, so that its sender hears the answer:
// a connection that is closed while there is something to read is reset, and
// the answer lost with it.
const (
	maxLinger  = 8 << 20
	lingerTime = 5 * time.Second
	wakeTime   = 2 * time.Second
)

// readRest reads the rest of the body once w is answered: all of it for the sake
// of the connection, or a part for the sake of the answer.
func (b *consumed) readRest(w http.ResponseWriter) {
	if b.whole.Load() || b.expected {
		return
	}
	// What goes wrong here goes wrong for net/http again, which tells nobody.
	rc := http.NewResponseController(w)
	_ = rc.Flush()
	if !b.endsConnection() {
		_, _ = io.Copy(io.Discard, b)
		return
	}
	if rc.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.CopyN(io.Discard, b, maxLinger)
	}
}

// refuseRequest answers a request whose body is not wanted.
func refuseRequest(w http.ResponseWriter, r *http.Request, p *answer.Problem) {
	if r.ProtoMajor != 1 || r.ContentLength == 0 {
		p.Write(answer.ForCall(w, r))
		return
	}
	_ = http.NewResponseController(w).EnableFullDuplex()
	b := newConsumed(r)
	if b.endsConnection() {
		w.Header().Set("Connection", "close")
	}
	p.Write(w)
	b.readRest(w)
}

// incoming is a request's body that tells whether it is the client's fault that
// it was not read whole. What the transport makes of that is an error like any
// other.
type incoming struct {
	io.ReadCloser
	// fault is the status for it, zero for none.
	fault  atomic.Int32
	closed atomic.Bool
}

// Read implements io.Reader.
func (b *incoming) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil || err == io.EOF || b.closed.Load():
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.fault.CompareAndSwap(0, http.StatusRequestTimeout)
	default:
		b.fault.CompareAndSwap(0, http.StatusBadRequest)
	}
	return n, err
}

// Close implements io.Closer. Whoever reads on is not told the truth.
func (b *incoming) Close() error {
	b.closed.Store(true)
	return b.ReadCloser.Close()
}

// problem says what is wrong with the body, nil for nothing. A body that ends
// with its client is nobody's fault; net/http ends ctx for a late one too.
func (b *incoming) problem(ctx context.Context) *answer.Problem {
	if b == nil {
		return nil
	}
	switch fault := b.fault.Load(); {
	case fault == http.StatusRequestTimeout:
		return &answer.Problem{Status: http.StatusRequestTimeout, Detail: "the body did not arrive in time"}
	case fault == http.StatusBadRequest && ctx.Err() == nil:
		return &answer.Problem{Status: http.StatusBadRequest, Detail: "the body broke off, or its chunks cannot be read"}
	}
	return nil
}
