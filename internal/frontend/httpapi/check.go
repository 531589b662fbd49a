package httpapi

import (
	"net/http"
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/admit"
)

// peek answers /v1/peek.
func (a *API) peek(c *call, w http.ResponseWriter, r *http.Request) error {
	for _, req := range c.query.reqs {
		req.Verb = weir.Peek
	}
	return a.check(c, w, r)
}

// check answers /v1/check.
func (a *API) check(c *call, w http.ResponseWriter, r *http.Request) error {
	if c.query.batch {
		return a.checkAll(c, w, r)
	}
	req := c.query.reqs[0]
	d, err := a.limiter.Decide(r.Context(), req)
	if err != nil {
		return err
	}
	c.out = appendDecision(append(c.out[:0], '{'), req, d)
	return c.send(w, '}')
}

// checkAll answers a batch. What could make a check fail is looked for in all
// of them before the first is counted.
func (a *API) checkAll(c *call, w http.ResponseWriter, r *http.Request) error {
	out := append(c.out[:0], `{"results":[`...)
	i, err, undo := admit.DecideAll(r.Context(), a.limiter, c.query.reqs, func(i int, d weir.Decision) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendDecision(append(out, '{'), c.query.reqs[i], d), '}')
	})
	c.out = append(out, ']')
	if undo != nil {
		a.logStore(undo)
	}
	if err == nil {
		return c.send(w, '}')
	}
	if bad := faultOf(err); bad != nil {
		bad.pointer = "#/checks/" + strconv.Itoa(i) + bad.pointer[1:]
		return bad
	}
	return err
}

// send sends what was written, whose last byte is to be end.
func (c *call) send(w http.ResponseWriter, end byte) error {
	c.out = append(c.out, end)
	sendJSON(w, c.out)
	return nil
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
