package httpapi

import (
	"net/http"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/overlay"
)

// Rulebook tells about the rules in use.
type Rulebook interface {
	// Describe returns the compiled rules for encoding/json.
	Describe() any
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
		"/v1/rules":   {"GET": b.queries.responder.gets(func(*http.Request) (any, error) { return b.book.Describe(), nil })},
		"/v1/explain": {"POST": b.queries.answers(maxSmallBody, mayPeek|mayLease|isExplained, b.explain)},
	}
}

// explain answers POST /v1/explain: what a check would answer, the names of
// its counters, and why the rules lead there. Nothing is counted.
func (b *rulebook) explain(c *call, r *http.Request) error {
	req := c.query.reqs[0]
	for i := range req.Descriptors { // the counters of another spelling are nobody's
		req.Descriptors[i].Entries = b.coverage.countedAll(req.Domain, req.Descriptors[i].Entries, false)
	}
	d, err := look(r.Context(), b.queries.limiter, req)
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
