package httpapi

import (
	"net/http"
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/admit"
	"github.com/weirlimit/weir/internal/checks"
	"github.com/weirlimit/weir/internal/once"
)

// decisions answers checks. Nothing on their path may allocate without need.
type decisions struct{ queries *queries }

func (d *decisions) routes() routes {
	const may = mayPeek | mayLease | mayHaveChecks | mayStrict
	return routes{
		"/shouldAllowRequest": {"POST": d.queries.responder.readsBody(maxSmallBody, d.shouldAllow)},
		"/v1/check":           {"POST": d.queries.answers(maxBatchBody, may|mayKey, d.checkRequest)},
		"/v1/peek":            {"POST": d.queries.answers(maxBatchBody, may, d.peekRequests)},
		"/v1/acquire":         {"POST": d.queries.answers(maxSmallBody, mayLease|mayStrict|mustSpend|mustNotKey, d.acquire)},
		"/v1/renew":           {"POST": d.queries.answers(maxSmallBody, mayLease|mustLease, d.renewLease)},
		"/v1/release":         {"POST": d.queries.answers(maxSmallBody, mayLease|mustLease, d.release)},
	}
}

// peekRequests answers /v1/peek.
func (d *decisions) peekRequests(c *call, r *http.Request) error {
	for _, req := range c.query.reqs {
		req.Verb = weir.Peek
	}
	return d.checkRequest(c, r)
}

// checkRequest answers /v1/check.
func (d *decisions) checkRequest(c *call, r *http.Request) error {
	if c.query.batch {
		return d.checkAll(c, r)
	}
	req := c.query.reqs[0]
	d.queries.calls.Mark(once.Check, c.query.key, req)
	decision, err := d.queries.limiter.Decide(r.Context(), req)
	if err == nil {
		_, err = once.IsRepeated(req.Mark)
	}
	if err != nil {
		return err
	}
	c.out = append(appendRepeated(appendDecision(append(c.out[:0], '{'), req, decision), req.Mark), '}')
	return nil
}

// checkAll answers a batch. What could make a check fail is looked for in all
// of them before the first is counted.
func (d *decisions) checkAll(c *call, r *http.Request) error {
	out := append(c.out[:0], `{"results":[`...)
	i, err, undo := admit.DecideAll(r.Context(), d.queries.limiter, c.query.reqs, func(i int, decision weir.Decision) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendDecision(append(out, '{'), c.query.reqs[i], decision), '}')
	})
	c.out = append(out, "]}"...)
	if undo != nil {
		d.queries.responder.logStore(undo)
	}
	if bad := faultOf(err); bad != nil {
		bad.pointer = "#/checks/" + strconv.Itoa(i) + bad.pointer[1:]
		return bad
	}
	return err
}

// acquire answers /v1/acquire: a check under a lease, which is made up if the
// body names none.
func (d *decisions) acquire(c *call, r *http.Request) error {
	req := c.query.reqs[0]
	decision, err := admit.Acquire(r.Context(), d.queries.limiter, req)
	if err != nil {
		return err
	}
	c.out = appendDecision(append(c.out[:0], '{'), req, decision)
	if decision.Allowed() {
		c.out = appendText(append(c.out, `,"lease":`...), checks.WriteLease(req))
	}
	c.out = append(c.out, '}')
	return nil
}

// renewLease answers /v1/renew.
func (d *decisions) renewLease(c *call, r *http.Request) error {
	req := c.query.reqs[0]
	ops, decision, err := admit.RenewPermits(r.Context(), d.queries.limiter, req)
	if err != nil {
		return err
	}
	c.out = append(appendAnswer(append(c.out[:0], '{'), req, ops, decision, decision.Guarantee()), '}')
	return nil
}

// release answers /v1/release. Releasing what is not held is no error: a client that got
// no response asks again.
func (d *decisions) release(c *call, r *http.Request) error {
	released, err := d.queries.limiter.Release(r.Context(), c.query.reqs[0])
	c.out = append(strconv.AppendBool(append(c.out[:0], `{"released":`...), released), '}')
	return err
}
