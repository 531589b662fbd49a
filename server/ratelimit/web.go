package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/weirlimit/weir/internal/listen"
)

// webServer serves HTTP on one listener, with a bound on all that a client can
// stretch.
type webServer struct {
	srv *http.Server
	ln  net.Listener
}

// maxWebConnections bounds the connections of one listener.
const maxWebConnections = 16_384

func newWebServer(h http.Handler, ln net.Listener, log *slog.Logger) *webServer {
	return &webServer{ln: listen.Stall(listen.Limit(ln, maxWebConnections), time.Minute), srv: &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       5 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}
}

// serve answers until end; that the listener failed is told to failed.
func (w *webServer) serve(failed chan<- error) {
	if err := w.srv.Serve(w.ln); !errors.Is(err, http.ErrServerClosed) {
		failed <- fmt.Errorf("listener %s: %w", w.ln.Addr(), err)
	}
}

// end answers what is under way, for a while, and closes everything.
func (w *webServer) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainFor)
	defer cancel()
	err := w.srv.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("listener %s: requests cut after %s", w.ln.Addr(), drainFor), w.srv.Close())
	}
	return err
}
