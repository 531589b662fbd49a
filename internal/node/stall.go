package node

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/listen"
)

// A peer that takes nothing of its answer, or sends nothing of its body, holds
// a connection, and what its request holds of the upstream and of limits on
// concurrency, at no cost of its own. Deadlines that move on with every byte
// end that; whoever is slow and steady has all the time there is.

// waiter ends what waits for a peer for too long. It is for the streams of
// HTTP/2, whose deadlines pass whether anybody waits or not. Safe for concurrent
// use, but one waits at a time.
type waiter struct {
	stall time.Duration
	// since is when the wait began, in nanoseconds since the Unix epoch, zero
	// when nobody waits.
	since atomic.Int64

	mu sync.Mutex
	// expire ends the wait. Nil when the request is over.
	expire func()
	timer  *time.Timer
}

// beginWait is called before each wait.
func (w *waiter) beginWait() {
	w.since.Store(time.Now().UnixNano())
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer == nil && w.expire != nil {
		w.timer = time.AfterFunc(w.stall, w.lookForStall)
	}
}

// endWait is called after each wait.
func (w *waiter) endWait() { w.since.Store(0) }

func (w *waiter) lookForStall() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.expire == nil {
		return
	}
	left := w.stall
	if since := w.since.Load(); since != 0 {
		left -= time.Duration(time.Now().UnixNano() - since)
	}
	if left > 0 {
		w.timer.Reset(left)
		return
	}
	w.expire()
}

// endWatch ends the watch, and reports whether there was a wait.
func (w *waiter) endWatch() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expire = nil
	if w.timer == nil {
		return false
	}
	w.timer.Stop()
	return true
}

// pacedBody is a body over HTTP/1, which must keep coming.
type pacedBody struct {
	io.ReadCloser
	read  listen.Pace
	begun atomic.Bool
	// broken: it ended before its end. What comes after it on the connection
	// must not be taken for a request, and with full duplex net/http would.
	broken atomic.Bool
}

// Read implements io.Reader.
func (b *pacedBody) Read(p []byte) (int, error) {
	b.read.ExtendDeadline()
	b.begun.Store(true)
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == io.EOF:
		// net/http reads on, to see whether the client is still there.
		b.read.StopWatching()
	case err != nil && err != http.ErrBodyReadAfterClose:
		b.broken.Store(true)
	}
	return n, err
}

// awaitedBody is a body over HTTP/2, which must keep coming.
type awaitedBody struct {
	io.ReadCloser
	read  waiter
	whole atomic.Bool // read to its end
}

// Read implements io.Reader.
func (b *awaitedBody) Read(p []byte) (int, error) {
	b.read.beginWait()
	defer b.read.endWait()
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.whole.Store(true)
	}
	return n, err
}

// watch is what keeps one request moving. Over HTTP/1 the connection sees to its
// answer.
type watch struct {
	ctl   *http.ResponseController
	stall time.Duration
	paced *pacedBody   // nil over HTTP/2, and where there is no body
	body  *awaitedBody // nil over HTTP/1, and where there is no body
	write *waiter      // nil over HTTP/1
}

// newWatch watches a request, and returns the one to be served in its place,
// with a watched body. It returns nil where there is nothing to watch.
//
// net/http looks at the body of its own request to tell whether the connection
// can be used again, so that one stays as it is.
func newWatch(w http.ResponseWriter, r *http.Request, stall, whole time.Duration) (*watch, *http.Request) {
	hasBody := r.ContentLength != 0 && r.Body != nil
	if r.ProtoMajor == 1 && !hasBody || r.ProtoMajor >= 2 && stall == 0 {
		return nil, r
	}
	if hasBody {
		own := *r
		r = &own
	}
	a := &watch{ctl: http.NewResponseController(w), stall: stall}
	past := time.Unix(1, 0)
	switch {
	case r.ProtoMajor == 1:
		a.paced = &pacedBody{ReadCloser: r.Body, read: listen.Pace{Set: a.ctl.SetReadDeadline, Stall: stall}}
		if whole > 0 {
			a.paced.read.Last = time.Now().Add(whole)
		}
		r.Body = a.paced
		return a, r
	case hasBody:
		a.body = &awaitedBody{ReadCloser: r.Body, read: waiter{stall: stall, expire: func() { _ = a.ctl.SetReadDeadline(past) }}}
		r.Body = a.body
	}
	a.write = &waiter{stall: stall, expire: func() { _ = a.ctl.SetWriteDeadline(past) }}
	return a, r
}

// restOfBody returns the rest of r's body if net/http would not read it after the answer. Over
// HTTP/2 that resets the stream, which looks to curl 7.88 as if there were no answer. Over
// HTTP/1 it resets the connection where that ends with the answer, as nginx asks for unless it
// is told otherwise and makes a 502 of, and where more is left than net/http reads: its half
// second is too short for a busy client. Who waits to be asked for a body is not asked now.
func (a *watch) restOfBody(r *http.Request) io.Reader {
	const readAnyway = 256 << 10
	switch {
	case a == nil:
	case a.body != nil && !a.body.whole.Load():
		return a.body
	case a.paced != nil && (a.paced.begun.Load() || r.Header.Get("Expect") == "") &&
		(r.Close || r.ContentLength < 0 || r.ContentLength > readAnyway):
		return a.paced
	}
	return nil
}

// broken reports whether the connection is of no use for another request.
func (a *watch) broken() bool { return a != nil && a.paced != nil && a.paced.broken.Load() }

// endHandling is called when the handler has returned, and net/http has yet to send
// what is left of the answer and to read what is left of the body.
func (a *watch) endHandling() {
	if a.paced != nil {
		a.paced.read.ExtendDeadline() // for what net/http reads when the handler does not
		a.paced.read.End()
	}
	if a.body != nil {
		a.body.read.endWatch()
	}
	if a.write != nil && a.write.endWatch() {
		_ = a.ctl.SetWriteDeadline(time.Now().Add(a.stall)) // net/http always can
	}
}
