package httplimit

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/admit"
)

// watchBody finishes c when the body of res has come to its end. Where nothing is
// left to do then, it does so at once and leaves res as it is.
func watchBody(c *admit.Outgoing, ctx context.Context, res *http.Response) {
	w := &watched{ReadCloser: res.Body, c: c, ctx: ctx, res: res}
	if res.Body == nil || res.Body == http.NoBody || !c.NeedsFinish() {
		w.finishRequest(true)
		return
	}
	res.Body = w
	if conn, ok := w.ReadCloser.(io.ReadWriteCloser); ok {
		res.Body = &connection{watched: w, ReadWriteCloser: conn}
	}
}

// watched is the body of an answer whose request is not over.
type watched struct {
	io.ReadCloser
	c    *admit.Outgoing
	ctx  context.Context
	res  *http.Response
	read atomic.Int64 // bytes
	once sync.Once
}

// Read implements io.Reader.
func (w *watched) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	w.read.Add(int64(n))
	if err != nil {
		w.finishRequest(err == io.EOF)
	}
	return n, err
}

// Close implements io.Closer.
func (w *watched) Close() error {
	defer w.finishRequest(false)
	return w.ReadCloser.Close()
}

// finishRequest ends the request, once. Trailers are there, and at rest, at the body's
// end alone.
func (w *watched) finishRequest(end bool) {
	w.once.Do(func() {
		w.c.Finish(w.ctx, weir.Result{Code: w.res.StatusCode, Bytes: w.read.Load(), Number: func(field string) (int64, bool) {
			n, ok := parseNumber(w.res.Header.Get(field))
			if !ok && end {
				n, ok = parseNumber(w.res.Trailer.Get(field))
			}
			return n, ok
		}})
	})
}

// connection is the body of an answer of 101, which is over when it is closed.
type connection struct {
	*watched
	io.ReadWriteCloser
}

// Read implements io.Reader.
func (c *connection) Read(b []byte) (int, error) {
	n, err := c.ReadWriteCloser.Read(b)
	c.read.Add(int64(n))
	return n, err
}

// Close implements io.Closer.
func (c *connection) Close() error { return c.watched.Close() }

// CloseWrite ends what is sent, as httputil.ReverseProxy wants to.
func (c *connection) CloseWrite() error {
	if w, ok := c.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return fmt.Errorf("httplimit: the connection cannot be closed one way: %w", http.ErrNotSupported)
}
