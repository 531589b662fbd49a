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
	"time"

	"github.com/weirlimit/weir/internal/listen"
)

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

// proxyAdvice is for those whose load balancer sends what the original does not read either.
const proxyAdvice = "have the load balancer send no PROXY header: weir ratelimit reads none"

// serveWeb answers HTTP until ctx ends, and then what is under way, for a while, with a
// bound on all that a client can stretch. It returns nil when every request was answered.
func serveWeb(ctx context.Context, ln net.Listener, h http.Handler, writeTimeout time.Duration, log *slog.Logger) error {
	const idleTimeout = 5 * time.Minute
	srv := &http.Server{
		Handler:           listen.GuardEvicted(h),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ConnContext:       listen.ConnContext,
		// Else a request under way would make room for a new connection.
		ConnState: func(c net.Conn, state http.ConnState) { listen.TrackState(c, state, idleTimeout) },
	}
	ln = listen.Stall(listen.Limit(ln, listen.Limits{Max: maxWebConnections, ProxyAdvice: proxyAdvice, Log: log}), time.Minute)
	_, err := listen.Serve(ctx, ln, srv.Serve, func() {})
	rest, cancel := context.WithTimeout(context.Background(), drainFor)
	defer cancel()
	if srv.Shutdown(rest) != nil {
		err = errors.Join(err, fmt.Errorf("listener %s: requests cut after %s", ln.Addr(), drainFor), srv.Close())
	}
	return err
}
