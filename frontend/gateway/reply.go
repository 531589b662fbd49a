package gateway

import (
	"io"
	"net/http"
)

// reply is the answer to a client while it is written.
type reply struct {
	http.ResponseWriter
	// status is the final one, zero before it is written.
	status int
	// sent is how many bytes of the body went out.
	sent int64
	// upgraded is the upstream's end of a connection that changed its protocol.
	upgraded *upgraded
}

// end frees what the answer holds.
func (r *reply) end() {
	if r.upgraded != nil {
		r.upgraded.end()
	}
}

// Unwrap lets http.ResponseController find what the server can do.
func (r *reply) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (r *reply) WriteHeader(status int) {
	if final := status >= 200 || status == http.StatusSwitchingProtocols; final {
		r.status = status
		// Present and empty: net/http then does not guess a type for answers
		// that come without one. Here and no earlier, because ReverseProxy
		// clears the fields with every informational answer.
		h := r.Header()
		if _, ok := h["Content-Type"]; !ok {
			h["Content-Type"] = nil
		}
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *reply) Write(b []byte) (int, error) {
	n, err := r.ResponseWriter.Write(b)
	r.sent += int64(n)
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
