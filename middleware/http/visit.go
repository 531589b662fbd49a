package httplimit

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/internal/admit"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/shed"
)

// Visit is one request that was let through. Not safe for concurrent use.
type Visit struct {
	life     admit.Admission
	m        *Middleware
	ctx      context.Context
	caller   *identity.Caller // kept for the next visit; nil until one has to find out who calls
	decision weir.Decision
	inflight shed.Slot // among what is under way on this node
}

// Enter identifies r and decides: nil means that w is answered, or that the
// client has gone. It may hold r back for a limit that delays. Whoever gets a
// visit must call [Visit.Leave] on it, however the request ends.
//
// c is the caller, which must stay until Leave; nil means that Enter finds it
// out. p is the plan to limit by; nil means Options.Plan. cost is in units; 0
// means what Options.Cost says. Options.Skip is not asked.
func (m *Middleware) Enter(w http.ResponseWriter, r *http.Request, c *identity.Caller, p *identity.Plan, cost int64) *Visit {
	v := m.visits.Get().(*Visit)
	v.m, v.ctx = m, r.Context()
	v.life.Begin(m.gate)
	passed := false
	defer func() {
		if !passed { // also when a hook panics, such as to break off the connection
			v.recycle()
		}
	}()
	if passed = v.fillRequest(w, r, c, p, cost) && v.decideRequest(w, r); !passed {
		return nil
	}
	return v
}

// fillRequest makes the weir request of r. When it returns false w is answered.
func (v *Visit) fillRequest(w http.ResponseWriter, r *http.Request, c *identity.Caller, p *identity.Plan, cost int64) bool {
	m := v.m
	if c == nil {
		if v.caller == nil {
			v.caller = m.opt.Identity.Acquire()
		}
		c = v.caller
		c.SetHTTP(r)
	}
	if err := m.Describe(&v.life.Req, r, c, p, cost); err != nil {
		unreadable(answer.ForCall(w, r), m.gate.Faults, err)
		return false
	}
	return true
}

// Describe fills req, which is empty, with what [Middleware.Enter] decides about r, and
// decides nothing. Its arguments are as those of Enter, but that c is required and must
// stay for as long as req is used. It returns an *identity.Error for a request that has no
// canonical form.
func (m *Middleware) Describe(req *weir.Request, r *http.Request, c *identity.Caller, p *identity.Plan, cost int64) error {
	req.Domain, req.NewLease, req.Facts = m.gate.Domain, true, c.Facts()
	if p == nil {
		p = m.opt.Plan
	}
	if p != nil {
		if err := p.Fill(req, c); err != nil {
			return err
		}
	}
	if m.opt.Descriptors != nil {
		m.opt.Descriptors(r, req)
	}
	switch {
	case cost != 0:
		req.Cost = cost
	case m.opt.Cost != nil:
		admit.SetCost(req, m.opt.Cost(r))
	}
	return nil
}

// unreadable answers a request that could not be identified.
func unreadable(w http.ResponseWriter, f *faults.Log, err error) {
	if bad, ok := errors.AsType[*identity.Error](err); ok {
		answer.Problem{Status: bad.Status, Detail: bad.Detail}.Write(w)
		return
	}
	f.Report("a request was not identified", err)
	answer.Problem{Status: http.StatusInternalServerError, Detail: "the client could not be identified"}.Write(w)
}

// decideRequest asks the shedder and the limits, and waits where they say so; meanwhile the
// request is not under way. When it returns false the request is answered, or the client
// has gone, and nothing is charged or held.
func (v *Visit) decideRequest(w http.ResponseWriter, r *http.Request) bool {
	m := v.m
	if !v.enterNode() {
		m.answerBusy(w, r)
		return false
	}
	d, err := v.life.Decide(v.ctx)
	if err != nil {
		return v.undecided(w, r, err)
	}
	v.decision = d
	if !d.Allowed() {
		m.refuseRequest(w, r, &Refusal{Decision: d, Ops: v.life.Req.Ops()})
		return false
	}
	if v.life.Delayed() {
		v.inflight.Leave()
		if v.life.AwaitDelay(v.ctx) != nil {
			return false
		}
		if !v.enterNode() {
			v.life.Cancel(v.ctx)
			m.answerBusy(w, r)
			return false
		}
	}
	v.life.NotePassed()
	return true
}

