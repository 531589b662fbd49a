package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/bodies"
)

// Sizes of bodies, in bytes.
const (
	maxSmallBody = 64 << 10
	maxBatchBody = 1 << 20
)

// call is what one request to the API needs; kept for reuse.
type call struct {
	body    []byte
	reader  reader
	out     []byte
	entries []weir.Entry
	query   query
	share   bodies.Share
}

var calls = sync.Pool{New: func() any { return &call{body: make([]byte, 0, 1024)} }}

// batchCalls are those that have grown large: batches are answered in several
// times the bytes in which they ask, and to grow into them each time cost as much
// as the decisions. Who takes one takes its size from the budget of bodies, so that
// a flood of batches leaves no more behind than the budget has.
var batchCalls = sync.Pool{New: func() any { return new(call) }}

// Bounds on what is kept, in bytes.
const (
	keepSmall = 2 * maxSmallBody
	keepBatch = 4 * maxBatchBody
)

// callFor returns a call for r, whose body may have so many bytes.
func callFor(r *http.Request, most int) *call {
	if most > maxSmallBody && r.ContentLength > maxSmallBody/4 {
		return batchCalls.Get().(*call)
	}
	return calls.Get().(*call)
}

// bufferBytes returns how many bytes the buffers of c take.
func (c *call) bufferBytes() int {
	const entry = 32 // bytes
	return cap(c.body) + cap(c.reader.unescaped) + cap(c.out) + entry*cap(c.entries)
}

// release gives c back unless it has grown too large.
func (c *call) release() {
	c.share.End()
	clear(c.entries)
	switch size := c.bufferBytes(); {
	case size <= keepSmall:
		calls.Put(c)
	case size <= keepBatch:
		batchCalls.Put(c)
	}
}

// readBody reads the body, of so many bytes at most, into c and makes c.reader ready for it.
// An error is a [problem], or [bodies.ErrNoRoom] where budget has no room for the body.
func (c *call) readBody(w http.ResponseWriter, r *http.Request, most int, budget *bodies.Budget, timeout time.Duration) error {
	if r.ContentLength > int64(most) {
		return tooLarge(w, r, most)
	}
	// Not every server has deadlines to set; those that do not bound the time
	// a body takes by other means.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout))
	c.share = budget.Share()
	if !c.share.Grow(c.bufferBytes()) {
		*c = call{body: make([]byte, 0, 1024), share: c.share}
	}
	b := c.body[:0]
	for {
		if len(b) == cap(b) {
			// Growing keeps the old buffer until it is copied. What is read is
			// answered in about as many bytes.
			if !c.share.Grow(max(c.bufferBytes(), 3*cap(b))) {
				dropBody(w, r)
				budget.Refuse()
				return bodies.ErrNoRoom
			}
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Body.Read(b[len(b):min(cap(b), most+1)])
		b = b[:len(b)+n]
		c.body = b
		switch {
		case len(b) > most:
			return tooLarge(w, r, most)
		case err == io.EOF && r.URL.RawQuery != "":
			return &inputError{"the path takes none; write what you ask into the body", "?query"}
		case err == io.EOF:
			c.reader.reset(b)
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return &problem{Status: http.StatusRequestTimeout, Detail: "the body did not arrive in time"}
		case err != nil:
			return &problem{Status: http.StatusBadRequest, Detail: "the body did not arrive in full"}
		}
	}
}

// dropBody makes the answer one that is sent without waiting for the rest of the body:
// over HTTP/1 net/http waits for up to 256 KiB of it unless the connection ends. Over
// HTTP/2 nothing waits, and other streams of the connection go on.
func dropBody(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor < 2 {
		w.Header().Set("Connection", "close")
	}
}

func tooLarge(w http.ResponseWriter, r *http.Request, most int) error {
	dropBody(w, r)
	return &problem{
		Status: http.StatusRequestEntityTooLarge,
		Detail: fmt.Sprintf("the body may have at most %d bytes", most),
		Errors: []answer.FieldError{{Detail: "too large", Pointer: "#"}},
	}
}
