package authorize

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/backoff"
)

// Question asks whether a request is to be let through.
type Question struct {
	// Facts is the request, as whoever carries it got it.
	identity.Facts
	Parameters
	// Connection: it is a connection of which nothing is known but the peer.
	// Routes are not looked at.
	Connection bool
}

// Outcome is what becomes of a request.
type Outcome uint8

const (
	// Undecided: the store gave no decision, or a rule met it that cannot be
	// asked here; nobody's fault who sent it. It is not let through.
	Undecided Outcome = iota
	// Allowed: it is let through.
	Allowed
	// Refused: a limit refuses it.
	Refused
	// Unreadable: its method, host or path has no canonical form; its sender's
	// fault.
	Unreadable
)

// Verdict is the answer to a [Question], beside what was written. The zero Verdict
// lets nothing through.
type Verdict struct {
	Outcome Outcome
	// Degraded: it was let through though the store gave no decision.
	Degraded bool
	// Soft: it passed above the threshold of a soft limit.
	Soft bool
	// Route is the name of its route, empty without one.
	Route string
	// Decision is what the limits said. Its Limit is nil when none applied. It is
	// the zero Decision, which refuses, when there is none, also for a request that
	// is let through all the same.
	Decision weir.Decision
}

// cancelTimeout bounds a call to the store that gives back what was charged.
const cancelTimeout = 5 * time.Second

// Decide answers q. When the request is let through it adds to w's header what
// the limits said, and writes nothing; else w is answered, with a problem
// document as its body. It may wait, see Question.MaxDelay; when ctx ends
// meanwhile, what was charged is given back.
func (a *Authorizer) Decide(ctx context.Context, w http.ResponseWriter, q *Question) Verdict {
	c := a.opt.Identity.Acquire()
	defer c.Release()
	c.Set(q.Facts)
	req := a.opt.Limiter.Acquire()
	defer a.opt.Limiter.Recycle(req)
	req.Facts = c.Told()

	v := Verdict{}
	plan, cost := a.opt.Plan, int64(0)
	if a.routes != nil && !q.Connection {
		if err := c.Err(); err != nil {
			return a.unreadable(w, v, err)
		}
		if i := a.routes.Find(c); i >= 0 {
			r := &a.opt.Routes[i]
			if v.Route = routeName(r); r.Unlimited {
				v.Outcome, v.Decision = Allowed, weir.AllowUnlimited()
				return v
			}
			plan, cost = a.routes.Plan(i), r.Cost
		}
	}
	if req.Domain, req.Cost = a.opt.Domain, cost; q.Domain != "" {
		req.Domain = q.Domain
	}
	var err error
	if q.Connection {
		err = plan.FillConnection(req, c)
	} else {
		err = plan.Fill(req, c)
	}
	if err != nil {
		return a.unreadable(w, v, err)
	}
	if q.Cost != 0 {
		req.Cost = q.Cost
	}
	if q.Peek {
		req.Verb = weir.Peek
	}
	return a.decide(ctx, w, q, req, v)
}

func routeName(r *Route) string {
	if r.Name != "" {
		return r.Name
	}
	return r.Host + r.Path
}

// unreadable answers a request that could not be identified.
func (a *Authorizer) unreadable(w http.ResponseWriter, v Verdict, err error) Verdict {
	p := answer.Problem{Status: http.StatusBadRequest, Detail: "the request cannot be read"}
	if bad, ok := errors.AsType[*identity.Error](err); ok {
		p.Status, p.Detail = bad.Status, bad.Detail
	}
	p.Write(w)
	v.Outcome = Unreadable
	return v
}

// decide asks the limits.
func (a *Authorizer) decide(ctx context.Context, w http.ResponseWriter, q *Question, req *weir.Request, v Verdict) Verdict {
	if !q.Peek {
		req.Patience = func(_ context.Context, delay time.Duration) time.Duration { return a.mayWait(q, delay) }
	}
	d, err := a.opt.Limiter.Decide(ctx, req)
	if misfit := misfit(req.Ops()); misfit != nil {
		if err == nil {
			if !q.Peek && d.Allowed() && req.Delay() > 0 {
				a.waiting.Add(-1)
			}
			a.cancel(ctx, req)
		}
		return a.cannotAsk(w, v, misfit)
	}
	if err != nil {
		return a.undecided(ctx, w, q, v, err)
	}
	v.Decision, v.Soft = d, req.Soft()
	if !d.Allowed() {
		return a.refuse(w, q, req, v)
	}
	if delay := req.Delay(); delay > 0 && !q.Peek && !a.wait(ctx, delay) {
		a.cancel(ctx, req)
		v.Decision.RetryAfter = max(delay-q.MaxDelay, time.Second)
		return a.refuse(w, q, req, v)
	}
	if d.Limit != nil {
		a.opt.Answer.Header(w.Header(), req.Ops(), d, decidedAt(req.Ops()))
	}
	v.Outcome = Allowed
	return v
}

