package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/admit"
	"github.com/weirlimit/weir/internal/cooldown"
	"github.com/weirlimit/weir/internal/retryafter"
)

// TransportOptions configures a [Transport].
type TransportOptions struct {
	// Base sends the requests. Nil means http.DefaultTransport.
	Base http.RoundTripper
	// Key names what a request spends from: what is left alone when an answer asks
	// for it, and what is throttled. Nil means the URL's host.
	Key func(*http.Request) string
	// MaxWait is the longest that a request waits, over all its attempts, until it
	// may be sent; it never waits beyond its context's deadline either. One that
	// would have to is refused at once. Negative means that none waits. Zero means
	// ten seconds.
	MaxWait time.Duration
	// MaxWaiting is how many requests may wait at a time; those above it are
	// refused. Zero means 1024.
	MaxWaiting int
	// MaxPause is the longest that a key is left alone for what an answer asked.
	// Zero means an hour.
	MaxPause time.Duration
	// Retries is how often a request is sent again that was answered 429, or 503
	// with Retry-After, once it may be. Its body must be none, or GetBody be set,
	// and after a 503 its method must be one that may be repeated, or it must have an
	// Idempotency-Key. Zero means never: the answer is the caller's.
	Retries int
	// Throttle is how a key is spared that refuses or fails many requests.
	Throttle ThrottleOptions
	// NoThrottle sends whatever the answers were.
	NoThrottle bool
}

// Transport sends requests to any API as that asks for it. It is an
// http.RoundTripper, safe for concurrent use; put it into http.Client.Transport.
//
// An answer of 429 or 503 with Retry-After, or one whose RateLimit fields say
// that nothing is left until some time, makes the requests of its key wait until
// then, and up to a quarter or five seconds longer, at random: so that not all
// return at one instant. One that would wait too long is refused with a
// *[Limited]: an error and not an answer of status 429, so that nobody takes it
// for the API's. A key that refuses or fails many requests is asked less, see
// [Throttle]. 4096 keys can be left alone at a time, and as many be throttled.
//
// To stay within a quota before the API has to refuse, put the Transport of
// middleware/http before this one.
type Transport struct {
	opt    TransportOptions
	paused cooldown.Set
	room   admit.Room

	mu        sync.Mutex
	throttles map[string]*Throttle
}

var _ http.RoundTripper = (*Transport)(nil)

// maxThrottles is how many keys are throttled at a time.
const maxThrottles = 4096

// NewTransport returns a transport. It returns an error when an option is out of
// range.
func NewTransport(opt TransportOptions) (*Transport, error) {
	if opt.MaxWaiting < 0 || opt.MaxPause < 0 || opt.Retries < 0 {
		return nil, errors.New("client: MaxWaiting, MaxPause and Retries must not be negative: set MaxWait to -1 to disable waiting")
	}
	if _, err := NewThrottle(opt.Throttle); err != nil {
		return nil, err
	}
	if opt.Base == nil {
		opt.Base = http.DefaultTransport
	}
	if opt.Key == nil {
		opt.Key = func(r *http.Request) string { return strings.ToLower(r.URL.Host) }
	}
	opt.MaxWait, opt.MaxPause = cmp.Or(opt.MaxWait, 10*time.Second), cmp.Or(opt.MaxPause, time.Hour)
	return &Transport{opt: opt, room: admit.NewRoom(opt.MaxWaiting), throttles: map[string]*Throttle{}}, nil
}

// Limited is the error of a request that was not sent.
type Limited struct {
	// Key is what it would have spent from, see TransportOptions.Key.
	Key string
	// RetryAfter is the least wait after which it may be sent. Zero if that is not
	// known.
	RetryAfter time.Duration
	// Throttled: the key refuses or fails many requests. Else it asked to be left
	// alone.
	Throttled bool
}

