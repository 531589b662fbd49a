package authorize

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

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
	// Degraded: the store could not give its usual guarantee, or gave no decision and
	// it was let through.
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
		i := a.routes.Find(c)
		if err := c.Err(); err != nil {
			return a.unreadable(w, q, v, err)
		}
		if i >= 0 {
			v.Route = routeName(&a.opt.Routes[i])
		}
		if plan, cost = a.routes.PlanFor(c, i, plan); plan == nil {
			v.Outcome, v.Decision = Allowed, weir.AllowUnlimited()
			return v
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
		return a.unreadable(w, q, v, err)
	}
	if q.Cost != 0 {
		req.Cost = q.Cost
	}
	if q.Peek {
		req.Verb = weir.Peek
	}
	return a.askLimits(ctx, w, q, life, v)
}

func routeName(r *identity.Route) string {
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

// Code returns the status of a call of gRPC with this outcome.
func (o Outcome) Code() codes.Code {
	return [...]codes.Code{Allowed: codes.OK, Refused: codes.ResourceExhausted, Unreadable: codes.InvalidArgument, Undecided: codes.Unavailable}[o]
}

// problem answers a request that is not let through. Of the answer to a call of gRPC
// proxies make a status: Envoy takes the code from its fields, or makes its own of the
// HTTP status, which clients may try again at once, and the message from its body.
func problem(w http.ResponseWriter, q *Question, o Outcome, p answer.Problem) {
	if p.TextOnly = isCall(q); p.TextOnly {
		w.Header().Set("Grpc-Status", strconv.Itoa(int(o.Code())))
	}
	p.Write(w)
}

func isCall(q *Question) bool { return answer.IsCall(q.Header.Get("Content-Type")) }

// unreadable answers a request that could not be identified.
func (a *Authorizer) unreadable(w http.ResponseWriter, q *Question, v Verdict, err error) Verdict {
	problem(w, q, Unreadable, *Problem(err))
	v.Outcome = Unreadable
	return v
}

// askLimits asks the limits.
func (a *Authorizer) askLimits(ctx context.Context, w http.ResponseWriter, q *Question, life *admit.Admission, v Verdict) Verdict {
	req, decide := &life.Req, life.Decide
	if q.Peek {
		decide = life.DecidePeek
	}
	d, err := decide(ctx)
	if misfit := findMisfit(req.Ops()); misfit != nil {
		if err == nil {
			life.Cancel(ctx)
		}
		return a.cannotAsk(w, q, v, misfit)
	}
	if err != nil {
		return a.undecided(w, q, v, life.Undecided(ctx, err))
	}
	v.Decision, v.Soft, v.Degraded = d, req.Soft(), d.Degraded()
	if !d.Allowed() {
		return a.refuseRequest(w, q, req, v)
	}
	if life.AwaitDelay(ctx) != nil {
		v.Decision.RetryAfter = time.Second
		return a.refuseRequest(w, q, req, v)
	}
	if d.Limit != nil {
		a.opt.Answer.Header(w.Header(), req.Ops(), d, admit.DecidedAt(req.Ops()))
	}
	v.Outcome = Allowed
	return v
}

// findMisfit says which of ops cannot be asked by whoever does not tell how a
// request ends, nil for none.
func findMisfit(ops []weir.Op) error {
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
func (a *Authorizer) cannotAsk(w http.ResponseWriter, q *Question, v Verdict, err error) Verdict {
	a.Report("a request meets a limit that cannot be asked by a proxy", err)
	problem(w, q, Undecided, answer.Problem{Status: http.StatusInternalServerError, Detail: err.Error()})
	v.Outcome = Undecided
	return v
}

// undecided answers when there is no decision.
func (a *Authorizer) undecided(w http.ResponseWriter, q *Question, v Verdict, why admit.Reason) Verdict {
	v.Outcome = Undecided
	switch {
	case why == admit.CostOutOfRange:
		problem(w, q, Undecided, answer.Problem{Status: http.StatusInternalServerError, Detail: "the cost of the request is out of range"})
	case why == admit.StoreFailed && q.FailOpen:
		v.Outcome, v.Degraded = Allowed, true
	default:
		problem(w, q, Undecided, answer.Problem{Status: http.StatusServiceUnavailable, Detail: "the limiter's store did not answer", RetryAfter: 1})
	}
	return v
}

// refuseRequest answers a request that the limits refuse, as v says.
func (a *Authorizer) refuseRequest(w http.ResponseWriter, q *Question, req *weir.Request, v Verdict) Verdict {
	why := answer.OverLimit
	if a.opt.Shed != nil {
		if _, ok := a.opt.Shed.Refused(req.Ops(), v.Decision); ok {
			why = answer.Overload
		}
	}
	v.Outcome = Refused
	at := admit.DecidedAt(req.Ops())
	if !isCall(q) {
		a.opt.Answer.RefuseAs(w, q.Status, why, req.Ops(), v.Decision, at)
		return v
	}
	_, fields, _, status := a.opt.Answer.Refusal(nil, nil, why, req.Ops(), v.Decision, at)
	for _, f := range fields {
		w.Header().Set(f.Name, string(f.Value))
	}
	problem(w, q, Refused, answer.Problem{Status: cmp.Or(q.Status, status), Detail: answer.Detail(req.Ops(), v.Decision)})
	return v
}
