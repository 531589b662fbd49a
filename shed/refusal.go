package shed

import (
	"net/http"
	"slices"
	"time"

	"github.com/weirlimit/weir"
)

// ReducedCapacity is the problem type of a refusal for the service's sake.
// Source: draft-ietf-httpapi-ratelimit-headers §7.
const ReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"

// Refusal is how a request that was shed is told so over HTTP: the fields of a
// problem document, RFC 9457.
type Refusal struct {
	Type, Title, Detail string
	Status              int
	// RetryAfter is in seconds, at least 1.
	RetryAfter int64
	// Violated names the limits that refused, as RateLimit-Policy does. Nil for
	// the in-flight limit, which is in no such field.
	Violated []string
}

// Busy returns the answer to a request that Enter refused: 503, for it is not
// the client that asked for too much. When a place will be free is not known, so
// the wait is that of the options.
func (s *Shedder) Busy() Refusal {
	return refusal("this node has as many requests under way as it takes of this priority; try again later",
		int64(s.opt.InFlight.RetryAfter/time.Second))
}

// Refused returns the answer to a request that was decided by ops and refused
// with d, if it is for the fleet's sake alone: 503. It returns false for every
// other refusal, which is a 429: when a user is above a limit of their own as
// well, it is for them to slow down, and a cost that the fleet could never take
// on is too large and not too early.
func (s *Shedder) Refused(ops []weir.Op, d weir.Decision) (Refusal, bool) {
	if d.Allowed() || d.RetryAfter == weir.Never {
		return Refusal{}, false
	}
	fleet := ""
	for i := range ops {
		o := &ops[i]
		if !refuses(ops, i) {
			continue
		}
		if !s.isFleet(o.Limit) {
			return Refusal{}, false
		}
		fleet = o.Limit.Name
	}
	if fleet == "" {
		return Refusal{}, false
	}
	out := refusal("the service is at the capacity that it has for this priority; try again later",
		max(int64((d.RetryAfter-1)/time.Second)+1, 1))
	out.Violated = []string{fleet}
	return out, true
}

func refusal(detail string, retry int64) Refusal {
	return Refusal{Type: ReducedCapacity, Title: "Temporary reduced capacity", Status: http.StatusServiceUnavailable,
		Detail: detail, RetryAfter: retry}
}

func (s *Shedder) isFleet(l *weir.Limit) bool {
	return l != nil && slices.Contains(s.fleet[:], l)
}

// refuses reports whether ops[i] is why its request was refused.
func refuses(ops []weir.Op, i int) bool {
	o := &ops[i]
	if o.Decision.Allowed() || o.Verb == weir.Force || o.Verb == weir.Refund {
		return false
	}
	switch o.Role {
	case weir.Enforce, weir.Ban, weir.Deny:
		return true
	case weir.Own:
		return i+1 >= len(ops) || ops[i+1].Role != weir.Pool || !ops[i+1].Decision.Allowed()
	}
	return false
}
