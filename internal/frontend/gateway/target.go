package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/redact"
)

// Forward says where requests go and how. What a route's leaves zero is that of
// Options.Default, where there is one; Transport and PreserveHost only with its Upstream.
type Forward struct {
	// Upstream is the server: http, https, or h2c for HTTP/2 without encryption,
	// a host, and a path that is put before the request's.
	Upstream *url.URL
	// Transport reaches the upstream. Nil means one that asks no proxy and keeps
	// 256 idle connections; it is shared by all that go to the same upstream in
	// the same time.
	Transport http.RoundTripper
	// StripPrefix is cut off the request's path before the upstream's is put
	// there: "/api" makes /users of /api/users. Zero means nothing.
	StripPrefix string
	// PreserveHost sends the client's Host in place of the upstream's.
	PreserveHost bool
	// ConnectTimeout bounds connecting to the upstream, with TLS. Zero means
	// five seconds.
	ConnectTimeout time.Duration
	// HeaderTimeout bounds the wait for the first line of the answer, once the
	// request is sent. Zero means a minute.
	HeaderTimeout time.Duration
	// Timeout bounds all of it, from the first byte that is sent to the last
	// that is received; upgraded connections excepted. Zero means no bound.
	Timeout time.Duration
	// MaxBody bounds the body of a request, in bytes; above it is answered 413.
	// Zero means no bound.
	MaxBody int64
	// MaxHeader bounds the names and values of a request's header fields, in
	// bytes; above it is answered 431. Zero means the server's bound.
	MaxHeader int64
}

// withDefaults returns f with what it leaves zero taken from d: a route that leaves out a bound, or
// has zero, keeps the general one, and one that needs a higher bound states it. What belongs
// to d's upstream is not taken for another.
func (f Forward) withDefaults(d Forward) Forward {
	if f.Upstream == nil {
		f.Upstream = d.Upstream
		if f.Transport == nil {
			f.Transport = d.Transport
		}
		f.PreserveHost = f.PreserveHost || d.PreserveHost
	}
	f.StripPrefix = cmp.Or(f.StripPrefix, d.StripPrefix)
	f.ConnectTimeout = cmp.Or(f.ConnectTimeout, d.ConnectTimeout)
	f.HeaderTimeout = cmp.Or(f.HeaderTimeout, d.HeaderTimeout)
	f.Timeout = cmp.Or(f.Timeout, d.Timeout)
	f.MaxBody = cmp.Or(f.MaxBody, d.MaxBody)
	f.MaxHeader = cmp.Or(f.MaxHeader, d.MaxHeader)
	return f
}

func (f *Forward) checkFields() error {
	switch u := f.Upstream; {
	case u == nil:
		return errors.New("gateway: no upstream, and none to fall back to")
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c" || u.Host == "":
		return fmt.Errorf("gateway: upstream %q must be an http, https or h2c URL with a host, such as http://127.0.0.1:3000", redact.URL(u.String()))
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("gateway: upstream %q must not have a query, a fragment or a user", redact.URL(u.String()))
	case f.StripPrefix != "" && (f.StripPrefix[0] != '/' || f.StripPrefix != "/"+strings.Trim(f.StripPrefix, "/")):
		return fmt.Errorf("gateway: strip prefix %q must begin with a slash and not end with one", f.StripPrefix)
	case f.ConnectTimeout < 0 || f.HeaderTimeout < 0 || f.Timeout < 0 || f.MaxBody < 0 || f.MaxHeader < 0:
		return errors.New("gateway: timeouts and bounds must not be negative")
	}
	return nil
}

// target is a [Forward] made ready. Immutable.
type target struct {
	Forward
	// name is what the log calls it.
	name   string
	scheme string
	base   string // the upstream's path, without a slash at its end
	prefix string // StripPrefix in canonical form
	proxy  *httputil.ReverseProxy
	log    *upstreamLog // shared by all that go to the same upstream
}

func (g *Gateway) newTarget(rt *Route, ts transports) (*target, error) {
	f := rt.Forward
	if err := f.checkFields(); err != nil {
		return nil, err
	}
	t := &target{
		Forward: f, name: redact.URL(f.Upstream.String()), scheme: f.Upstream.Scheme,
		base: strings.TrimSuffix(f.Upstream.EscapedPath(), "/"),
	}
	if t.log = g.upstreams[t.name]; t.log == nil {
		t.log = &upstreamLog{outage: faults.NewOutage(g.opt.Log, "upstream unavailable; allowed requests get 502, or 504 after a timeout",
			"upstream recovered", "upstream", t.name),
			broken: faults.New(g.opt.Log.With("upstream", t.name))}
		g.upstreams[t.name] = t.log
	}
	if p := f.StripPrefix; p != "" {
		var err error
		if t.prefix, err = g.identity.EntryForm("path", p); err != nil {
			return nil, fmt.Errorf("gateway: strip prefix %q: %w", p, err)
		} else if !strings.EqualFold(t.prefix, p) {
			return nil, fmt.Errorf("gateway: strip prefix %q reads as %q, write it so", p, t.prefix)
		}
	}
	if t.scheme == "h2c" {
		t.scheme = "http"
	}
	if t.Transport == nil {
		t.Transport = ts.get(&f)
	}
	t.proxy = &httputil.ReverseProxy{
		Rewrite:        g.rewrite,
		Transport:      t.Transport,
		BufferPool:     &g.buffers,
		ModifyResponse: addDecision,
		ErrorHandler:   answerFailure,
		ErrorLog:       slog.NewLogLogger(g.opt.Log.Handler(), slog.LevelDebug),
	}
	return t, nil
}

