// Package gateway is a reverse proxy with limits in front: it finds out who
// asks for what, forwards what the limits allow, answers the rest 429, and
// settles what was charged by the upstream's answer.
//
// Who is asking, deciding and settling are [httplimit.Middleware]'s; here are
// the routes, and everything that has to pass an HTTP proxy untouched: streams,
// WebSockets, trailers, informational answers, bodies of any size, paths as
// they were written.
package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/textproto"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/frontend/authorize"
	httplimit "github.com/weirlimit/weir/middleware/http"
)

// Options configures a [Gateway].
type Options struct {
	// Limits says who is limited and how: see [httplimit.Options]. Its Plan is
	// that of requests which no route matches; nil means with Routes, unless there
	// are Descriptors, the client's address alone. Its Skip is not asked. Limiter
	// is required.
	Limits httplimit.Options
	// Default is where requests go that no route matches. Without an upstream
	// they are answered 404. Required unless there are routes.
	Default Forward
	// Routes are looked at in this order, the first that matches is taken.
	Routes []Route
	// ClientHeader is the header in which trusted proxies name the client, the
	// one of identity.ProxyOptions. It is handed on from them, the peer's
	// address appended if it is a list. Zero means that there is none.
	ClientHeader string
	// ProxyHeaders are further headers that only trusted proxies may send, such
	// as those that name a verified user. From others they are dropped. Zero
	// means none.
	ProxyHeaders []string
	// ClientFields are the header fields that peers who are no trusted proxies may send
	// to upstreams, by name, with a star at the end for all that begin so; a star alone
	// stands for all that claim nothing. Zero means the star alone.
	ClientFields []string
	// HalfClosed is how long one direction of an upgraded connection, such as a
	// WebSocket, may outlive the other. Zero means ten seconds.
	HalfClosed time.Duration
	// Log is told of upstream and store errors, at most one a second of each
	// upstream, and of the store.
	// Nil means nobody.
	Log *slog.Logger
}

// Route says which requests it is about, what they are asked by, and where they
// go.
type Route struct {
	identity.Route
	// Forward is where they go. What it leaves zero is Options.Default's.
	Forward Forward
}

// Gateway is the reverse proxy, an http.Handler. Safe for concurrent use.
type Gateway struct {
	opt        Options
	identity   *identity.Resolver
	middleware *httplimit.Middleware
	fallback   *target // nil: there is none
	routes     *identity.Routes
	targets    []target // of routes, by their number
	believed   []string // canonical names of headers that proxies may send
	header     string   // ClientHeader, canonical
	buffers    buffers
	// upstreams are what is logged of each, by its name.
	upstreams map[string]*upstreamLog
}

// New returns a gateway. It returns an error when a required option is missing
// or one is out of range.
func New(opt Options) (*Gateway, error) {
	switch {
	case opt.Limits.Limiter == nil:
		return nil, errors.New("gateway: no limiter: set Options.Limits.Limiter")
	case opt.Default.Upstream == nil && len(opt.Routes) == 0:
		return nil, errors.New("gateway: no upstream: set Options.Default.Upstream, or routes")
	case opt.HalfClosed < 0:
		return nil, errors.New("gateway: half closed must not be negative")
	}
	for _, f := range opt.ClientFields {
		if name, _ := appendFolded(make([]byte, 0, 64), f); f == "" || string(name) == "forwarded" || hasPrefix(name, "x-forwarded") {
			return nil, fmt.Errorf("gateway: client fields: %q is what the gateway says of a request; list the proxy in identity.proxies.trusted instead", f)
		}
	}
	opt.HalfClosed = cmp.Or(opt.HalfClosed, 10*time.Second)
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	opt.Limits.Log = cmp.Or(opt.Limits.Log, opt.Log)
	var err error
	if opt.Limits.Identity == nil {
		if opt.Limits.Plan != nil {
			return nil, errors.New("gateway: a plan without its resolver: set Options.Limits.Identity to the one that made Options.Limits.Plan")
		}
		if opt.Limits.Identity, err = identity.New(identity.Options{Log: opt.Log}); err != nil {
			return nil, err
		}
	}
	g := &Gateway{opt: opt, identity: opt.Limits.Identity, header: textproto.CanonicalMIMEHeaderKey(opt.ClientHeader)}
	if len(opt.Routes) > 0 && opt.Limits.Plan == nil {
		g.opt.Limits.Plan = new(identity.Plan)
		if opt.Limits.Descriptors == nil {
			if g.opt.Limits.Plan, err = g.identity.Plan(nil); err != nil {
				return nil, err
			}
		}
	}
	for _, h := range opt.ProxyHeaders {
		g.believed = append(g.believed, textproto.CanonicalMIMEHeaderKey(h))
	}
	if g.middleware, err = httplimit.New(g.opt.Limits); err != nil {
		return nil, err
	}
	return g, g.compile()
}

