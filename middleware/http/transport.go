package httplimit

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/admit"
	"github.com/weirlimit/weir/internal/retryafter"
)

// TransportOptions configures a [Transport].
type TransportOptions struct {
	// Limiter decides. Required.
	Limiter *weir.Limiter
	// Domain is the domain that is asked. Zero means "outgoing", which the rules must
	// have if they say which domains they have.
	Domain string
	// Base sends the requests. Nil means http.DefaultTransport.
	Base http.RoundTripper
	// Key names whose quota a request spends: the value of the entry host, and
	// what is paused when they ask to be left alone. Nil means the URL's host in
	// lower case, with its port unless that is the scheme's own.
	Key func(*http.Request) string
	// Descriptors appends to w.Descriptors what the request is limited by, and
	// may set w.Priority. What it puts there must stay as it is until the answer's
	// body is closed. Nil means one descriptor of one entry: host, and the key.
	Descriptors func(r *http.Request, w *weir.Request)
	// Cost returns how many units the request costs, 0 to weir.MaxCost; 0 looks
	// without spending. For one that is out of range RoundTrip returns
	// weir.ErrCost. Nil means 1.
	Cost func(*http.Request) int64
	// MaxWait is the longest that a request waits until it may be sent; it never
	// waits beyond its context's deadline either. One that would have to is
	// refused at once. Negative means that none waits. Zero means ten seconds.
	MaxWait time.Duration
	// MaxWaiting is how many requests may wait at a time; those above it are
	// refused. Zero means 1024.
	MaxWaiting int
	// MaxPause is the longest that a key is left alone for what an answer asked,
	// however long that is. Negative means that no answer is heeded. Zero means an
	// hour.
	MaxPause time.Duration
	// OnError is asked when the store gave no decision: nil sends the request
	// uncounted, an error is what RoundTrip returns. Nil means that RoundTrip
	// returns the store's.
	OnError func(*http.Request, error) error
	// Log is told of errors of the store that RoundTrip does not return, at most
	// one a second. Nil means nobody.
	Log *slog.Logger
}

// Transport keeps outgoing requests within limits: a fleet's, on a shared
// store, within what a third party allows. It is an http.RoundTripper, safe for
// concurrent use; put it into http.Client.Transport.
//
// A request that would exceed a limit waits, or is refused with a *[Limited]:
// an error and not an answer of status 429, so that nobody takes it for the
// third party's. Whoever retries must ask for it with errors.As, which also
// finds it in what http.Client returns. Each hop of a redirect is a request of
// its own.
//
// Requests that wait for one limit ask again when it says so, all of them, in
// no order. A leaky_queue limit gives each its own instant instead.
//
// An answer of 429 or 503 with Retry-After, or one whose RateLimit field says
// that nothing is left until some time, pauses its key until then: requests of
// that key wait or are refused without being counted. A pause is known to this
// Transport alone, and lasts MaxPause at most; 4096 keys can be paused at a time.
// A later answer can make it longer and not shorter.
//
// A place under a concurrency limit is held until the answer's body has been
// read to its end or closed, which callers must do; then the charge is settled
// too, by the third party's status, the length of the body as it is read, or a
// field of its header or trailer. A request without an answer is settled as
// weir.NoAnswer, but for one that was canceled: its charge stands.
type Transport struct {
	opt  TransportOptions
	gate *admit.Gate
}

var _ http.RoundTripper = (*Transport)(nil)

// NewTransport returns a transport. It returns an error when the limiter is
// missing or an option is out of range.
func NewTransport(opt TransportOptions) (*Transport, error) {
	gate, err := admit.New(admit.Options{Limiter: opt.Limiter, Domain: opt.Domain, Fallback: "outgoing", MaxDelay: opt.MaxWait, MaxWaiting: opt.MaxWaiting, MaxPause: opt.MaxPause, Log: opt.Log})
	if err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	if opt.Base == nil {
		opt.Base = http.DefaultTransport
	}
	if opt.Key == nil {
		opt.Key = hostOf
	}
	return &Transport{opt: opt, gate: gate}, nil
}

func hostOf(r *http.Request) string {
	host, port := strings.ToLower(r.URL.Host), r.URL.Port()
	if r.URL.Scheme == "https" && port == "443" || r.URL.Scheme == "http" && port == "80" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	return host
}

// Limited is the error of a request that was not sent, for a limit's sake.
type Limited struct {
	// Key is whose quota it would have spent, see TransportOptions.Key.
	Key string
	// Limit names the limit that refused. Empty when Key asked to be left alone.
	Limit string
	// RetryAfter is the least wait after which the same request may be sent, or
	// weir.Never.
	RetryAfter time.Duration
}

// Error implements error.
func (e *Limited) Error() string {
	what := fmt.Sprintf("httplimit: %s asked to be left alone", e.Key)
	if e.Limit != "" {
		what = fmt.Sprintf("httplimit: limit %q of requests to %s is exhausted", e.Limit, e.Key)
	}
	if e.RetryAfter == weir.Never {
		return what + ": the request can never be sent"
	}
	return fmt.Sprintf("%s: retry after %s", what, e.RetryAfter)
}

// RoundTrip implements http.RoundTripper. Beside what Base returns its error is
// a *[Limited], that of the context while it waited, or the store's.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	c := &admit.Outgoing{Key: t.opt.Key(r)}
	if err := t.admitRequest(c, r); err != nil {
		c.End()
		if r.Body != nil {
			_ = r.Body.Close() // nobody read it: there is nothing to lose
		}
		return nil, err
	}
	returned := false
	defer func() {
		if !returned { // Base panics
			c.Finish(r.Context(), weir.Result{Code: weir.NoAnswer})
		}
	}()
	res, err := t.opt.Base.RoundTrip(r)
	returned = true
	if err != nil {
		c.Finish(r.Context(), weir.Result{Code: weir.NoAnswer})
		return res, err
	}
	if wait, ok := retryafter.Parse(res, time.Now()); ok {
		t.gate.PauseKey(c.Key, wait)
	}
	watchBody(c, r.Context(), res)
	return res, nil
}

// admitRequest returns when the request may be sent, or why it may not.
func (t *Transport) admitRequest(c *admit.Outgoing, r *http.Request) error {
	c.Begin(t.gate)
	c.Req.NewLease = true
	if t.opt.Descriptors != nil {
		t.opt.Descriptors(r, &c.Req)
	} else {
		c.AddHostDescriptor()
	}
	if t.opt.Cost != nil {
		admit.SetCost(&c.Req, t.opt.Cost(r))
	}
	err := c.AwaitTurn(r.Context(), func(limit string, wait time.Duration) error {
		return &Limited{Key: c.Key, Limit: limit, RetryAfter: wait}
	})
	if none, ok := errors.AsType[*admit.Undecided](err); ok {
		if none.Reason == admit.StoreFailed && t.opt.OnError != nil {
			return t.opt.OnError(r, none.Err)
		}
		return fmt.Errorf("httplimit: no decision: %w", none.Err)
	}
	return err
}
