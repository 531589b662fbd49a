package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// httpServer answers HTTP/1.1 and HTTP/2 on one listener, and ends without
// dropping a request.
type httpServer struct {
	srv   *http.Server
	drain Drain
	// cert is nil for a listener without encryption.
	cert *certificate
	// linger is how long an idle connection is left open when the server
	// drains, for a request that may be on its way.
	linger time.Duration

	// draining asks every connection to end after its next answer.
	draining atomic.Bool
	conns    connCounter
}

// newHTTPServer returns a server with a bound on everything that a client can
// stretch.
func newHTTPServer(h http.Handler, conf HTTP, cert *certificate, drain Drain, log *slog.Logger) *httpServer {
	s := &httpServer{drain: drain, cert: cert, linger: time.Second}
	s.srv = &http.Server{
		Handler:           s.closing(h),
		ReadHeaderTimeout: conf.ReadHeaderTimeout,
		ReadTimeout:       conf.ReadTimeout,
		WriteTimeout:      conf.WriteTimeout,
		IdleTimeout:       conf.IdleTimeout,
		MaxHeaderBytes:    int(conf.MaxHeaderBytes),
		ConnState:         s.conns.track,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		Protocols:         new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 250,
			MaxReadFrameSize:     1 << 16,
		},
	}
	s.srv.Protocols.SetHTTP1(true)
	s.srv.Protocols.SetHTTP2(true)
	s.srv.Protocols.SetUnencryptedHTTP2(true)
	return s
}

// closing tells clients of a draining server, with their answer, that the
// connection ends: the one way to close a kept-alive connection without a race
// against its next request.
func (s *httpServer) closing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// An upgraded connection says something else in this field, and has no
		// next request.
		if s.draining.Load() && r.Header.Get("Upgrade") == "" {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// Serve answers on ln until ctx ends, then drains. It returns nil when every
// request was answered.
func (s *httpServer) Serve(ctx context.Context, ln net.Listener) error {
	if s.cert != nil {
		ln = tls.NewListener(ln, s.cert.config())
	}
	served := make(chan error, 1)
	go func() { served <- s.srv.Serve(ln) }()
	select {
	case err := <-served:
		return fmt.Errorf("listener %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	return s.end(ln, served)
}

func (s *httpServer) end(ln net.Listener, served <-chan error) error {
	s.draining.Store(true)
	time.Sleep(s.drain.Delay)
	// Close the listener alone: Shutdown would at the same time cut the idle
	// connections, and with them requests that have just been sent.
	lnErr := ln.Close()
	<-served
	idle, cancelIdle := context.WithTimeout(context.Background(), min(s.linger, s.drain.Timeout))
	defer cancelIdle()
	s.conns.wait(idle)
	rest, cancel := context.WithTimeout(context.Background(), s.drain.Timeout)
	defer cancel()
	if err := s.srv.Shutdown(rest); err != nil {
		n := s.conns.count()
		closeErr := s.srv.Close()
		return errors.Join(fmt.Errorf("drain: %d connections cut after %s: raise --drain-timeout to wait longer", n, s.drain.Timeout), closeErr)
	}
	if errors.Is(lnErr, net.ErrClosed) {
		return nil
	}
	return lnErr
}

// connCounter counts open connections.
type connCounter struct {
	mu   sync.Mutex
	open int
	// none is closed, if there is one, when the last connection ends.
	none chan struct{}
}

// track is an http.Server's ConnState.
func (c *connCounter) track(_ net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.open++
	case http.StateClosed, http.StateHijacked:
		c.open--
		if c.open == 0 && c.none != nil {
			close(c.none)
			c.none = nil
		}
	}
}

func (c *connCounter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// wait returns when no connection is open, or when ctx ends.
func (c *connCounter) wait(ctx context.Context) {
	c.mu.Lock()
	if c.open == 0 {
		c.mu.Unlock()
		return
	}
	none := make(chan struct{})
	c.none = none
	c.mu.Unlock()
	select {
	case <-none:
	case <-ctx.Done():
	}
}
