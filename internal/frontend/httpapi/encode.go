package httpapi

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/checks"
	"github.com/weirlimit/weir/internal/micros"
)

// appendDecision appends the members that tell d and what r met, without the
// braces, so that more can follow.
func appendDecision(b []byte, r *weir.Request, d weir.Decision) []byte {
	b = append(b, `"allowed":`...)
	b = strconv.AppendBool(b, d.Allowed())
	b = append(b, `,"soft":`...)
	b = strconv.AppendBool(b, d.Allowed() && r.Soft())
	b = append(b, `,"borrowed":`...)
	b = strconv.AppendBool(b, d.Allowed() && r.Borrowed())
	b = append(b, `,"delay":`...)
	delay := time.Duration(0)
	if d.Allowed() {
		delay = r.Delay()
	}
	b = appendSeconds(b, delay)
	if d.Banned() {
		b = append(b, `,"banned":true`...)
	}
	b = append(b, `,"limit":`...)
	b = appendLimit(b, d.Limit)
	b = append(b, `,"remaining":`...)
	if d.Limit == nil {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, d.Remaining, 10)
	}
	b = append(b, `,"retry_after":`...)
	b = appendSeconds(b, d.RetryAfter)
	b = append(b, `,"reset_after":`...)
	b = appendSeconds(b, d.ResetAfter)
	b = append(b, `,"guarantee":`...)
	b = appendGuarantee(b, r.Guarantee())
	b = append(b, `,"limits":[`...)
	b = appendOps(b, r.Ops(), false)
	return append(b, ']')
}

// appendOps appends what each op said; with keys, the name of its counter too.
// Ops that were not asked, because a deny list spoke first, are left out.
func appendOps(b []byte, ops []weir.Op, keys bool) []byte {
	first := true
	for i := range ops {
		o := &ops[i]
		if o.Decision.Limit == nil {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(b, `{"limit":`...)
		b = appendLimit(b, o.Limit)
		b = append(b, `,"role":"`...)
		b = append(b, checks.Role(o.Role)...)
		b = append(b, '"')
		if keys {
			b = append(b, `,"key":`...)
			b = appendText(b, o.Key)
		}
		b = append(b, `,"cost":`...)
		b = strconv.AppendInt(b, o.Cost, 10)
		b = append(b, `,"allowed":`...)
		b = strconv.AppendBool(b, o.Decision.Allowed())
		b = append(b, `,"charged":`...)
		b = strconv.AppendBool(b, o.Charged && o.Verb != weir.Refund)
		b = append(b, `,"remaining":`...)
		b = strconv.AppendInt(b, o.Decision.Remaining, 10)
		b = append(b, `,"retry_after":`...)
		b = appendSeconds(b, o.Decision.RetryAfter)
		b = append(b, `,"reset_after":`...)
		b = appendSeconds(b, o.Decision.ResetAfter)
		b = append(b, '}')
	}
	return b
}

func appendLimit(b []byte, l *weir.Limit) []byte {
	if l == nil {
		return append(b, "null"...)
	}
	b = append(b, `{"name":`...)
	b = appendText(b, l.Name)
	b = append(b, `,"count":`...)
	b = strconv.AppendInt(b, l.Count, 10)
	b = append(b, `,"burst":`...)
	b = strconv.AppendInt(b, l.Burst, 10)
	b = append(b, `,"period":`...)
	b = appendSeconds(b, l.Period)
	b = append(b, `,"algorithm":"`...)
	b = append(b, l.Algorithm.Name()...)
	return append(b, `"}`...)
}

func appendGuarantee(b []byte, g weir.Guarantee) []byte {
	b = append(b, `{"exact":`...)
	b = strconv.AppendBool(b, g.Exact)
	b = append(b, `,"at_most":`...)
	if g.AtMost == weir.Unbounded {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, g.AtMost, 10)
	}
	b = append(b, `,"over_admit":`...)
	b = strconv.AppendInt(b, g.OverAdmit, 10)
	b = append(b, `,"envelope":`...)
	b = strconv.AppendInt(b, g.Envelope, 10)
	b = append(b, `,"source":"`...)
	b = append(b, g.Source.String()...)
	b = append(b, `","degraded":`...)
	b = strconv.AppendBool(b, g.Degraded)
	return append(b, '}')
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