// refuses says why r is not forwarded, whoever sent it; nil for most. Nothing
// is charged for it.
func (t *target) refuses(r *http.Request) *answer.Problem {
	if t.MaxBody > 0 && r.ContentLength > t.MaxBody {
		return t.tooLarge()
	}
	if t.MaxHeader > 0 {
		n := int64(0)
		for k, vs := range r.Header {
			for _, v := range vs {
				n += int64(len(k) + len(v))
			}
		}
		if n > t.MaxHeader {
			return &answer.Problem{
				Status: http.StatusRequestHeaderFieldsTooLarge,
				Detail: fmt.Sprintf("the header fields are larger than %d bytes", t.MaxHeader),
			}
		}
	}
	return nil
}

func (t *target) tooLarge() *answer.Problem {
	return &answer.Problem{
		Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("the body is larger than %d bytes", t.MaxBody),
	}
}

// boundBody bounds the body of r, whose length may not be known before.
func (t *target) boundBody(r *http.Request) {
	if t.MaxBody > 0 && r.ContentLength != 0 {
		r.Body = http.MaxBytesReader(nil, r.Body, t.MaxBody)
	}
}

// Why a request was given up.
var (
	errTimeout = errors.New("the upstream did not answer in time")
	errBroken  = errors.New("the upstream response ended early or timed out")
)

// withTimeout returns ctx with the target's bound on the whole time, which rep ends
// when the connection speaks another protocol.
func (t *target) withTimeout(ctx context.Context, rep *reply) (context.Context, func()) {
	if t.Timeout == 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(t.Timeout, func() {
		if rep.writing.Load() {
			rep.broken.Store(true)
		}
		cancel(errTimeout)
	})
	rep.onUpgrade = func() { timer.Stop() }
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// addDecision adds the decision to the upstream's answer.
func addDecision(res *http.Response) error {
	tr := tripOf(res.Request)
	tr.t.log.outage.Succeeded()
	tr.status = res.StatusCode
	if res.StatusCode == http.StatusSwitchingProtocols {
		tr.writeFields(res.Header) // of which ReverseProxy writes the answer
	}
	if rw, ok := res.Body.(io.ReadWriteCloser); ok && res.StatusCode == http.StatusSwitchingProtocols {
		res.Body = tr.reply.upgrade(rw, tr.g.opt.HalfClosed)
	}
	for key := range res.Trailer {
		if !mayTrail(key) {
			delete(res.Trailer, key) // else it is announced
		}
	}
	// Over HTTP/2 an answer may state its length and have trailers, over
	// HTTP/1.1 trailers need chunks.
	if len(res.Trailer) > 0 && res.Request.ProtoMajor == 1 {
		res.Header.Del("Content-Length")
	}
	return nil
}

// insecure reports whether the upstream has no certificate that is trusted, or does
// not speak TLS as it should.
func insecure(err error) bool {
	_, cert := errors.AsType[*tls.CertificateVerificationError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	_, header := errors.AsType[tls.RecordHeaderError](err)
	return cert || alert || header || errors.Is(err, http.ErrSchemeMismatch)
}

// answerFailure answers for an upstream that did not.
func answerFailure(w http.ResponseWriter, r *http.Request, err error) {
	tr := tripOf(r)
	tr.status = 0
	p := &answer.Problem{Status: http.StatusBadGateway, Detail: "the upstream broke off, or what it sent is not HTTP"}
	var timeout interface{ Timeout() bool }
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	op, isOp := errors.AsType[*net.OpError](err)
	if in := tr.reply.incoming; in != nil && !isOp && errors.Is(err, os.ErrDeadlineExceeded) {
		// Not of a connection to the upstream, so of a stream from the client.
		in.fault.CompareAndSwap(0, http.StatusRequestTimeout)
	}
	switch {
	case tooLarge:
		p = tr.t.tooLarge()
		tr.status = p.Status // the client's fault: it counts
	case tr.reply.incoming.problem(r.Context()) != nil:
		p = tr.reply.incoming.problem(r.Context())
		tr.status = weir.ClientGone
	case context.Cause(r.Context()) == errTimeout, errors.As(err, &timeout) && timeout.Timeout() && !(isOp && op.Op == "dial"):
		p.Status, p.Detail = http.StatusGatewayTimeout, errTimeout.Error()
		tr.t.log.outage.Failed(err)
	case r.Context().Err() != nil: // the client has gone, nobody is to blame
	default:
		switch {
		case insecure(err):
			p.Detail = "no secure connection to the upstream can be made"
		case isOp && op.Op == "dial":
			p.Detail = "the upstream cannot be reached"
		}
		tr.t.log.outage.Failed(err)
	}
	p.Write(answer.ForCall(w, r))
	tr.reply.sent.Store(0) // the upstream said nothing that could be charged for
}

// upstreamLog is what is logged of an upstream.
type upstreamLog struct {
	outage *faults.Outage
	broken *faults.Log // of responses that broke off
}
