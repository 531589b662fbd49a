package answer

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/weirlimit/weir"
)

// Problem types of the answers here.
// Source: draft-ietf-httpapi-ratelimit-headers §7, RFC 9457 §4.2.1.
const (
	QuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	ReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	Blank           = "about:blank"
)

// Problem is a problem document, RFC 9457.
type Problem struct {
	// Type is a URI. Zero means Blank.
	Type string `json:"type"`
	// Title is the type in words. Zero means the status in words.
	Title string `json:"title"`
	// Status is the HTTP status, 400 to 599.
	Status int `json:"status"`
	// Detail says what is wrong with this request and how to put it right.
	Detail string `json:"detail,omitempty"`
	// Errors are the fields that are wrong. Zero means none in particular.
	Errors []FieldError `json:"errors,omitempty"`
	// RetryAfter is in seconds and is sent as Retry-After too. Zero means that
	// waiting is not known to help.
	RetryAfter int64 `json:"retry_after,omitempty"`
}

// FieldError is what is wrong with one field of the body.
type FieldError struct {
	Detail string `json:"detail"`
	// Pointer is a JSON pointer as a URI fragment: "#/checks/3/cost".
	Pointer string `json:"pointer"`
}

// Write sends the problem as the answer.
func (p Problem) Write(rw http.ResponseWriter) {
	if p.Type == "" {
		p.Type = Blank
	}
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	body, err := json.Marshal(p)
	if err != nil { // impossible: strings and integers only
		http.Error(rw, p.Title, p.Status)
		return
	}
	if p.RetryAfter > 0 {
		rw.Header().Set("Retry-After", strconv.FormatInt(p.RetryAfter, 10))
	}
	send(rw, p.Status, body)
}

func send(rw http.ResponseWriter, status int, body []byte) {
	h := rw.Header()
	h["Content-Type"] = problemType
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	rw.WriteHeader(status)
	// An error here means that the client has gone.
	_, _ = rw.Write(body)
}

// Shared by all answers: their length is their capacity, so that adding to
// them copies them.
var (
	problemType = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
	noSniff     = []string{"nosniff"}
)

// Refuse sends the refusal d, made of ops, as the answer: 429, all header
// fields, and a problem document.
func (w *Writer) Refuse(rw http.ResponseWriter, ops []weir.Op, d weir.Decision) {
	var few [4]policy
	f := facts{policies: policies(few[:0], ops, true)}
	w.header(rw.Header(), &f, d)
	send(rw, http.StatusTooManyRequests, appendRefusal(make([]byte, 0, 512), &f, d))
}

// appendRefusal appends the problem document of a refusal.
func appendRefusal(b []byte, f *facts, d weir.Decision) []byte {
	b = append(b, `{"type":"`+QuotaExceeded+`","title":"Too many requests","status":429,"detail":"`...)
	switch {
	case d.RetryAfter == weir.Never && len(f.policies) > 0 && f.policies[0].quota > 0:
		b = append(b, "the request costs more than its limit can ever hold"...)
	case d.RetryAfter == weir.Never:
		b = append(b, "the request is refused, and waiting does not help"...)
	default:
		b = append(b, "the limit is exhausted; try again in "...)
		b = strconv.AppendInt(b, f.retry, 10)
		if b = append(b, " second"...); f.retry != 1 {
			b = append(b, 's')
		}
	}
	b = append(b, `","violated-policies":[`...)
	first := true
	for i := range f.policies {
		if p := &f.policies[i]; p.refused {
			if !first {
				b = append(b, ',')
			}
			first = false
			b = appendString(b, p.name)
		}
	}
	if first && d.Limit != nil { // refused by whoever asked, for a limit's sake
		b = appendString(b, d.Limit.Name)
	}
	b = append(b, ']')
	if f.retry > 0 {
		b = append(b, `,"retry_after":`...)
		b = strconv.AppendInt(b, f.retry, 10)
	}
	g := d.Guarantee()
	b = append(b, `,"guarantee":{"exact":`...)
	b = strconv.AppendBool(b, g.Exact)
	b = append(b, `,"degraded":`...)
	b = strconv.AppendBool(b, g.Degraded)
	return append(b, "}}"...)
}
