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
	"github.com/weirlimit/weir/internal/admit"
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

// Decide answers q. When the request is let through it adds to w's header what
// the limits said, and writes nothing; else w is answered, with a problem
// document as its body. It may wait, see Question.MaxDelay; when ctx ends
// meanwhile, what was charged is given back.
func (a *Authorizer) Decide(ctx context.Context, w http.ResponseWriter, q *Question) Verdict {
	c := a.opt.Identity.Acquire()
	defer c.Release()
	c.Set(q.Facts)
	life := a.admissions.Get().(*admit.Admission)
	defer a.admissions.Put(life)
	defer life.End()
	life.Begin(a.gate)
	life.MaxDelay = q.MaxDelay
	req := &life.Req
	req.Facts = c.Facts()

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
	if req.Cost = cost; q.Domain != "" {
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
	return a.decide(ctx, w, q, life, v)
}

func routeName(r *Route) string {
	if r.Name != "" {
		return r.Name
	}
	return r.Host + r.Path
}

// Problem returns the problem document for a request that could not be identified.
func Problem(err error) *answer.Problem {
	p := &answer.Problem{Status: http.StatusBadRequest, Detail: "the request cannot be read"}
	if bad, ok := errors.AsType[*identity.Error](err); ok {
		p.Status, p.Detail = bad.Status, bad.Detail
	}
	return p
}

// unreadable answers a request that could not be identified.
func (a *Authorizer) unreadable(w http.ResponseWriter, v Verdict, err error) Verdict {
	Problem(err).Write(w)
	v.Outcome = Unreadable
	return v
}

// decide asks the limits.
func (a *Authorizer) decide(ctx context.Context, w http.ResponseWriter, q *Question, life *admit.Admission, v Verdict) Verdict {
	req, decide := &life.Req, life.Decide
	if q.Peek {
		decide = life.Look
	}
	d, err := decide(ctx)
	if misfit := misfit(req.Ops()); misfit != nil {
		if err == nil {
			life.Cancel(ctx)
		}
		return a.cannotAsk(w, v, misfit)
	}
	if err != nil {
		return a.undecided(w, q, v, life.Undecided(ctx, err))
	}
	v.Decision, v.Soft = d, req.Soft()
	if !d.Allowed() {
		return a.refuse(w, q, req, v)
	}
	if life.Wait(ctx) != nil {
		v.Decision.RetryAfter = time.Second
		return a.refuse(w, q, req, v)
	}
	if d.Limit != nil {
		a.opt.Answer.Header(w.Header(), req.Ops(), d, admit.DecidedAt(req.Ops()))
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
			return fmt.Errorf("limit %q counts requests in flight, and their end is not known here: limit by a rate, or let the gateway or the middleware carry these requests", l.Name)
		case l.Adjustment != nil:
			return fmt.Errorf("limit %q is adjusted by the upstream response (count_on, refund_on, cost_from), which is not known here: remove that, or let the gateway or the middleware carry these requests", l.Name)
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
func (a *Authorizer) undecided(w http.ResponseWriter, q *Question, v Verdict, why admit.Reason) Verdict {
	v.Outcome = Undecided
	switch {
	case why == admit.CostOutOfRange:
		answer.Problem{Status: http.StatusInternalServerError, Detail: "the cost of the request is out of range"}.Write(w)
	case why == admit.StoreFailed && q.FailOpen:
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
	a.opt.Answer.RefuseAs(w, q.Status, why, req.Ops(), v.Decision, admit.DecidedAt(req.Ops()))
	v.Outcome = Refused
	return v
}
