package httpapi

import (
	"math"
	"net/http"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/overlay"
)

// Rulebook tells about the rules in use.
type Rulebook interface {
	// Describe returns for encoding/json at most size compiled rules, those behind the
	// first after in their order, and all of size 0.
	Describe(after, size int) any
	// MissingTier says which tiers there are, where r meets a rule that has limits for
	// tiers alone and names none; else it is empty.
	MissingTier(r *weir.Request) string
	// Explain returns for encoding/json why r meets the limits that it meets.
	// It does not ask the store, and must not keep r.
	Explain(r *weir.Request) any
}

// rulebook answers operators about the rules.
type rulebook struct {
	queries *queries
	overlay *overlay.Overlay
	book    Rulebook
	// coverage names keys as front ends count them.
	coverage *coverage
}

func (b *rulebook) routes() routes {
	return routes{
		"/v1/rules":   {"GET": b.queries.responder.sendsValue(b.listRules)},
		"/v1/explain": {"POST": b.queries.answers(maxSmallBody, mayPeek|mayLease|isExplained, b.explain)},
	}
}

// maxRules is the largest page of rules.
const maxRules = 10_000

// listRules answers GET /v1/rules: all rules, or a page of them.
func (b *rulebook) listRules(r *http.Request) (any, error) {
	in, fault := readParams(r, "size", "after")
	size := readNumber(in, &fault, "size", maxRules, 0)
	after := readNumber(in, &fault, "after", math.MaxInt32, 0)
	if fault != nil {
		return nil, fault
	}
	return b.book.Describe(int(after), int(size)), nil
}

// explain answers POST /v1/explain: what a check would answer, the names of
// its counters, and why the rules lead there. Nothing is counted.
func (b *rulebook) explain(c *call, r *http.Request) error {
	req := c.query.reqs[0]
	for i := range req.Descriptors { // the counters of another spelling are nobody's
		req.Descriptors[i].Entries = b.coverage.countedAll(req.Domain, req.Descriptors[i].Entries, false)
	}
	d, err := peekPastBans(r.Context(), b.queries.limiter, req)
	if err != nil {
		return err
	}
	out := appendDecision(append(c.out[:0], `{"decision":{`...), req, d)
	out = append(out, `},"counters":[`...)
	out = append(appendOps(out, req.Ops(), true), ']')
	c.out, err = appendMembers(out, struct {
		overlaid
		Rules any `json:"rules"`
	}{overlaidOf(b.overlay, req), b.book.Explain(req)})
	return err
}