// Error implements error.
func (e *Limited) Error() string {
	if e.Throttled {
		return fmt.Sprintf("client: %s refuses or fails many requests: this one was not sent", e.Key)
	}
	return fmt.Sprintf("client: %s asked to be left alone: retry after %s", e.Key, e.RetryAfter)
}

// RoundTrip implements http.RoundTripper. Beside what Base returns its error is
// a *[Limited], or that of the context while it waited.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	key := t.opt.Key(r)
	w := t.room.NewWaiter(r.Context(), t.opt.MaxWait)
	defer w.Done()
	for attempt := 0; ; attempt++ {
		h, ticket, err := t.beginRequest(w, key)
		if err != nil {
			if r.Body != nil {
				_ = r.Body.Close() // nobody read it: there is nothing to lose
			}
			return nil, err
		}
		res, err := t.opt.Base.RoundTrip(r)
		switch {
		case h == nil:
		case err != nil && errors.Is(r.Context().Err(), context.Canceled):
			h.Forget(ticket) // its caller has gone: that says nothing of the service
		case err == nil && res.StatusCode != http.StatusTooManyRequests && res.StatusCode < 500:
			h.Accept(ticket)
		}
		if err != nil {
			return res, err
		}
		now := time.Now()
		wait, hasWait := retryafter.Parse(res, now)
		if hasWait {
			t.paused.Add(key, now, min(wait, t.opt.MaxPause))
		}
		if !hasWait || attempt >= t.opt.Retries || min(wait, t.opt.MaxPause) > w.TimeLeft() {
			return res, nil
		}
		next, ok := retryRequest(r, res)
		if !ok {
			return res, nil
		}
		// So that the connection can be used again; what is left of a longer body is
		// not worth it.
		_, _ = io.CopyN(io.Discard, res.Body, 64<<10)
		_ = res.Body.Close()
		r = next
	}
}

// retryRequest returns the request to send once more, if it may be.
func retryRequest(r *http.Request, res *http.Response) (*http.Request, bool) {
	switch res.StatusCode {
	case http.StatusTooManyRequests: // it was not served
	case http.StatusServiceUnavailable:
		switch r.Method {
		case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		default:
			if r.Header.Get("Idempotency-Key") == "" {
				return nil, false
			}
		}
	default:
		return nil, false
	}
	next := r.Clone(r.Context())
	if r.Body != nil && r.Body != http.NoBody {
		if r.GetBody == nil {
			return nil, false
		}
		body, err := r.GetBody()
		if err != nil {
			return nil, false
		}
		next.Body = body
	}
	return next, true
}

// awaitKey waits until key is no longer to be left alone.
func (t *Transport) awaitKey(w *admit.Waiter, key string) error {
	for {
		left := t.paused.Left(key, time.Now())
		if left == 0 {
			return nil
		}
		if err := w.Sleep(addJitter(left, w.TimeLeft()), &Limited{Key: key, RetryAfter: left}); err != nil {
			return err
		}
	}
}

// beginRequest waits until key is no longer to be left alone, and counts a request, unless none
// are counted: then the throttle is nil.
func (t *Transport) beginRequest(w *admit.Waiter, key string) (h *Throttle, ticket int64, err error) {
	if err := t.awaitKey(w, key); err != nil || t.opt.NoThrottle {
		return nil, 0, err
	}
	h = t.throttle(key)
	ticket, ok := h.Begin()
	if !ok {
		return nil, 0, &Limited{Key: key, Throttled: true}
	}
	return h, ticket, nil
}

// throttle returns the throttle of key.
func (t *Transport) throttle(key string) *Throttle {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.throttles[key]
	if h == nil {
		if len(t.throttles) >= maxThrottles {
			// Any: what is known of it is relearnt within some requests.
			for other := range t.throttles {
				delete(t.throttles, other)
				break
			}
		}
		h, _ = NewThrottle(t.opt.Throttle) // no error: NewTransport has made one
		t.throttles[key] = h
	}
	return h
}
