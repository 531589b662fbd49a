// Package gateway is a reverse proxy with a limit in front: it forwards what
// the limiter allows, and answers the rest 429.
//
// Who the client is, is told by the TCP connection alone: headers that name
// another address are not believed.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
)

// Options configures a [Gateway].
type Options struct {
	// Upstream is where allowed requests go: http, https, or h2c for HTTP/2
	// without encryption, a host, and a path that is put before the request's.
	// Required.
	Upstream *url.URL
	// Limiter decides. Required.
	Limiter *weir.Limiter
	// Domain is the domain that is asked. Zero means "api".
	Domain string
	// Answer writes the header fields. Nil means answer.New with its defaults.
	Answer *answer.Writer
	// MaxDelay is the longest that a request is held back for a limit that
	// delays; one that would have to wait longer is refused. Zero means ten
	// seconds.
	MaxDelay time.Duration
	// MaxWaiting is how many requests may be held back at a time; those above
	// it are refused. Zero means 1024.
	MaxWaiting int
	// HalfClosed is how long one direction of an upgraded connection, such as a
	// WebSocket, may outlive the other. Zero means ten seconds.
	HalfClosed time.Duration
	// Transport reaches the upstream. Nil means a clone of
	// http.DefaultTransport that keeps 256 idle connections to the upstream and
	// asks no proxy.
	Transport http.RoundTripper
	// Log is told of upstream and store errors, at most one a second. Nil
	// means nobody.
	Log *slog.Logger
}

// Gateway is the reverse proxy, an http.Handler. Safe for concurrent use.
type Gateway struct {
	opt     Options
	limiter *weir.Limiter
	answer  *answer.Writer
	proxy   *httputil.ReverseProxy
	visits  sync.Pool
	waiting atomic.Int64
	lastLog atomic.Int64 // when, in seconds since the Unix epoch
}

