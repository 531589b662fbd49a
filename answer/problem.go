package answer

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
)

// Problem types of the answers here.
// Source: draft-ietf-httpapi-ratelimit-headers §7, RFC 9457 §4.2.1.
const (
	QuotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	ReducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	AbnormalUsage   = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"
	blank           = "about:blank"
)

// Problem is a problem document, RFC 9457.
type Problem struct {
	// Type is a URI. Zero means about:blank.
	Type string `json:"type"`
	// Title is the type in words. Zero means the status in words.
	Title string `json:"title"`
	// Status is the HTTP status, 400 to 599.
	Status int `json:"status"`
	// Code is the problem for programs, in gRPC's words: a reason such as SETTLED where there
	// is one, else a status. Zero means that of Status.
	Code string `json:"code"`
	// Detail says what is wrong with this request and how to put it right.
	Detail string `json:"detail,omitempty"`
	// Errors are the fields that are wrong. Zero means none in particular.
	Errors []FieldError `json:"errors,omitempty"`
	// RetryAfter is in seconds and is sent as Retry-After too. Zero means that
	// waiting is not known to help.
	RetryAfter int64 `json:"retry_after,omitempty"`
	// Reserved and Actual are what a reservation came to that was settled before. Nil means
	// that the problem is another.
	Reserved *int64 `json:"reserved,omitempty"`
	Actual   *int64 `json:"actual,omitempty"`
	// TextOnly sends Detail alone, as text: for proxies that make a call of gRPC of the answer,
	// and its message of the body.
	TextOnly bool `json:"-"`
}

// FieldError is what is wrong with one field of the body or of the header, or one parameter of the query.
type FieldError struct {
	Detail string `json:"detail"`
	// Pointer is a JSON pointer as a URI fragment: "#/checks/3/cost".
	Pointer string `json:"pointer,omitempty"`
	// Parameter is the name of the parameter.
	Parameter string `json:"parameter,omitempty"`
	// Header is the name of the header field.
	Header string `json:"header,omitempty"`
}

// Write sends the problem as the answer.
func (p Problem) Write(rw http.ResponseWriter) {
	if p.Type == "" {
		p.Type = blank
	}
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	if p.Code == "" {
		p.Code = codeWord(p.Status)
	}
	body, err := json.Marshal(p)
	if err != nil { // impossible: strings and integers only
		http.Error(rw, p.Title, p.Status)
		return
	}
	if p.RetryAfter > 0 {
		rw.Header().Set("Retry-After", strconv.FormatInt(p.RetryAfter, 10))
	}
	if c, ok := rw.(call); ok {
		c.sendStatus(p.Status, p.Detail)
		return
	}
	kind := problemType
	if p.TextOnly {
		kind, body = textType, []byte(p.Detail)
	}
	sendBody(rw, kind, p.Status, body)
}

// codeWord returns the code of a status of HTTP: gRPC's word for it, or TOO_LARGE of a request
// that is, for which gRPC has none.
func codeWord(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return "UNIMPLEMENTED"
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	case http.StatusConflict:
		return "ABORTED"
	case http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusRequestHeaderFieldsTooLarge:
		return "TOO_LARGE"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	}
	if status < http.StatusInternalServerError {
		return "INVALID_ARGUMENT"
	}
	return "INTERNAL"
}

func sendBody(rw http.ResponseWriter, kind []string, status int, body []byte) {
	h := rw.Header()
	h["Content-Type"] = kind
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
	textType    = []string{"text/plain; charset=utf-8"}
	noStore     = []string{"no-store"}
	noSniff     = []string{"nosniff"}
)

// Reason is why a request is refused.
type Reason uint8

const (
	// OverLimit: a limit is exhausted, or the request costs more than it holds.
	// The problem is QuotaExceeded, the status Options.Status.
	OverLimit Reason = iota
	// Overload: the service sheds load, whoever asks. The problem is
	// ReducedCapacity, the status 503.
	Overload
	// Abuse: the client behaves as none should. The problem is AbnormalUsage,
	// the status Options.Status.
	Abuse

	// banning is of a refusal that is OverLimit and by a ban.
	banning
)

var reasons = [...]struct{ problem, title, exhausted, never string }{
	OverLimit: {QuotaExceeded, "Too many requests",
		"the limit is exhausted", "the request is refused, and waiting does not help"},
	Overload: {ReducedCapacity, "Temporarily reduced capacity",
		"the service takes fewer requests at present", "the service takes fewer requests at present"},
	Abuse: {AbnormalUsage, "Abnormal usage detected",
		"the requests of this client are out of the ordinary", "the requests of this client are out of the ordinary, and waiting does not help"},
	banning: {AbnormalUsage, "Banned", "banned until ", "banned"},
}

