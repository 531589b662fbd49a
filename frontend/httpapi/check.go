package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
)

// check answers /v1/check, and with peek /v1/peek.
func (a *API) check(peek bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := calls.Get().(*call)
		defer c.release()
		if !c.read(a, w, r, maxBatchBody) {
			return
		}
		defer c.query.release(a)
		if a.readQuery(c, mayPeek|mayLease|mayHaveChecks); c.reader.err != nil {
			badInput(w, c.reader.err)
			return
		}
		if peek {
			for _, req := range c.query.reqs {
				req.Verb = weir.Peek
			}
		}
		if c.query.batch {
			a.checkAll(w, r, c)
			return
		}
		req := c.query.reqs[0]
		d, err := a.limiter.Decide(r.Context(), req)
		if err != nil {
			a.undecided(w, err)
			return
		}
		c.out = appendDecision(append(c.out[:0], '{'), req, d)
		c.out = append(c.out, '}')
		sendJSON(w, c.out)
	}
}

// checkAll answers a batch. What could make a check fail is looked for in all
// of them before the first is counted.
func (a *API) checkAll(w http.ResponseWriter, r *http.Request, c *call) {
	for i, req := range c.query.reqs {
		if err := valid(a.limiter.Match(req)); err != nil {
			err.pointer = "#/checks/" + strconv.Itoa(i) + err.pointer[1:]
			badInput(w, err)
			return
		}
	}
	out := append(c.out[:0], `{"results":[`...)
	for i, req := range c.query.reqs {
		d, err := a.limiter.Decide(r.Context(), req)
		if err != nil {
			a.undo(r.Context(), c.query.reqs[:i])
			a.undecided(w, err)
			return
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendDecision(append(out, '{'), req, d), '}')
	}
	c.out = append(out, "]}"...)
	sendJSON(w, c.out)
}

// valid reports why a request that meets ops cannot be decided.
func valid(ops []weir.Op) *inputError {
	for i := range ops {
		o := &ops[i]
		if o.Role == weir.Deny {
			continue
		}
		if o.Cost+o.Reserve > weir.MaxCost {
			return errorOf(weir.ErrCost)
		}
		if o.ID == 0 && o.Verb != weir.Peek && o.Limit.Traits()&weir.Leases != 0 {
			return errorOf(weir.ErrNoLease)
		}
	}
	return nil
}

// undoTimeout bounds a call to the store that puts a failure right.
const undoTimeout = 5 * time.Second

// undo gives back what reqs were charged.
func (a *API) undo(ctx context.Context, reqs []*weir.Request) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer stop()
	var errs []error
	for _, req := range reqs {
		errs = append(errs, a.limiter.Cancel(ctx, req))
	}
	if err := errors.Join(errs...); err != nil {
		a.logStore(err)
	}
}

func sendJSON(w http.ResponseWriter, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Cache-Control"] = noStore
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	// An error here means that the client has gone.
	_, _ = w.Write(body)
}

var noStore = []string{"no-store"}
