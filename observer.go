package weir

import "net/netip"

// Observer is told of every decision. Observe must not block, and must not
// keep r or what it points to. Safe for concurrent use.
type Observer interface {
	// Observe gets the request with its ops answered, the decision as the
	// caller gets it, and the store's error if no decision was made. How long a
	// decision took is in [Request.Took], of one in [LatencyEvery].
	Observe(r *Request, d Decision, err error)
}

// ResultObserver is an [Observer] that is also told how requests that passed
// ended, where the front end sees it. Which observers are is looked at once, by
// New; where none is, nothing is spent on it.
type ResultObserver interface {
	// ObserveResult gets the request as Observe got it, ops, facts and all, and
	// how it ended. It is called at most once for a request that passed, never
	// for one that was refused, perhaps by another goroutine than Observe, and
	// after the answer was sent. The same holds for it as for Observe.
	ObserveResult(r *Request, res Result)
}

// Facts is what a front end knows about the client of a request. What it does
// not know is empty.
//
// An observer must not keep Facts, nor what it returns: all of it lives in
// buffers of the front end that are used again after the request. Methods are
// called by the goroutine that called the limiter, one at a time, and find out
// what they return when they are asked. They neither wait nor verify: a user
// whom no rule asked for may be empty though the client has named one.
type Facts interface {
	// Address is the client's, through trusted proxies; the zero Addr if it has
	// none.
	Address() netip.Addr
	// Method, Host and Path are canonical; Path is without the query.
	Method() string
	Host() string
	Path() string
	// User is the verified user, Tier the client's tier.
	User() string
	Tier() string
	// Agent is the name of the client's software as it sent it: its User-Agent.
	Agent() string
}

// End tells those observers that are a [ResultObserver] how a request ended that
// the last decision on r let pass: what r.Ops and r.Facts return must still hold.
// Call it once, when the answer is known or there will be none, and before r is
// used again. It does not block, and it charges nothing: see [Limiter.Adjust].
func (l *Limiter) End(r *Request, res Result) {
	for _, o := range l.results {
		o.ObserveResult(r, res)
	}
}

// WantsResults reports whether an observer is told how requests end: whoever calls
// [Limiter.End] need not find out else.
func (l *Limiter) WantsResults() bool { return len(l.results) > 0 }