// compile makes the routes and what they forward to.
func (g *Gateway) compile() (err error) {
	ts := transports{}
	g.upstreams = map[string]*upstreamLog{}
	if g.opt.Default.Upstream != nil {
		if g.fallback, err = g.newTarget(&Route{Forward: g.opt.Default}, ts); err != nil {
			return err
		}
	}
	if len(g.opt.Routes) == 0 {
		return nil
	}
	plans := make([]identity.Route, len(g.opt.Routes))
	for i := range g.opt.Routes {
		rt := g.opt.Routes[i]
		plans[i] = rt.Route
		rt.Forward = rt.Forward.withDefaults(g.opt.Default)
		t, err := g.newTarget(&rt, ts)
		if err != nil {
			return fmt.Errorf("%w, in route %d", err, i+1)
		}
		g.targets = append(g.targets, *t)
	}
	if g.routes, err = g.identity.Routes(plans); err != nil {
		return err
	}
	authorize.WarnOfEvadable(g.opt.Log, g.routes)
	return nil
}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := g.identity.Acquire()
	defer c.Release()
	a, p := g.receive(r, c)
	if p != nil {
		refuseRequest(w, r, p)
		return
	}
	tr := &trip{g: g, t: a.target, caller: c}
	if !a.unlimited {
		if tr.visit = g.middleware.Enter(w, r, c, a.plan, a.cost); tr.visit == nil {
			return
		}
	}
	tr.forward(w, r)
	if tr.reply.body != nil {
		tr.reply.body.readRest(w)
	}
}

// course is where a request goes, and what is asked about it.
type course struct {
	route     int // -1 for none
	target    *target
	unlimited bool
	plan      *identity.Plan // nil for the middleware's own
	cost      int64
}

// receive tells c the request, and returns its course, or why it goes nowhere.
func (g *Gateway) receive(r *http.Request, c *identity.Caller) (course, *answer.Problem) {
	c.SetHTTP(r)
	if r.Method == http.MethodConnect || r.URL.Path == "*" || c.SentPath()[0] != '/' || !isClear(r) {
		return course{route: -1}, &answer.Problem{Status: http.StatusBadRequest, Detail: "the gateway forwards requests for one path of one host: neither tunnels nor *"}
	}
	a, p := g.findCourse(c)
	if p == nil {
		p = a.target.refuses(r)
	}
	if p == nil && a.target.prefix != "" {
		if sent := a.target.upstreamPath(c); len(sent) > 1 && (sent[1] == '/' || sent[1] == '\\') {
			p = &answer.Problem{Status: http.StatusBadRequest, Detail: "behind strip_prefix the path begins with two slashes: some servers find a host there"}
		}
	}
	return a, p
}

// findCourse returns the course of the request, or why it goes nowhere.
func (g *Gateway) findCourse(c *identity.Caller) (course, *answer.Problem) {
	a := course{route: -1, target: g.fallback}
	if g.routes != nil {
		if a.route = g.routes.Find(c); a.route >= 0 {
			a.target = &g.targets[a.route]
		}
		a.plan, a.cost = g.routes.PlanFor(c, a.route, g.opt.Limits.Plan)
		if a.unlimited = a.plan == nil; a.route >= 0 {
			return a, nil
		}
	}
	// Without routes, and where the path is not changed, it need not be read.
	check := c.Check
	if g.routes != nil || g.fallback.rewrites() {
		check = c.Err
	}
	if err := check(); err != nil {
		return a, authorize.Problem(err)
	}
	if g.fallback == nil {
		return a, &answer.Problem{Status: http.StatusNotFound, Detail: "nothing is served at this host and path"}
	}
	return a, nil
}

// forward sends r to the upstream and its answer to w, and leaves, however it
// ends.
func (tr *trip) forward(w http.ResponseWriter, r *http.Request) {
	whole := false
	tr.reply.ResponseWriter, tr.reply.trip = w, tr
	var body *stoppable
	defer func() {
		if body != nil {
			body.stopReading(w, tr.reply.status)
		}
		tr.reply.endUpgrade()
		if !whole { // it panics, and the connection breaks off
			tr.status = weir.NoAnswer
			if tr.reply.broken.Load() || tr.reply.incoming.problem(r.Context()) != nil {
				tr.status = weir.ClientGone
			} else if r.Context().Err() == nil {
				tr.t.log.broken.Report("answer broken off", errBroken)
			}
		}
		if tr.visit == nil {
			return
		}
		tr.visit.Leave(tr.status, tr.reply.Header(), tr.reply.sent.Load())
	}()
	ctx, stop := tr.t.withTimeout(r.Context(), &tr.reply)
	defer stop()
	tr.Context = ctx
	// The upstream may begin its answer while the client still sends; over
	// HTTP/1 net/http would then swallow the rest of what is sent. HTTP/2 does
	// not know the setting and does not need it.
	_ = http.NewResponseController(w).EnableFullDuplex()
	out := r.WithContext(tr)
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		tr.reply.body = newConsumed(r)
		out.Body = tr.reply.body
	}
	if r.ContentLength != 0 {
		tr.reply.incoming = &incoming{ReadCloser: out.Body}
		out.Body = tr.reply.incoming
	}
	if r.ProtoMajor == 2 && r.ContentLength != 0 {
		body = &stoppable{ReadCloser: r.Body}
		out.Body = body
	}
	tr.t.boundBody(out)
	tr.t.proxy.ServeHTTP(&tr.reply, out)
	dropTrailers(w.Header())
	whole = true
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