// Refuse sends the refusal d, made of ops, as the answer: a status, all header
// fields, and a problem document. now is as for Header.
//
// Who refuses on grounds of its own has no ops, and says in d how long clients
// should stay away, and may name a limit there. A d without a wait is told as
// one second.
func (w *Writer) Refuse(rw http.ResponseWriter, why Reason, ops []weir.Op, d weir.Decision, now int64) {
	w.RefuseAs(rw, 0, why, ops, d, now)
}

// RefuseAs is Refuse with a status in place of its own, 400 to 599, for whoever
// hands the answer on and knows only some. Zero means its own.
func (w *Writer) RefuseAs(rw http.ResponseWriter, status int, why Reason, ops []weir.Op, d weir.Decision, now int64) {
	var buf [4]policy
	f := w.factsOf(buf[:0], ops, d, true, now)
	w.writeFields(rw.Header(), &f)
	w.allowed(rw.Header())
	if status == 0 {
		status = w.statusOf(why)
	}
	if c, ok := rw.(call); ok {
		c.sendStatus(status, Detail(ops, d))
		return
	}
	sendBody(rw, problemType, status, appendRefusal(make([]byte, 0, 512), why, status, &f, ops, d))
}

// statusOf returns the HTTP status of a refusal.
func (w *Writer) statusOf(why Reason) int {
	if why == Overload {
		return http.StatusServiceUnavailable
	}
	return w.status
}

// Detail returns the sentence in which the problem document of the refusal d, made of
// ops, says why: "the limit login is exhausted; try again in 20 seconds". It is for
// protocols that have no problem document.
func Detail(ops []weir.Op, d weir.Decision) string {
	var buf [4]policy
	f := facts{policies: statedPolicies(buf[:0], ops, d, true), now: time.Now().UnixMicro(), hidden: IsHidden(ops, d)}
	f.retry = retrySeconds(f.policies, d)
	why := OverLimit
	if d.Banned() {
		why = banning
	}
	return unescape.Replace(string(appendDetail(nil, why, &f, ops, d)))
}

// unescape takes back what appendText does to a name.
var unescape = strings.NewReplacer(`\"`, `"`, `\\`, `\`)

// appendDetail appends, as the content of a JSON string, why a request is refused.
func appendDetail(b []byte, why Reason, f *facts, ops []weir.Op, d weir.Decision) []byte {
	r := &reasons[why]
	switch {
	case why == banning && d.RetryAfter != weir.Never:
		b = endOfBan(ops, d, f.now).AppendFormat(append(b, r.exhausted...), time.RFC3339)
	case d.RetryAfter != weir.Never:
		switch {
		case why == OverLimit && f.hidden:
			b = append(b, "too many requests"...)
		case why == OverLimit && underWay(d):
			b = append(b, "too many requests are under way"...)
		case why == OverLimit && d.Limit != nil:
			b = append(b, "the limit "...)
			b = appendText(b, d.Limit.Name)
			b = append(b, " is exhausted"...)
		default:
			b = append(b, r.exhausted...)
		}
		b = append(b, "; try again in "...)
		b = strconv.AppendInt(b, f.retry, 10)
		if b = append(b, " second"...); f.retry != 1 {
			b = append(b, 's')
		}
	case why == OverLimit && !f.hidden && len(f.policies) > 0 && f.policies[0].quota > 0:
		b = append(b, "the request costs more than its limit can ever hold"...)
	default:
		b = append(b, r.never...)
	}
	return b
}

// appendRefusal appends the problem document of a refusal.
func appendRefusal(b []byte, why Reason, status int, f *facts, ops []weir.Op, d weir.Decision) []byte {
	banned := why == OverLimit && d.Banned()
	if banned {
		why = banning
	}
	r := &reasons[why]
	b = append(b, `{"type":"`...)
	b = append(b, r.problem...)
	b = append(b, `","title":"`...)
	b = append(b, r.title...)
	b = append(b, `","status":`...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, `,"detail":"`...)
	b = appendDetail(b, why, f, ops, d)
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
	if first && d.Limit != nil && !banned && !f.hidden { // refused by whoever asked, for a limit's sake
		b = appendString(b, d.Limit.Name)
	}
	b = append(b, ']')
	if f.retry > 0 {
		b = append(b, `,"retry_after":`...)
		b = strconv.AppendInt(b, f.retry, 10)
	}
	return append(b, '}')
}