// misfit says which of ops cannot be asked by whoever does not tell how a
// request ends, nil for none.
func misfit(ops []weir.Op) error {
	for i := range ops {
		l := ops[i].Limit
		switch {
		case l == nil || ops[i].Role == weir.Deny:
		case l.Traits()&weir.Leases != 0:
			return fmt.Errorf("limit %q counts requests under way, and nobody tells here when one ends: limit by a rate, or let the gateway or the middleware carry these requests", l.Name)
		case l.Settlement != nil:
			return fmt.Errorf("limit %q is settled by the answer (count_on, refund_on, cost_from), and nobody tells here what it is: leave that out, or let the gateway or the middleware carry these requests", l.Name)
		}
	}
	return nil
}

// cannotAsk answers a request that meets a rule that cannot be asked.
func (a *Authorizer) cannotAsk(w http.ResponseWriter, v Verdict, err error) Verdict {
	a.Report("a request meets a limit that cannot be asked by a proxy", err)
	answer.Problem{Status: http.StatusInternalServerError, Detail: err.Error()}.Write(w)
	v.Outcome = Undecided
	return v
}

// undecided answers when there is no decision.
func (a *Authorizer) undecided(ctx context.Context, w http.ResponseWriter, q *Question, v Verdict, err error) Verdict {
	// A proxy that has gone takes the store's answer with it: nobody's fault.
	if ctx.Err() == nil {
		a.Report("no decision", err)
	}
	v.Outcome = Undecided
	switch {
	case errors.Is(err, weir.ErrCost):
		// Not the store's fault: were it let through, whoever finds such a cost
		// would pass.
		answer.Problem{Status: http.StatusInternalServerError, Detail: "the cost of the request is out of range"}.Write(w)
	case q.FailOpen && ctx.Err() == nil:
		v.Outcome, v.Degraded = Allowed, true
	default:
		answer.Problem{Status: http.StatusServiceUnavailable, Detail: "the limiter's store did not answer", RetryAfter: 1}.Write(w)
	}
	return v
}

// refuse answers a request that the limits refuse, as v says.
func (a *Authorizer) refuse(w http.ResponseWriter, q *Question, req *weir.Request, v Verdict) Verdict {
	why := answer.OverLimit
	if a.opt.Shed != nil {
		if _, ok := a.opt.Shed.Refused(req.Ops(), v.Decision); ok {
			why = answer.Overload
		}
	}
	a.opt.Answer.RefuseAs(w, q.Status, why, req.Ops(), v.Decision, decidedAt(req.Ops()))
	v.Outcome = Refused
	return v
}

// mayWait is [weir.Request.Patience]. An answer that is held back has a place among
// MaxWaiting until it is given.
func (a *Authorizer) mayWait(q *Question, delay time.Duration) (retryAfter time.Duration) {
	if a.waiting.Add(1) > int64(a.opt.MaxWaiting) || delay > q.MaxDelay {
		a.waiting.Add(-1)
		return max(delay-q.MaxDelay, time.Second)
	}
	return 0
}

// wait holds the answer back. It returns false when ctx ends first.
func (a *Authorizer) wait(ctx context.Context, delay time.Duration) bool {
	defer a.waiting.Add(-1)
	return backoff.Sleep(ctx, delay)
}

// cancel gives back what req was charged.
func (a *Authorizer) cancel(ctx context.Context, req *weir.Request) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer stop()
	if err := a.opt.Limiter.Cancel(ctx, req); err != nil {
		a.Report("giving back failed", err)
	}
}

// decidedAt returns the store's time of a decision, in microseconds since the
// Unix epoch; this node's, where no store was asked.
func decidedAt(ops []weir.Op) int64 {
	if len(ops) > 0 && ops[0].Now != 0 {
		return ops[0].Now
	}
	return time.Now().UnixMicro()
}
