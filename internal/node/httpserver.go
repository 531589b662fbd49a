package node

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/certfile"
	"github.com/weirlimit/weir/internal/config"
	"github.com/weirlimit/weir/internal/listen"
)

// httpServer answers HTTP/1.1 and HTTP/2 on one listener, and ends without
// dropping a request.
type httpServer struct {
	srv   *http.Server
	drain config.Drain
	// cert is nil for a listener without encryption.
	cert *certfile.Certificate
	// linger is how long an idle connection is left open when the server
	// drains, for a request that may be on its way.
	linger time.Duration
	// stall is how long nothing of a body or of an answer may move, zero for no
	// bound.
	stall time.Duration

	// draining asks every connection to end after its next answer.
	draining atomic.Bool
	conns    counter
	// rests counts bodies whose rest is read, see readRest.
	rests atomic.Int32
	// upgrades counts connections that speak another protocol by now.
	upgrades counter
	// cutUpgrades ends the contexts of all requests, and with them what upgraded
	// connections are used for.
	cutUpgrades context.CancelFunc
	log         *slog.Logger
}

// newHTTPServer returns a server with a bound on everything that a client can
// stretch.
func newHTTPServer(h http.Handler, conf config.HTTP, cert *certfile.Certificate, drain config.Drain, log *slog.Logger) *httpServer {
	s := &httpServer{drain: drain, cert: cert, linger: time.Second, stall: conf.StallTimeout, log: log}
	base, cut := context.WithCancel(context.Background())
	s.cutUpgrades = cut
	s.srv = &http.Server{
		Handler:           listen.GuardEvicted(s.closing(h)),
		ReadHeaderTimeout: conf.ReadHeaderTimeout,
		ReadTimeout:       conf.ReadTimeout,
		WriteTimeout:      writeTimeout(conf),
		IdleTimeout:       conf.IdleTimeout,
		MaxHeaderBytes:    int(conf.MaxHeaderBytes),
		ConnState:         s.track,
		ConnContext:       listen.ConnContext,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		Protocols:         new(http.Protocols),
		// Else net/http answers OPTIONS * itself, whatever the handler says.
		DisableGeneralOptionsHandler: true,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: int(conf.MaxStreams),
			MaxReadFrameSize:     1 << 16,
			// What a connection can make this process hold that nobody reads, all
			// its streams together.
			MaxReceiveBufferPerConnection: 256 << 10,
			MaxReceiveBufferPerStream:     256 << 10,
		},
	}
	s.srv.Protocols.SetHTTP1(true)
	s.srv.Protocols.SetHTTP2(true)
	s.srv.Protocols.SetUnencryptedHTTP2(true)
	return s
}

// newOperatorServer returns a server for operators, with the bounds of conf but for those
// on time: profiles take as long as they are asked to. Nobody's request waits for an
// operator's connection.
func newOperatorServer(h http.Handler, conf config.HTTP, cert *certfile.Certificate, drain time.Duration, log *slog.Logger) *httpServer {
	conf.ReadTimeout, conf.WriteTimeout = time.Minute, 0
	s := newHTTPServer(h, conf, cert, config.Drain{Timeout: drain}, log)
	s.linger = 0
	return s
}

// noTimeout is a timeout that nobody lives to see.
const noTimeout = 10 * 365 * 24 * time.Hour

// writeTimeout returns that of the http.Server, which is never without one where a
// watch sets deadlines: net/http (Go 1.26) ends the timer of a stream with the
// stream, but where there was none it makes one even for a stream that has ended
// meanwhile, and keeps both until the deadline. Who resets stream after stream would
// pile them up.
func writeTimeout(conf config.HTTP) time.Duration {
	if conf.WriteTimeout == 0 && conf.StallTimeout > 0 {
		return noTimeout
	}
	return conf.WriteTimeout
}

// closing tells clients of a draining server, with their answer, that the
// connection ends: the one way to close a kept-alive connection without a race
// against its next request.
func (s *httpServer) closing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &lastAnswer{ResponseWriter: w, s: s}
		a.watch, r = newWatch(w, r, s.stall, s.srv.ReadTimeout)
		defer a.endAnswer()
		next.ServeHTTP(a, r)
		s.readRest(a, r)
		if a.watch.broken() && !a.ends && !a.hijacked {
			// The answer has not said that it is the last, but it is.
			_ = a.FlushError() // the connection is closed in any case
			panic(http.ErrAbortHandler)
		}
	})
}

// What is read and dropped of the body of a request that was refused, so that its sender
// hears the answer.
const (
	maxRest     = 8 << 20
	restTime    = 2 * time.Second
	maxRestsNow = 256 // at a time, on all connections
)

// readRest reads the rest of the body of a request that was refused.
func (s *httpServer) readRest(a *lastAnswer, r *http.Request) {
	body := a.watch.restOfBody(r)
	if a.status < 400 || body == nil {
		return
	}
	defer s.rests.Add(-1)
	if s.rests.Add(1) > maxRestsNow || a.FlushError() != nil || a.SetReadDeadline(time.Now().Add(restTime)) != nil {
		return
	}
	// What goes wrong here goes wrong for net/http again, which tells nobody.
	_, _ = io.CopyN(io.Discard, body, maxRest)
}

