package grpcapi

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/checks"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/internal/once"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
)

// decision tells d and what r met.
func decision(r *weir.Request, d weir.Decision) *weirpb.Decision { return decisionOf(r, r.Ops(), d) }

// decisionOf is decision for ops that are not r's own.
func decisionOf(r *weir.Request, ops []weir.Op, d weir.Decision) *weirpb.Decision {
	out := &weirpb.Decision{
		Allowed: d.Allowed(), Limit: encodeLimit(d.Limit), Remaining: remaining(d),
		RetryAfterUs: microsOrNever(d.RetryAfter), ResetAfterUs: microsOrNever(d.ResetAfter), Guarantee: guarantee(r.Guarantee()), Banned: d.Banned(),
	}
	out.Repeated, _ = once.IsRepeated(r.Mark) // an error is the call's
	if d.Allowed() {
		out.Soft, out.Borrowed, out.DelayUs = r.Soft(), r.Borrowed(), microsOrNever(r.Delay())
	}
	for i := range ops {
		o := &ops[i]
		if o.Decision.Limit == nil { // not asked, because a deny list spoke first
			continue
		}
		out.Limits = append(out.Limits, &weirpb.LimitDecision{
			Limit: encodeLimit(o.Limit), Role: checks.Role(o.Role), Cost: o.Cost, Allowed: o.Decision.Allowed(),
			Charged: o.Charged && o.Verb != weir.Refund, Remaining: o.Decision.Remaining,
			RetryAfterUs: microsOrNever(o.Decision.RetryAfter), ResetAfterUs: microsOrNever(o.Decision.ResetAfter),
		})
	}
	return out
}

// remaining returns the units that remain under the limit that spoke, 0 where none
// applies.
func remaining(d weir.Decision) int64 {
	if d.Limit == nil {
		return 0
	}
	return d.Remaining
}

// microsOrNever returns d in microseconds, rounded up; Never is -1.
func microsOrNever(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return micros.Of(d)
}

func encodeLimit(l *weir.Limit) *weirpb.Limit {
	if l == nil {
		return nil
	}
	if l.RefusesAll() {
		return &weirpb.Limit{Name: validText(l.Name)}
	}
	return &weirpb.Limit{Name: validText(l.Name), Count: l.Count, Burst: l.Burst, PeriodUs: micros.Of(l.Period), Algorithm: l.Algorithm.Name()}
}

// validText returns s as a string field can hold it.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func guarantee(g weir.Guarantee) *weirpb.Guarantee {
	return &weirpb.Guarantee{Exact: g.Exact, AtMost: g.AtMost, OverAdmit: g.OverAdmit, Envelope: g.Envelope, Source: g.Source.String(), Degraded: g.Degraded}
}
