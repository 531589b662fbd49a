package httplimit

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/weirlimit/weir"
)

// recorder notes the status of an answer and how long its body is. What else
// the writer that it stands for can do is in the type that [recorder.writerLike]
// returns.
type recorder struct {
	http.ResponseWriter
	ctx    context.Context // of the request
	head   bool            // the request is a HEAD, whose body is not sent
	status int             // 0: not yet written
	sent   int64           // bytes
	broken bool            // the client does not take them any more
}

// Unwrap serves http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// noteStatus notes the final status; those before it, but for 101, are not answers. What is said
// to a client that has gone is none either: many handlers say 500 then.
func (w *recorder) noteStatus(status int) {
	if w.status != 0 || status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	if w.status = status; errors.Is(w.ctx.Err(), context.Canceled) {
		w.status = weir.ClientGone
	}
}

// countSent counts n of size bytes. Over HTTP/2 net/http does not say how much has gone out
// of what it could not send whole.
func (w *recorder) countSent(n, size int64, err error) {
	if err != nil {
		w.broken = true
		n = max(n, size)
	}
	if !w.head {
		w.sent += n
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) {
	w.noteStatus(status)
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(b []byte) (int, error) {
	w.noteStatus(http.StatusOK)
	n, err := w.ResponseWriter.Write(b)
	w.countSent(int64(n), int64(len(b)), err)
	return n, err
}

// WriteString implements io.StringWriter.
func (w *recorder) WriteString(s string) (int, error) {
	w.noteStatus(http.StatusOK)
	n, err := io.WriteString(w.ResponseWriter, s)
	w.countSent(int64(n), int64(len(s)), err)
	return n, err
}

type flusher struct{ *recorder }

// Flush implements http.Flusher.
func (w flusher) Flush() { _ = w.FlushError() } // as net/http's own does

// FlushError serves http.ResponseController.
func (w flusher) FlushError() error {
	w.noteStatus(http.StatusOK)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

type hijacker struct{ *recorder }

// Hijack implements http.Hijacker.
func (w hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil {
		w.noteStatus(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}

type readerFrom struct{ *recorder }

// ReadFrom implements io.ReaderFrom: net/http sends files without copying them.
func (w readerFrom) ReadFrom(src io.Reader) (int64, error) {
	w.noteStatus(http.StatusOK)
	n, err := w.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
	w.countSent(n, n, err)
	return n, err
}

// flushing is what http.ResponseWriters that can flush have.
type flushing interface {
	http.Flusher
	FlushError() error
}

// writerLike returns w as a writer that can do what the one that it stands for can, and
// no more: handlers ask by type assertion. net/http's writers are a Flusher,
// Hijacker and ReaderFrom (HTTP/1), or a Flusher and Pusher (HTTP/2).
func (w *recorder) writerLike(under http.ResponseWriter) http.ResponseWriter {
	_, canFlush := under.(http.Flusher)
	_, canHijack := under.(http.Hijacker)
	_, canRead := under.(io.ReaderFrom)
	push, canPush := under.(http.Pusher)
	f, h, r := flusher{w}, hijacker{w}, readerFrom{w}
	switch {
	case canFlush && canHijack && canRead:
		return struct {
			*recorder
			flushing
			http.Hijacker
			io.ReaderFrom
		}{w, f, h, r}
	case canFlush && canPush:
		return struct {
			*recorder
			flushing
			http.Pusher
		}{w, f, push}
	case canFlush && canHijack:
		return struct {
			*recorder
			flushing
			http.Hijacker
		}{w, f, h}
	case canFlush && canRead:
		return struct {
			*recorder
			flushing
			io.ReaderFrom
		}{w, f, r}
	case canHijack && canRead:
		return struct {
			*recorder
			http.Hijacker
			io.ReaderFrom
		}{w, h, r}
	case canFlush:
		return struct {
			*recorder
			flushing
		}{w, f}
	case canHijack:
		return struct {
			*recorder
			http.Hijacker
		}{w, h}
	case canRead:
		return struct {
			*recorder
			io.ReaderFrom
		}{w, r}
	case canPush:
		return struct {
			*recorder
			http.Pusher
		}{w, push}
	}
	return w
}
