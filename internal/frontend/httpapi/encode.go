package httpapi

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/checks"
	"github.com/weirlimit/weir/internal/figures"
	"github.com/weirlimit/weir/internal/micros"
)

// appendDecision appends the members that tell d and what r met, without the
// braces, so that more can follow.
func appendDecision(b []byte, r *weir.Request, d weir.Decision) []byte {
	return appendAnswer(b, r, r.Ops(), d, r.Guarantee())
}

// appendAnswer is appendDecision for ops that are not r's own.
func appendAnswer(b []byte, r *weir.Request, ops []weir.Op, d weir.Decision, g weir.Guarantee) []byte {
	b = appendBool(b, `"allowed":`, d.Allowed())
	b = appendBool(b, `,"soft":`, d.Allowed() && r.Soft())
	b = appendBool(b, `,"borrowed":`, d.Allowed() && r.Borrowed())
	b = append(b, `,"delay":`...)
	delay := time.Duration(0)
	if d.Allowed() {
		delay = r.Delay()
	}
	b = appendSeconds(b, delay)
	if d.Banned() {
		b = append(b, `,"banned":true`...)
	}
	b = appendLimit(append(b, `,"limit":`...), d.Limit)
	b = append(b, `,"remaining":`...)
	if d.Limit == nil {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, d.Remaining, 10)
	}
	b = appendSeconds(append(b, `,"retry_after":`...), d.RetryAfter)
	b = appendSeconds(append(b, `,"reset_after":`...), d.ResetAfter)
	b = appendGuarantee(append(b, `,"guarantee":`...), g)
	return append(appendOps(append(b, `,"limits":[`...), ops, false), ']')
}

// appendOps appends what each op said; with keys, the name of its counter too.
// Ops that were not asked, because a deny list spoke first, are left out.
func appendOps(b []byte, ops []weir.Op, keys bool) []byte {
	from := len(b)
	for i := range ops {
		o := &ops[i]
		if o.Decision.Limit == nil {
			continue
		}
		if len(b) > from {
			b = append(b, ',')
		}
		b = appendLimit(append(b, `{"limit":`...), o.Limit)
		b = append(append(append(b, `,"role":"`...), checks.Role(o.Role)...), '"')
		if keys {
			b = appendText(append(b, `,"key":`...), figures.Key(o.Key))
		}
		b = appendInt(b, `,"cost":`, o.Cost)
		b = appendBool(b, `,"allowed":`, o.Decision.Allowed())
		b = appendBool(b, `,"charged":`, o.Charged && o.Verb != weir.Refund)
		b = appendInt(b, `,"remaining":`, o.Decision.Remaining)
		b = appendSeconds(append(b, `,"retry_after":`...), o.Decision.RetryAfter)
		b = appendSeconds(append(b, `,"reset_after":`...), o.Decision.ResetAfter)
		b = append(b, '}')
	}
	return b
}

func appendLimit(b []byte, l *weir.Limit) []byte {
	if l == nil {
		return append(b, "null"...)
	}
	b = appendText(append(b, `{"name":`...), l.Name)
	if l.RefusesAll() {
		return append(b, '}')
	}
	b = appendInt(b, `,"count":`, l.Count)
	b = appendInt(b, `,"burst":`, l.Burst)
	b = appendSeconds(append(b, `,"period":`...), l.Period)
	b = append(append(b, `,"algorithm":"`...), l.Algorithm.Name()...)
	return append(b, `"}`...)
}

func appendGuarantee(b []byte, g weir.Guarantee) []byte {
	b = appendBool(b, `{"exact":`, g.Exact)
	b = appendUnits(b, `,"at_most":`, g.AtMost)
	b = appendUnits(b, `,"over_admit":`, g.OverAdmit)
	if g.Envelope == 0 { // something else is bounded
		g.Envelope = weir.Unbounded
	}
	b = appendUnits(b, `,"envelope":`, g.Envelope)
	b = append(append(b, `,"source":"`...), g.Source.String()...)
	return append(appendBool(b, `","degraded":`, g.Degraded), '}')
}

// appendInt appends a member that is not the first, whose name is written with it.
func appendInt(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), n, 10)
}

// appendUnits is appendInt for units, null where no number holds.
func appendUnits(b []byte, name string, n int64) []byte {
	if n == weir.Unbounded {
		return append(append(b, name...), "null"...)
	}
	return appendInt(b, name, n)
}

// appendBool is appendInt for a truth.
func appendBool(b []byte, name string, v bool) []byte {
	return strconv.AppendBool(append(b, name...), v)
}

// appendSeconds appends d in seconds, rounded up to the microsecond; Never is
// null.
func appendSeconds(b []byte, d time.Duration) []byte {
	if d < 0 {
		return append(b, "null"...)
	}
	us := micros.Of(d)
	b = strconv.AppendInt(b, us/1e6, 10)
	if us %= 1e6; us == 0 {
		return b
	}
	b = append(b, '.')
	for div := int64(1e5); us > 0; div /= 10 {
		b = append(b, byte('0'+us/div))
		us %= div
	}
	return b
}

// appendText appends s as a JSON string; what is not UTF-8 becomes U+FFFD.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c < ' ':
			const hex = "0123456789abcdef"
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = utf8.AppendRune(b, c)
		}
	}
	return append(b, '"')
}

func quoteNames(names []string) string {
	b := make([]byte, 0, 64)
	for i, n := range names {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendQuote(b, n)
	}
	return string(b)
}
