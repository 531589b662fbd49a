package httplimit

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/identity"
	"github.com/weirlimit/weir/shed"
)

// Visit is one request that was let through. Not safe for concurrent use.
type Visit struct {
	charge
	m        *Middleware
	ctx      context.Context
	caller   *identity.Caller // nil when it is someone else's
	decision weir.Decision
	place    shed.Place // among what is under way on this node
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
	v.begin(m.limiter, m.faults, m.opt.Domain)
	passed := false
	defer func() {
		if !passed { // also when a hook panics, such as to break off the connection
			v.free()
		}
	}()
	if passed = v.fill(w, r, c, p, cost) && v.decide(w, r); !passed {
		return nil
	}
	return v
}

// fill makes the weir request of r. When it returns false w is answered.
func (v *Visit) fill(w http.ResponseWriter, r *http.Request, c *identity.Caller, p *identity.Plan, cost int64) bool {
	m := v.m
	if c == nil {
		c = m.opt.Identity.Acquire()
		v.caller = c
		c.SetHTTP(r)
	}
	if p == nil {
		p = m.plan
	}
	if p != nil {
		if err := p.Fill(&v.req, c); err != nil {
			unreadable(w, m.faults, err)
			return false
		}
	}
	if m.opt.Descriptors != nil {
		m.opt.Descriptors(r, &v.req)
	}
	switch {
	case cost != 0:
		v.req.Cost = cost
	case m.opt.Cost != nil:
		v.req.Cost = m.opt.Cost(r)
		if v.req.Cost == 0 {
			v.req.Verb = weir.Peek
		}
	}
	return true
}

// unreadable answers a request that could not be identified.
func unreadable(w http.ResponseWriter, f *faults, err error) {
	if bad, ok := errors.AsType[*identity.Error](err); ok {
		answer.Problem{Status: bad.Status, Detail: bad.Detail}.Write(w)
		return
	}
	f.report("a request was not identified", err)
	answer.Problem{Status: http.StatusInternalServerError, Detail: "the client could not be identified"}.Write(w)
}

// decide asks the shedder and the limits, and waits where they say so. When it
// returns false the request is answered, or the client has gone, and nothing is
// charged or held.
func (v *Visit) decide(w http.ResponseWriter, r *http.Request) bool {
	m := v.m
	if !v.begun() {
		m.busy(w, r)
		return false
	}
	d, err := m.limiter.Decide(r.Context(), &v.req)
	if err != nil {
		return v.undecided(w, r, err)
	}
	v.decision = d
	if !d.Allowed() {
		m.refuse(w, r, &Refusal{Decision: d, Ops: v.req.Ops()})
		return false
	}
	v.hold(r.Context())
	delay := v.req.Delay()
	return delay == 0 || v.wait(w, r, delay)
}

// begun reports whether there is room on this node for the request.
func (v *Visit) begun() bool {
	s := v.m.opt.Shed
	return s == nil || s.Enter(&v.place, shed.Priority(v.req.Priority))
}

// undecided reports whether r passes though the store gave no decision.
func (v *Visit) undecided(w http.ResponseWriter, r *http.Request, err error) bool {
	// A client that has gone takes the store's answer with it: nobody's fault.
	if r.Context().Err() == nil {
		v.faults.report("no decision", err)
	}
	// What the ops say is neither decided nor charged.
	v.req.Reset()
	p := answer.Problem{Status: http.StatusServiceUnavailable, Detail: "the limiter's store did not answer", RetryAfter: 1}
	switch {
	case errors.Is(err, weir.ErrCost):
		// Not the store's fault: were it for the hook, whoever made us compute
		// such a cost would pass.
		p = answer.Problem{Status: http.StatusInternalServerError, Detail: "the cost of the request is out of range"}
	case v.m.opt.OnError != nil:
		return v.m.opt.OnError(w, r, err)
	}
	p.Write(w)
	return false
}

// wait holds the request back. While it waits it is not under way. When it
// returns false the request is answered, or the client has gone, and what was
// charged has been given back.
func (v *Visit) wait(w http.ResponseWriter, r *http.Request, delay time.Duration) bool {
	m := v.m
	defer m.waiting.Add(-1)
	if m.waiting.Add(1) > int64(m.opt.MaxWaiting) || delay > m.opt.MaxDelay {
		v.cancel(r.Context())
		d := v.decision
		d.RetryAfter = max(delay-m.opt.MaxDelay, time.Second)
		m.refuse(w, r, &Refusal{Decision: d, Ops: v.req.Ops()})
		return false
	}
	v.place.Leave()
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Context().Done():
		v.cancel(r.Context())
		return false
	}
	if !v.begun() {
		v.cancel(r.Context())
		m.busy(w, r)
		return false
	}
	return true
}

// Decision returns what the limits said.
func (v *Visit) Decision() weir.Decision { return v.decision }

// Unsettled reports whether the request was charged by a limit that is settled
// by the answer: [Visit.Leave] then needs to know it.
func (v *Visit) Unsettled() bool { return v.req.Unsettled() }

// Header adds to h, the header of the answer, what the limits said. What an
// upstream has said in it is not loosened.
func (v *Visit) Header(h http.Header) {
	if v.decision.Limit != nil {
		v.m.answer.Header(h, v.req.Ops(), v.decision, decidedAt(v.req.Ops()))
	}
}

// Leave ends the visit: it settles the charge by the answer, and gives back
// leases. It is not to be used afterwards.
//
// status is the answer's, weir.NoAnswer if there is none or not all of it; h is
// its header, where trailers stand under their names or with
// http.TrailerPrefix; sent is how many bytes of its body were sent. They are
// looked at if Unsettled says so only.
//
// When there is no answer because the client hung up, the charge stands as it
// is: else whoever hangs up in time would never be counted.
func (v *Visit) Leave(status int, h http.Header, sent int64) {
	if v.req.Unsettled() {
		v.settle(v.ctx, weir.Result{Code: status, Bytes: sent, Number: numbers(h)})
	}
	v.release(v.ctx)
	v.free()
}

// free gives the visit back for reuse.
func (v *Visit) free() {
	m := v.m
	v.place.Leave()
	if v.caller != nil {
		v.caller.Release()
	}
	v.end()
	v.m, v.ctx, v.caller, v.decision = nil, nil, nil, weir.Decision{}
	m.visits.Put(v)
}

// numbers reads fields of h as numbers.
func numbers(h http.Header) func(string) (int64, bool) {
	return func(field string) (int64, bool) {
		if n, ok := number(h.Get(field)); ok {
			return n, ok
		}
		return number(h.Get(http.TrailerPrefix + http.CanonicalHeaderKey(field)))
	}
}

func number(s string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	return n, err == nil
}
