package gateway

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// reply is the answer to a client while it is written.
type reply struct {
	http.ResponseWriter
	trip *trip
	// sent is how many bytes of the body went out; those of an upgraded
	// connection are counted while they pass.
	sent atomic.Int64
	// writing: the client has not taken yet what is sent; broken: it will not, or had not
	// when time was up.
	writing, broken atomic.Bool
	// upgraded is the upstream's end of a connection that changed its protocol,
	// onUpgrade is called then. Both may be nil.
	upgraded  *upgraded
	onUpgrade func()
	// body is the request's, nil over HTTP/2 and where there is none.
	body *consumed
	// incoming is the request's body, nil where there is none.
	incoming *incoming
	status   int // once it is begun
}

// upgrade notes that the connection speaks another protocol with the upstream
// from here on.
func (r *reply) upgrade(upstream io.ReadWriteCloser, halfClosed time.Duration) io.ReadWriteCloser {
	if r.onUpgrade != nil {
		r.onUpgrade()
	}
	r.upgraded = &upgraded{ReadWriteCloser: upstream, halfClosed: halfClosed, sent: &r.sent}
	return r.upgraded
}

// endUpgrade frees what the answer holds.
func (r *reply) endUpgrade() {
	if r.upgraded != nil {
		r.upgraded.stopTimer()
	}
}

// Unwrap lets http.ResponseController find what the server can do.
func (r *reply) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (r *reply) WriteHeader(status int) {
	if final := status >= 200 || status == http.StatusSwitchingProtocols; final {
		// Present and empty: net/http then does not guess a type for answers
		// that come without one. Here and no earlier, because ReverseProxy
		// clears the fields with every informational answer.
		h := r.Header()
		r.status = status
		if status != http.StatusSwitchingProtocols { // see addDecision
			r.trip.writeFields(h)
		}
		if _, ok := h["Content-Type"]; !ok {
			h["Content-Type"] = nil
		}
		if r.body != nil && status != http.StatusSwitchingProtocols && r.body.endsConnection() {
			h.Set("Connection", "close")
		}
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *reply) Write(b []byte) (int, error) {
	r.writing.Store(true)
	n, err := r.ResponseWriter.Write(b)
	sent := n
	if r.writing.Store(false); err != nil {
		r.broken.Store(true)
		sent = len(b) // net/http does not say over HTTP/2 how much of it has gone out
	}
	r.sent.Add(int64(sent))
	return n, err
}

// trailed is a request's body on its way to the upstream, which hands on what
// trails it: ReverseProxy forwards the names of trailers alone.
type trailed struct {
	io.ReadCloser
	from, to http.Header
}

// Read implements io.Reader.
func (b *trailed) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		for key := range b.to {
			b.to[key] = b.from[key]
		}
	}
	return n, err
}
