package httpapi

import (
	"encoding/json"
	"net/http"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
)

// Rulebook tells about the rules in use.
type Rulebook interface {
	// Describe returns the compiled rules for encoding/json.
	Describe() any
	// Explain returns for encoding/json why r meets the limits that it meets.
	// It does not ask the store, and must not keep r.
	Explain(r *weir.Request) any
}

// rules answers GET /v1/rules.
func (a *API) rules(w http.ResponseWriter, r *http.Request) {
	a.sendValue(w, a.opt.Rulebook.Describe())
}

// explain answers POST /v1/explain: what a check would answer, the names of
// its counters, and why the rules lead there. Nothing is counted.
func (a *API) explain(c *call, w http.ResponseWriter, r *http.Request) error {
	if a.readQuery(c, mayPeek|mayLease|mayStrict); c.reader.err != nil {
		return c.reader.err
	}
	req := c.query.reqs[0]
	d, err := a.look(r.Context(), req)
	if err != nil {
		return err
	}
	out := appendDecision(append(c.out[:0], `{"decision":{`...), req, d)
	out = append(out, `},"counters":[`...)
	out = append(appendOps(out, req.Ops(), true), ']')
	if out, err = a.appendOverlay(out, req); err != nil {
		a.unsendable(w, err)
		return nil
	}
	if a.opt.Rulebook != nil {
		why, err := json.Marshal(a.opt.Rulebook.Explain(req))
		if err != nil {
			a.unsendable(w, err)
			return nil
		}
		out = append(append(out, `,"rules":`...), why...)
	}
	c.out = out
	return c.send(w, '}')
}

func (a *API) sendValue(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		a.unsendable(w, err)
		return
	}
	sendJSON(w, b)
}

// unsendable answers when what the rules said of themselves is not JSON.
func (a *API) unsendable(w http.ResponseWriter, err error) {
	a.opt.Log.Error("rules cannot be encoded", "err", err)
	answer.Problem{Status: http.StatusInternalServerError, Detail: "the rules cannot be encoded"}.Write(w)
}