// lastAnswer is an answer that, if the server drains by the time it begins, is
// the last on its connection.
type lastAnswer struct {
	http.ResponseWriter
	s        *httpServer
	begun    bool
	status   int // once begun
	hijacked bool
	// ends: the answer says that it is the last.
	ends bool
	// watch is nil where there is nothing to watch.
	watch *watch
}

// Unwrap serves http.ResponseController.
func (a *lastAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *lastAnswer) beginAnswer(status int) {
	// An upgraded connection says something else in this field, and has no next
	// request; an answer before the answer changes nothing.
	if a.begun || status < 200 {
		return
	}
	a.begun, a.status = true, status
	if a.s.draining.Load() || a.watch.broken() {
		a.ends = true
		a.Header().Set("Connection", "close")
	}
}

// WriteHeader implements http.ResponseWriter.
func (a *lastAnswer) WriteHeader(status int) {
	a.beginAnswer(status)
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *lastAnswer) Write(b []byte) (int, error) {
	a.beginAnswer(http.StatusOK)
	if a.watch != nil && a.watch.write != nil {
		a.watch.write.beginWait()
		defer a.watch.write.endWait()
	}
	return a.ResponseWriter.Write(b)
}

// FlushError serves http.ResponseController.
func (a *lastAnswer) FlushError() error {
	a.beginAnswer(http.StatusOK)
	if a.watch != nil && a.watch.write != nil {
		a.watch.write.beginWait()
		defer a.watch.write.endWait()
	}
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (a *lastAnswer) Flush() { _ = a.FlushError() } // as net/http's own does

// SetReadDeadline serves http.ResponseController.
func (a *lastAnswer) SetReadDeadline(t time.Time) error {
	if a.watch != nil && a.watch.paced != nil {
		return a.watch.paced.read.SetLastDeadline(t)
	}
	return http.NewResponseController(a.ResponseWriter).SetReadDeadline(t)
}

// Hijack implements http.Hijacker.
func (a *lastAnswer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(a.ResponseWriter).Hijack()
	if err == nil && !a.hijacked {
		a.hijacked = true
		a.s.upgrades.changeBy(1)
	}
	return conn, rw, err
}

// endAnswer is called when the handler has returned, also if it panicked.
func (a *lastAnswer) endAnswer() {
	if a.watch != nil {
		a.watch.endHandling()
	}
	if a.hijacked {
		a.s.upgrades.changeBy(-1)
	} else if !a.begun {
		a.beginAnswer(http.StatusOK) // net/http answers for a handler that did not
	}
}

// Serve answers on ln until ctx ends, then drains. It returns nil when every
// request was answered.
func (s *httpServer) Serve(ctx context.Context, ln net.Listener) error {
	ln = listen.Stall(ln, s.stall)
	if s.cert != nil {
		ln = tls.NewListener(ln, s.cert.Config())
	}
	ended, err := listen.Serve(ctx, ln, s.srv.Serve, func() {
		s.draining.Store(true)
		time.Sleep(s.drain.Delay)
	})
	if ended {
		return err
	}
	return errors.Join(s.endConnections(), err)
}

// endConnections waits for what is under way on connections, and cuts off what takes too long.
func (s *httpServer) endConnections() error {
	idle, cancelIdle := context.WithTimeout(context.Background(), min(s.linger, s.drain.Timeout))
	defer cancelIdle()
	s.conns.waitUntilNone(idle)
	rest, cancel := context.WithTimeout(context.Background(), s.drain.Timeout)
	defer cancel()
	err := s.srv.Shutdown(rest)
	n := s.conns.count()
	s.endUpgrades(rest)
	if err != nil {
		closeErr := s.srv.Close()
		return errors.Join(fmt.Errorf("drain: %d connections cut after %s: raise --drain-timeout to wait longer", n, s.drain.Timeout), closeErr)
	}
	return nil
}

// endUpgrades waits until ctx ends for upgraded connections, and then cuts them:
// most end only when somebody ends them.
func (s *httpServer) endUpgrades(ctx context.Context) {
	s.upgrades.waitUntilNone(ctx)
	if n := s.upgrades.count(); n > 0 {
		s.log.Info("closing upgraded connections", "count", n)
	}
	s.cutUpgrades()
	// Their handlers give back what they hold.
	const letGo = time.Second
	after, stop := context.WithTimeout(context.Background(), letGo)
	defer stop()
	s.upgrades.waitUntilNone(after)
}

// track is an http.Server's ConnState.
func (s *httpServer) track(c net.Conn, state http.ConnState) {
	listen.TrackState(c, state, s.srv.IdleTimeout)
	switch state {
	case http.StateNew:
		s.conns.changeBy(1)
	case http.StateClosed, http.StateHijacked:
		s.conns.changeBy(-1)
	}
}

// counter counts what is under way. Safe for concurrent use, but for one wait
// at a time.
type counter struct {
	mu sync.Mutex
	n  int
	// none is closed, if there is one, when nothing is left.
	none chan struct{}
}

func (c *counter) changeBy(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += n
	if c.n == 0 && c.none != nil {
		close(c.none)
		c.none = nil
	}
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// waitUntilNone returns when nothing is under way, or when ctx ends.
func (c *counter) waitUntilNone(ctx context.Context) {
	c.mu.Lock()
	if c.n == 0 {
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