// enterNode reports whether there is room on this node for the request.
func (v *Visit) enterNode() bool {
	s := v.m.opt.Shed
	return s == nil || s.Enter(&v.inflight, shed.Priority(v.life.Req.Priority))
}

// undecided reports whether r passes though the store gave no decision.
func (v *Visit) undecided(w http.ResponseWriter, r *http.Request, err error) bool {
	p := answer.Problem{Status: http.StatusServiceUnavailable, Detail: "the limiter's store did not answer", RetryAfter: 1}
	switch why := v.life.Undecided(v.ctx, err); {
	case why == admit.CostOutOfRange:
		p = answer.Problem{Status: http.StatusInternalServerError, Detail: "the cost of the request is out of range"}
	case why == admit.StoreFailed && v.m.opt.OnError != nil:
		return v.m.opt.OnError(w, r, err)
	}
	p.Write(answer.ForCall(w, r))
	return false
}

// Decision returns what the limits said.
func (v *Visit) Decision() weir.Decision { return v.decision }

// Unsettled reports whether [Visit.Leave] needs to know the answer: the request was
// charged by a limit that is settled by it, or observers are told how requests
// end.
func (v *Visit) Unsettled() bool { return v.life.Unsettled() }

// Header adds to h, the header of the answer, what the limits said. What an
// upstream has said in it is not loosened.
func (v *Visit) Header(h http.Header) {
	if v.decision.Limit != nil {
		ops := v.life.Req.Ops()
		v.m.opt.Answer.Header(h, withStated(ops, h), v.decision, admit.DecidedAt(ops))
	}
}

// withStated returns ops as they are once the cost that h states is charged, which is after
// the fields were sent: they tell a client what it has left, not what it had.
func withStated(ops []weir.Op, h http.Header) []weir.Op {
	isCopy := false
	for i := range ops {
		if !ops[i].Charged || ops[i].Limit == nil {
			continue
		}
		a := ops[i].Written().Adjustment
		if a == nil || a.Header == "" {
			continue
		}
		n, ok := parseNumber(h.Get(a.Header))
		if !ok || n < 0 {
			continue
		}
		if !isCopy {
			ops, isCopy = slices.Clone(ops), true
		}
		d := ops[i].Decision
		d.Remaining = max(d.Remaining+ops[i].Cost-min(n, weir.MaxCost), 0)
		ops[i].Answer = ops[i].WithDecision(d)
	}
	return ops
}

// Leave ends the visit: it tells observers of the answer, settles the charge by it,
// and gives back leases. It is not to be used afterwards.
//
// status is the answer's, weir.NoAnswer if there is none or not all of it; h is
// its header, where trailers stand under their names or with
// http.TrailerPrefix; sent is how many bytes of its body were sent. They are
// looked at if Unsettled says so only.
//
// Where there is no answer because the client hung up, status is weir.ClientGone, or
// weir.NoAnswer where the request's context tells it.
func (v *Visit) Leave(status int, h http.Header, sent int64) {
	if v.life.Unsettled() {
		v.life.Adjust(v.ctx, weir.Result{Code: status, Bytes: sent, Number: numbers(h)})
	}
	v.life.Release(v.ctx)
	v.recycle()
}

// recycle gives the visit back for reuse.
func (v *Visit) recycle() {
	m := v.m
	v.inflight.Leave()
	if v.caller != nil {
		v.caller.Clear()
	}
	v.life.End()
	v.m, v.ctx, v.decision = nil, nil, weir.Decision{}
	m.visits.Put(v)
}

// numbers reads fields of h as numbers.
func numbers(h http.Header) func(string) (int64, bool) {
	return func(field string) (int64, bool) {
		if n, ok := parseNumber(h.Get(field)); ok {
			return n, ok
		}
		return parseNumber(h.Get(http.TrailerPrefix + http.CanonicalHeaderKey(field)))
	}
}

func parseNumber(s string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	return n, err == nil
}
