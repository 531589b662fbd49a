package httplimit

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/admit"
	"github.com/weirlimit/weir/shed"
)

// Options configures a [Middleware].
type Options struct {
	// Limiter decides. Required.
	Limiter *weir.Limiter
	// Domain is the domain that is asked. Zero means "api", which the rules must
	// have if they say which domains they have.
	Domain string
	// Identity tells who sent a request. Nil means identity.New with its
	// defaults: no header is believed.
	Identity *identity.Resolver
	// Plan makes the descriptors that a request is limited by. Nil means what the
	// Limiter's rules are matched by and Identity can know, see
	// identity.Resolver.RulePlan, and in any case the client's address, as
	// remote_address; with Descriptors, nothing.
	Plan *identity.Plan
	// Descriptors appends descriptors of your own to w.Descriptors, after those
	// of Plan; it may set w.Priority too. What it puts there must stay as it is
	// until the handler has returned. It is called before each request by the
	// request's goroutine. Nil means none.
	Descriptors func(r *http.Request, w *weir.Request)
	// Cost returns how many units the request costs, 0 to weir.MaxCost; 0 looks
	// without spending. A request whose cost is out of range is answered 500.
	// Nil means 1.
	Cost func(*http.Request) int64
	// Skip reports whether Handler lets a request pass without asking, such as a
	// health check. Nil means that none is.
	Skip func(*http.Request) bool
	// Answer writes the header fields and refusals. Nil means answer.New with
	// its defaults.
	Answer *answer.Writer
	// Refuse writes the answer to a refused request, status and body. The header
	// fields that tell the limits, Retry-After and Cache-Control are set. Nil
	// means a problem document.
	Refuse func(http.ResponseWriter, *http.Request, *Refusal)
	// OnError is asked when the store gave no decision, unless the client has gone
	// meanwhile. True lets the request pass uncounted; before it returns false it
	// must have answered. err is not meant for clients. Nil means a problem document
	// of status 503.
	OnError func(w http.ResponseWriter, r *http.Request, err error) (pass bool)
	// MaxDelay is the longest that a request is held back for a limit that
	// delays; one that would have to wait longer is refused. Zero means ten
	// seconds.
	MaxDelay time.Duration
	// MaxWaiting is how many requests may be held back at a time; those above
	// it are refused. Zero means 1024.
	MaxWaiting int
	// Shed bounds what is under way on this node, by the request's priority, and
	// says which refusals are for the service's sake. Its other limits are rules
	// of Limiter. A request that is held back for a limit that delays is not
	// under way meanwhile. Nil means no bound.
	Shed *shed.Shedder
	// Log is told of errors of the store, at most one a second. Nil means
	// nobody.
	Log *slog.Logger
}

// Middleware limits requests to handlers. Safe for concurrent use.
type Middleware struct {
	opt    Options
	gate   *admit.Gate
	visits sync.Pool
}

// New returns a middleware. It returns an error when the limiter is missing or
// an option is out of range.
func New(opt Options) (*Middleware, error) {
	switch {
	case opt.MaxDelay < 0:
		return nil, errors.New("httplimit: max delay must not be negative")
	case opt.Plan != nil && opt.Identity == nil:
		return nil, errors.New("httplimit: a plan without its resolver: set Options.Identity to the one that made Options.Plan")
	}
	gate, err := admit.New(admit.Options{Limiter: opt.Limiter, Domain: opt.Domain, Fallback: "api", MaxDelay: opt.MaxDelay, MaxWaiting: opt.MaxWaiting, Log: opt.Log})
	if err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	if opt.Answer == nil {
		if opt.Answer, err = answer.New(answer.Options{}); err != nil {
			return nil, err
		}
	}
	if opt.Identity == nil {
		if opt.Identity, err = identity.New(identity.Options{Log: opt.Log}); err != nil {
			return nil, err
		}
	}
	if opt.Plan == nil && opt.Descriptors == nil {
		opt.Plan = opt.Identity.RulePlan(opt.Limiter.Rules(), 0)
	}
	m := &Middleware{opt: opt, gate: gate}
	m.visits.New = func() any { return new(Visit) }
	return m, nil
}

// Handler returns next behind the limits. It can stand around a router or
// around a single route. Every answer of next carries the header fields that
// tell the limits.
//
// Where a limit is settled by the answer, or an observer of the limiter is told how
// requests end ([weir.ResultObserver]), next gets a ResponseWriter that notes
// status and length; it has Unwrap, and is a Flusher, Hijacker, Pusher and
// ReaderFrom where the one it stands for is. A handler that hijacks is taken to
// have answered 101, and to have ended when it returns. One that panics has given
// no answer. What it says when the client has hung up, or while it does, is no answer
// either but weir.ClientGone: nothing of the charge is given back.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.opt.Skip != nil && m.opt.Skip(r) {
			next.ServeHTTP(w, r)
			return
		}
		v := m.Enter(w, r, nil, nil, 0)
		if v == nil {
			return
		}
		v.Header(w.Header())
		if v.Unsettled() {
			v.serveRecorded(w, r, next)
			return
		}
		defer v.Leave(http.StatusOK, nil, 0)
		next.ServeHTTP(w, r)
	})
}

// serveRecorded serves r and settles by the answer.
func (v *Visit) serveRecorded(w http.ResponseWriter, r *http.Request, next http.Handler) {
	rec := &recorder{ResponseWriter: w, ctx: r.Context(), head: r.Method == http.MethodHead}
	returned := false
	defer func() {
		status := rec.status
		switch {
		case !returned && rec.broken:
			status = weir.ClientGone
		case !returned: // it panics: whoever is there gets no whole answer
			status = weir.NoAnswer
		case status == 0 && r.Context().Err() == nil:
			status = http.StatusOK
		}
		v.Leave(status, w.Header(), rec.sent)
	}()
	next.ServeHTTP(rec.writerLike(w), r)
	returned = true
}
