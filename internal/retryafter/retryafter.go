// Package retryafter reads from another's response how long to leave it alone.
package retryafter

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// Bounds on what is read of another's response.
const (
	maxField   = 8 << 10 // bytes of all lines of one field
	maxMembers = 64
)

// Parse returns how long a response asks to stay away, and false if it does not. now is
// the time of this node.
//
// It is Retry-After on a 429 or 503, and else the longest t of a limit in
// RateLimit that has nothing left, on any response that is not from a cache; or
// RateLimit-Reset where RateLimit-Remaining is 0, which earlier drafts had in its
// place.
//
// Source: RFC 9110 §10.2.3, draft-ietf-httpapi-ratelimit-headers-11 and -06.
func Parse(res *http.Response, now time.Time) (time.Duration, bool) {
	h := res.Header
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable {
		if wait, ok := retryAfter(h.Get("Retry-After"), h.Get("Date"), now); ok {
			return wait, wait > 0
		}
	}
	if age := h.Get("Age"); age != "" && strings.Trim(age, "0") != "" {
		return 0, false
	}
	if wait, ok := exhausted(h["Ratelimit"]); ok {
		return wait, true
	}
	left, known := digits(h.Get("RateLimit-Remaining"))
	reset, timed := digits(h.Get("RateLimit-Reset"))
	if !known || !timed || left > 0 || reset == 0 {
		return 0, false
	}
	return seconds(reset), true
}

// retryAfter reads a Retry-After. A date counts from date, the response's own, for its
// clock may be another than ours.
func retryAfter(v, date string, now time.Time) (time.Duration, bool) {
	if sec, ok := digits(v); ok {
		return seconds(sec), true
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	if sent, err := http.ParseTime(date); err == nil {
		now = sent
	}
	return max(at.Sub(now), 0), true
}

// digits reads an integer without a sign; one that is too large reads as the largest.
func digits(s string) (n int64, ok bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		n = math.MaxInt64
	}
	return n, true
}

// seconds returns n seconds, cut to what a duration holds.
func seconds(n int64) time.Duration {
	return time.Duration(min(n, int64(math.MaxInt64/time.Second))) * time.Second
}

// exhausted returns the longest wait that the lines of a RateLimit field state for limits
// that have nothing left, and false if they state none. A field that is malformed states
// nothing.
func exhausted(lines []string) (time.Duration, bool) {
	size := 0
	for _, l := range lines {
		size += len(l) + 1
	}
	if size == 0 || size > maxField {
		return 0, false
	}
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil || len(list) > maxMembers {
		return 0, false
	}
	longest := int64(0)
	for _, m := range list {
		limit, ok := m.(httpsfv.Item)
		if _, isString := limit.Value.(string); !ok || !isString {
			return 0, false // the draft: every member is a String
		}
		left, ok := integer(limit.Params, "r")
		if !ok {
			return 0, false
		}
		wait, ok := integer(limit.Params, "t")
		if _, has := limit.Params.Get("t"); has && !ok {
			return 0, false
		}
		if left == 0 {
			longest = max(longest, wait)
		}
	}
	return seconds(longest), longest > 0
}

// integer returns the parameter of a name, and false if it is none of at least 0.
func integer(p *httpsfv.Params, name string) (int64, bool) {
	v, _ := p.Get(name)
	n, ok := v.(int64)
	return n, ok && n >= 0
}