// New returns a gateway. It returns an error when a required option is missing
// or one is out of range.
func New(opt Options) (*Gateway, error) {
	switch u := opt.Upstream; {
	case u == nil:
		return nil, errors.New("gateway: no upstream: set Options.Upstream")
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c" || u.Host == "":
		return nil, fmt.Errorf("gateway: upstream %q must be an http, https or h2c URL with a host, such as http://127.0.0.1:3000", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, fmt.Errorf("gateway: upstream %q must not have a query, a fragment or a user", u.Redacted())
	case opt.Limiter == nil:
		return nil, errors.New("gateway: no limiter: set Options.Limiter")
	case opt.MaxDelay < 0 || opt.MaxWaiting < 0 || opt.HalfClosed < 0:
		return nil, errors.New("gateway: max delay, max waiting and half closed must not be negative")
	}
	if opt.Domain == "" {
		opt.Domain = "api"
	}
	if opt.MaxDelay == 0 {
		opt.MaxDelay = 10 * time.Second
	}
	if opt.HalfClosed == 0 {
		opt.HalfClosed = 10 * time.Second
	}
	if opt.MaxWaiting == 0 {
		opt.MaxWaiting = 1024
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Answer == nil {
		w, err := answer.New(answer.Options{})
		if err != nil {
			return nil, err
		}
		opt.Answer = w
	}
	if opt.Transport == nil {
		opt.Transport = newTransport(opt.Upstream.Scheme)
	}
	g := &Gateway{opt: opt, limiter: opt.Limiter, answer: opt.Answer}
	g.visits.New = func() any { return new(visit) }
	g.proxy = &httputil.ReverseProxy{
		Rewrite:        g.rewrite,
		Transport:      opt.Transport,
		BufferPool:     &buffers{},
		ModifyResponse: g.modify,
		ErrorHandler:   g.upstreamFailed,
		ErrorLog:       slog.NewLogLogger(opt.Log.Handler(), slog.LevelWarn),
	}
	return g, nil
}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if path := rawPath(r); r.Method == http.MethodConnect || path[0] != '/' {
		answer.Problem{Status: http.StatusBadRequest, Detail: "the gateway forwards paths: neither tunnels nor *"}.Write(w)
		return
	}
	v := g.visits.Get().(*visit)
	v.begin(g, r)
	defer v.end()
	d, err := g.limiter.Decide(r.Context(), v.req)
	if err != nil {
		g.log("no decision", err)
		answer.Problem{
			Status: http.StatusServiceUnavailable, Detail: "the limiter's store did not answer", RetryAfter: 1,
		}.Write(w)
		return
	}
	v.decision, v.now = d, time.Now().UnixMicro()
	if !d.Allowed() {
		g.answer.Refuse(w, answer.OverLimit, v.req.Ops(), d, v.now)
		return
	}
	defer v.hold()()
	if delay := v.req.Delay(); delay > 0 && !g.wait(w, r, v, delay) {
		return
	}
	// The upstream may begin its answer while the client still sends; over
	// HTTP/1 net/http would then swallow the rest of what is sent. HTTP/2 does
	// not know the setting and does not need it.
	_ = http.NewResponseController(w).EnableFullDuplex()
	v.reply = &reply{ResponseWriter: w}
	defer v.reply.end()
	g.proxy.ServeHTTP(v.reply, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
}

// wait holds the request back. When it returns false the request is answered,
// or the client has gone, and what was charged has been given back.
func (g *Gateway) wait(w http.ResponseWriter, r *http.Request, v *visit, delay time.Duration) bool {
	defer g.waiting.Add(-1)
	if g.waiting.Add(1) > int64(g.opt.MaxWaiting) || delay > g.opt.MaxDelay {
		v.cancel()
		d := v.decision
		d.RetryAfter = max(delay-g.opt.MaxDelay, time.Second)
		g.answer.Refuse(w, answer.OverLimit, v.req.Ops(), d, v.now)
		return false
	}
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		v.cancel()
		return false
	}
}

type visitKey struct{}

// modify adds the decision to the upstream's answer.
func (g *Gateway) modify(res *http.Response) error {
	if v, ok := res.Request.Context().Value(visitKey{}).(*visit); ok {
		g.answer.Header(res.Header, v.req.Ops(), v.decision, v.now)
		if rw, ok := res.Body.(io.ReadWriteCloser); ok && res.StatusCode == http.StatusSwitchingProtocols {
			v.reply.upgraded = &upgraded{ReadWriteCloser: rw, halfClosed: g.opt.HalfClosed}
			res.Body = v.reply.upgraded
		}
	}
	// Over HTTP/2 an answer may state its length and have trailers, over
	// HTTP/1.1 trailers need chunks.
	if len(res.Trailer) > 0 && res.Request.ProtoMajor == 1 {
		res.Header.Del("Content-Length")
	}
	return nil
}

func (g *Gateway) upstreamFailed(w http.ResponseWriter, r *http.Request, err error) {
	if v, ok := r.Context().Value(visitKey{}).(*visit); ok {
		g.answer.Header(w.Header(), v.req.Ops(), v.decision, v.now)
	}
	p := answer.Problem{Status: http.StatusBadGateway, Detail: "the upstream could not be reached or broke off"}
	var timeout interface{ Timeout() bool }
	switch {
	case r.Context().Err() != nil: // the client has gone, nobody is to blame
	case errors.As(err, &timeout) && timeout.Timeout():
		p.Status, p.Detail = http.StatusGatewayTimeout, "the upstream did not answer in time"
		fallthrough
	default:
		g.log("upstream failed", err)
	}
	p.Write(w)
}

// log logs err unless something was logged this second.
func (g *Gateway) log(msg string, err error) {
	now := time.Now().Unix()
	if last := g.lastLog.Load(); last != now && g.lastLog.CompareAndSwap(last, now) {
		g.opt.Log.Error(msg, "err", err, "upstream", g.opt.Upstream.Redacted())
	}
}

// newTransport returns what reaches an upstream of the given scheme.
func newTransport(scheme string) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 256, 256
	// Whether answers are compressed is between the client and the upstream.
	t.DisableCompression = true
	if scheme == "h2c" {
		t.Protocols = new(http.Protocols)
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	return t
}

// buffers are what bodies are copied through.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[bufferSize]byte); ok {
		return p[:]
	}
	return make([]byte, bufferSize)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferSize]byte)(p)) }
