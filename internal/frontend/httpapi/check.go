package httpapi

import (
	"net/http"
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/admit"
)

// check answers /v1/check, and with peek /v1/peek.
func (a *API) check(peek bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := batchCall(r)
		defer c.release()
		if !c.read(a, w, r, maxBatchBody) {
			return
		}
		defer c.query.release(a)
		a.readQuery(c, mayPeek|mayLease|mayHaveChecks|mayStrict)
		if a.checkStrict(c); c.reader.err != nil {
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
	out := append(c.out[:0], `{"results":[`...)
	i, err, undo := admit.DecideAll(r.Context(), a.limiter, c.query.reqs, func(i int, d weir.Decision) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendDecision(append(out, '{'), c.query.reqs[i], d), '}')
	})
	c.out = append(out, "]}"...)
	if undo != nil {
		a.logStore(undo)
	}
	switch bad := errorOf(err); {
	case err == nil:
		sendJSON(w, c.out)
	case bad != nil:
		bad.pointer = "#/checks/" + strconv.Itoa(i) + bad.pointer[1:]
		badInput(w, bad)
	default:
		a.undecided(w, err)
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
