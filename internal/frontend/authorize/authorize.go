// Package authorize decides requests that somebody else carries: a proxy asks
// whether to let one through, tells what it knows of it, and hands the answer
// on. It is what the forward-auth and the ext_authz front ends share; theirs is
// how the question comes in and the answer goes out.
//
// Who asks is told before the request is carried and not after, which rules out
// what needs to know the end: limits on how many run at once, and charges that
// are settled by the answer. A request that meets one is answered 500 with a
// sentence that names the limit, charged nothing, and never let through.
//
// A limit that delays holds the answer back for as long as whoever asks says
// that it waits, [Question.MaxDelay]; a request that would have to wait longer
// is refused, with the rest of the wait as Retry-After, and its place in the
// queue is given back.
package authorize

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/admit"
	"github.com/weirlimit/weir/shed"
)

// Options configures an [Authorizer].
type Options struct {
	// Limiter decides. Required.
	Limiter *weir.Limiter
	// Domain is the domain that is asked where a question names none. Zero means
	// "api".
	Domain string
	// Identity tells who sent a request. Nil means identity.New with its
	// defaults: no header is believed.
	Identity *identity.Resolver
	// Plan makes the descriptors of requests that no route matches. Nil means
	// the client's address, as remote_address; and without Routes what the
	// Limiter's rules are matched by as well, see identity.Resolver.RulePlan.
	Plan *identity.Plan
	// Routes are looked at in this order, the first that matches is taken. Zero
	// means none.
	Routes []identity.Route
	// Answer writes the header fields and refusals. Nil means answer.New with
	// its defaults.
	Answer *answer.Writer
	// Shed says which refusals are for the service's sake. What it bounds on
	// this node is not asked: nobody says when a request ends. Nil means none.
	Shed *shed.Shedder
	// MaxWaiting is how many answers may be held back at a time for limits that
	// delay; requests above it are refused. Zero means 1024.
	MaxWaiting int
	// Has reports whether the rules have a domain: a question that names another
	// cannot be answered, as no limit would apply. Nil means that any is taken.
	Has func(domain string) bool
	// Log is told of errors of the store and of questions that cannot be
	// answered, at most one a second. Nil means nobody.
	Log *slog.Logger
}

// Authorizer decides. Safe for concurrent use.
type Authorizer struct {
	opt        Options
	gate       *admit.Gate
	routes     *identity.Routes // nil without one
	admissions sync.Pool
}

// New returns an authorizer. It returns an error when the limiter is missing or
// an option is out of range.
func New(opt Options) (*Authorizer, error) {
	if opt.Plan != nil && opt.Identity == nil {
		return nil, errors.New("authorize: a plan without its resolver: set Options.Identity to the one that made Options.Plan")
	}
	opt.Log = cmp.Or(opt.Log, slog.New(slog.DiscardHandler))
	gate, err := admit.New(admit.Options{Limiter: opt.Limiter, Domain: cmp.Or(opt.Domain, "api"), MaxWaiting: opt.MaxWaiting, Log: opt.Log})
	if err != nil {
		return nil, fmt.Errorf("authorize: %w", err)
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
	switch {
	case opt.Plan != nil:
	case len(opt.Routes) == 0:
		opt.Plan = opt.Identity.RulePlan(opt.Limiter.Rules(), 0)
	default:
		if opt.Plan, err = opt.Identity.Plan(nil); err != nil {
			return nil, err
		}
	}
	a := &Authorizer{opt: opt, gate: gate, admissions: sync.Pool{New: func() any { return gate.NewAdmission() }}}
	return a, a.compile()
}

// compile makes the routes.
func (a *Authorizer) compile() (err error) {
	if len(a.opt.Routes) == 0 {
		return nil
	}
	for i := range a.opt.Routes {
		r := &a.opt.Routes[i]
		if r.Unlimited && (len(r.Descriptors) > 0 || r.Cost != 0) {
			return fmt.Errorf("authorize: route %d is unlimited: remove its descriptors and cost", i+1)
		}
	}
	if a.routes, err = a.opt.Identity.Routes(a.opt.Routes); err != nil {
		return err
	}
	WarnOfEvadable(a.opt.Log, a.routes)
	return nil
}

// WarnOfEvadable logs the routes on which clients without a credential meet no limit, but
// for those that are unlimited.
func WarnOfEvadable(log *slog.Logger, routes *identity.Routes) {
	for i := range routes.Len() {
		if r := routes.Route(i); !r.Unlimited && routes.Plan(i).Evadable() {
			log.Warn("unauthenticated clients are not limited on this route; add a descriptor of remote_address, for example with unless: user",
				"route", i+1, "host", r.Host, "path", r.Path)
		}
	}
}

// TrustsPeer reports whether the peer of q is one of the trusted proxies.
func (a *Authorizer) TrustsPeer(q *Question) bool { return a.opt.Identity.Trusts(q.Peer) }

// Report logs that a question could not be answered, unless something was
// logged this second.
func (a *Authorizer) Report(msg string, err error) { a.gate.Faults.Report(msg, err) }
