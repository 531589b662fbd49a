package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/listen"
)

// webServer serves HTTP on one listener, with a bound on all that a client can
// stretch.
type webServer struct {
	srv *http.Server
	ln  net.Listener
	// ending: the listener was closed on purpose. served is closed when nobody is
	// accepted any more.
	ending atomic.Bool
	served chan struct{}
}

// maxWebConnections bounds the connections of one listener.
const maxWebConnections = 4096

// paths serves by whole paths. One that is not in its shortest form is sent there
// with 301 and nothing else, as by the router of the original.
type paths map[string]http.Handler

// ServeHTTP implements http.Handler.
func (p paths) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if short := shortest(r.URL.Path); short != r.URL.Path {
		to := *r.URL
		to.Path = short
		w.Header().Set("Location", to.String())
		w.WriteHeader(http.StatusMovedPermanently)
		return
	}
	if h := p[r.URL.Path]; h != nil {
		h.ServeHTTP(w, r)
		return
	}
	http.NotFound(w, r)
}

// shortest returns a path without empty and dot elements; a slash at its end stays.
func shortest(p string) string {
	short := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && short != "/" {
		short += "/"
	}
	return short
}

// newWebServer returns a server of at most so many connections.
func newWebServer(h http.Handler, ln net.Listener, most int64, log *slog.Logger) *webServer {
	const idleTimeout = 5 * time.Minute
	return &webServer{ln: listen.Stall(listen.Limit(ln, listen.Limits{Max: most, Log: log}), time.Minute), served: make(chan struct{}), srv: &http.Server{
		Handler:           listen.Guard(h),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ConnContext:       listen.ConnContext,
		// Else a request under way would make room for a new connection.
		ConnState: func(c net.Conn, state http.ConnState) { listen.TrackState(c, state, idleTimeout) },
	}}
}

// serve answers until end; that the listener failed is told to failed.
func (w *webServer) serve(failed chan<- error) {
	defer close(w.served)
	if err := w.srv.Serve(w.ln); !w.ending.Load() {
		failed <- fmt.Errorf("listener %s: %w", w.ln.Addr(), err)
	}
}

// end answers what is under way, for a while, and closes everything. serve must
// have been called.
func (w *webServer) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainFor)
	defer cancel()
	w.ending.Store(true)
	// First, and alone: Shutdown would hold a lock that whoever is let in at the
	// last moment waits for.
	lnErr := w.ln.Close()
	<-w.served
	if errors.Is(lnErr, net.ErrClosed) {
		lnErr = nil // it had failed
	}
	err := w.srv.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("listener %s: requests cut after %s", w.ln.Addr(), drainFor), w.srv.Close())
	}
	return errors.Join(err, lnErr)
}
