package gateway

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// upgraded is a connection that speaks another protocol after its request, a
// WebSocket for one: bytes that pass both ways until both ends have closed. An
// end that does not close after the other has is given halfClosed, lest it hold
// its place for ever.
type upgraded struct {
	io.ReadWriteCloser // the upstream
	halfClosed         time.Duration
	sent               *atomic.Int64 // bytes that the upstream has said

	mu     sync.Mutex
	client net.Conn // nil until it is taken from the server
	timer  *time.Timer
	ended  bool
}

// Read implements io.Reader, of what the upstream says.
func (u *upgraded) Read(p []byte) (int, error) {
	n, err := u.ReadWriteCloser.Read(p)
	u.sent.Add(int64(n))
	if err != nil {
		u.halfEnded()
	}
	return n, err
}

// CloseWrite tells the upstream that the client has said all.
func (u *upgraded) CloseWrite() error {
	u.halfEnded()
	if w, ok := u.ReadWriteCloser.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return http.ErrNotSupported
}

// halfEnded gives the other half its time.
func (u *upgraded) halfEnded() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.timer == nil && !u.ended {
		u.timer = time.AfterFunc(u.halfClosed, u.closeBothEnds)
	}
}

// closeBothEnds closes both ends; whoever copies between them then ends.
func (u *upgraded) closeBothEnds() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ReadWriteCloser.Close()
	if u.client != nil {
		u.client.Close()
	}
}

// stopTimer stops the timer when all is over.
func (u *upgraded) stopTimer() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
	if u.timer != nil {
		u.timer.Stop()
	}
}

// Hijack implements http.Hijacker.
func (r *reply) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if u := r.upgraded; err == nil && u != nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.client = conn
	}
	return conn, rw, err
}
