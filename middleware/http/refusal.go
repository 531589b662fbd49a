package httplimit

import (
	"net/http"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/admit"
)

// Refusal is why a request is not let through.
type Refusal struct {
	// Status is what the answer is expected to be: 429, or 503 when it is for
	// the service's sake, see Options.Shed.
	Status int
	// Decision and Ops are what the limits said, valid during the call. When it
	// is for what is under way on this node there are no Ops.
	Decision weir.Decision
	Ops      []weir.Op
	// RetryAfter is the least wait after which the same request can pass, one
	// second where nobody knows (answer.Wait), or weir.Never.
	RetryAfter time.Duration
}

// refuseRequest answers a request that the limits do not let through.
func (m *Middleware) refuseRequest(w http.ResponseWriter, r *http.Request, why *Refusal) {
	why.Status, why.RetryAfter = http.StatusTooManyRequests, answer.Wait(why.Ops, why.Decision)
	reason := answer.OverLimit
	if m.opt.Shed != nil {
		if s, ok := m.opt.Shed.Refused(why.Ops, why.Decision); ok {
			reason, why.Status = answer.Overload, s.Status
		}
	}
	m.writeRefusal(w, r, reason, why)
}

// answerBusy answers a request for which there is no room on this node.
func (m *Middleware) answerBusy(w http.ResponseWriter, r *http.Request) {
	s := m.opt.Shed.Busy()
	d := weir.Decision{RetryAfter: time.Duration(s.RetryAfter) * time.Second}
	m.writeRefusal(w, r, answer.Overload, &Refusal{Status: s.Status, Decision: d, RetryAfter: d.RetryAfter})
}

// writeRefusal writes the answer to a refused request.
func (m *Middleware) writeRefusal(w http.ResponseWriter, r *http.Request, reason answer.Reason, why *Refusal) {
	now := admit.DecidedAt(why.Ops)
	if m.opt.Refuse == nil {
		m.opt.Answer.Refuse(answer.ForCall(w, r), reason, why.Ops, why.Decision, now)
		return
	}
	m.opt.Answer.Header(w.Header(), why.Ops, why.Decision, now)
	w.Header().Set("Cache-Control", "no-store")
	m.opt.Refuse(w, r, why)
}
