package listen

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// connKey is the key of a connection in the contexts of its requests.
type connKey struct{}

// ConnContext is an http.Server's: it lets Guard know the connection of a request.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// GuardEvicted returns a handler that carries out no request of a connection that was closed
// for another: its answer could not be sent, and a client may send the request again.
// Over HTTP/2 the client is informed first.
func GuardEvicted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(net.Conn); ok && isEvicted(c) {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
}

// isEvicted reports whether c was closed for another, once its client is informed.
func isEvicted(c net.Conn) (evicted bool) {
	eachSlot(c, func(s *slotConn) {
		if s.idle.Load() < 0 {
			evicted = true
			if f := s.onEvict.Load(); f != nil {
				(*f)()
			}
		}
	})
	return evicted
}

// isHTTP2 reports whether c speaks HTTP/2. Its handshake is over.
func isHTTP2(c net.Conn) bool {
	if t, ok := c.(*tls.Conn); ok {
		return t.ConnectionState().NegotiatedProtocol == "h2"
	}
	http2 := false
	eachSlot(c, func(s *slotConn) { http2 = http2 || s.preface.Load() == isPreface })
	return http2
}

// goAwayFrame is a GOAWAY frame (RFC 9113 §6.8) that says that no stream is under way
// and that those that the client has begun were not carried out.
var goAwayFrame = []byte{0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

const (
	// evictTimeout is how long a client may take to receive goAwayFrame.
	evictTimeout = time.Second
	// lingerTime is how long the connection then stays open: a client that writes a
	// request on a closed one does not read why.
	lingerTime = 100 * time.Millisecond
)

// goAway informs the client of an idle HTTP/2 connection that it is closed for another.
// Nothing is written on it meanwhile but whole frames.
func goAway(c net.Conn) {
	_ = c.SetWriteDeadline(time.Now().Add(evictTimeout)) // fails on a closed connection, as the write then does
	if _, err := c.Write(goAwayFrame); err == nil {      // a client that is gone needs no information
		time.Sleep(lingerTime)
	}
}

// TrackState is SetIdle by an http.Server's ConnState. The client of an HTTP/2
// connection is informed when it is closed for another, and it is so only when its last
// answer is written. A connection that was upgraded is closed when nothing has moved on it for upgraded, zero for no bound.
func TrackState(c net.Conn, state http.ConnState, upgraded time.Duration) {
	switch state {
	case http.StateActive:
		SetIdle(c, false)
	case http.StateIdle:
		if isHTTP2(c) {
			eachSlot(c, func(s *slotConn) {
				s.unflushed.Store(true)
				if s.onEvict.Load() == nil {
					f := sync.OnceFunc(func() { goAway(c) })
					s.onEvict.Store(&f)
				}
			})
		}
		SetIdle(c, true)
	case http.StateHijacked:
		eachSlot(c, func(s *slotConn) { s.upgrade(upgraded) })
	}
}
