package answer

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir"
)

// Names of the sets of header fields.
const (
	// IETF08 is the pair RateLimit and RateLimit-Policy as structured lists,
	// with every enforced limit that the request met.
	// Source: draft-ietf-httpapi-ratelimit-headers, revisions 08 to 11.
	IETF08 = "ietf-08"
	// IETF06 is RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset, the
	// last in seconds from now, of the most restrictive limit.
	// Source: draft-ietf-httpapi-ratelimit-headers, revisions 00 to 06.
	IETF06 = "ietf-06"
	// XRateLimit is X-RateLimit-Limit and X-RateLimit-Remaining of the most
	// restrictive limit, and X-RateLimit-Retry-After on refusals.
	XRateLimit = "x-ratelimit"
	// None is no fields but Retry-After.
	None = "none"
)

// Sets lists the names that Options.Headers accepts.
func Sets() []string {
	names := make([]string, len(sets))
	for i, s := range sets {
		names[i] = s.name
	}
	return names
}

// value is what a header field tells.
type value uint8

const (
	allPolicies value = iota // members of RateLimit-Policy
	allStates                // members of RateLimit
	quota                    // of the most restrictive limit, and so on:
	remaining
	reset
	retryAfter // of the refusal
)

// field is one header field of a set.
type field struct {
	// key is the field's name in canonical form.
	key   string
	value value
}

// list reports whether the field may stand on several lines.
func (f field) list() bool { return f.value == allPolicies || f.value == allStates }

var sets = []struct {
	name   string
	fields []field
}{
	{IETF08, []field{{"Ratelimit-Policy", allPolicies}, {"Ratelimit", allStates}}},
	{IETF06, []field{{"Ratelimit-Limit", quota}, {"Ratelimit-Remaining", remaining}, {"Ratelimit-Reset", reset}}},
	{XRateLimit, []field{{"X-Ratelimit-Limit", quota}, {"X-Ratelimit-Remaining", remaining}, {"X-Ratelimit-Retry-After", retryAfter}}},
	{None, nil},
}

// maxFields is how many fields all sets and Retry-After make.
const maxFields = 9

// facts is what the fields are made of.
type facts struct {
	policies []policy
	// retry is the seconds of Retry-After, or 0 if there is none.
	retry int64
}

// append appends v as f has it; nothing, if f has nothing to tell.
func (f *facts) append(b []byte, v value) []byte {
	if v == retryAfter {
		if f.retry > 0 {
			b = strconv.AppendInt(b, f.retry, 10)
		}
		return b
	}
	for i := range f.policies {
		p := &f.policies[i]
		switch v {
		case quota:
			return appendInteger(b, p.quota)
		case remaining:
			return appendInteger(b, p.left)
		case reset:
			return appendInteger(b, p.after)
		}
		if i > 0 {
			b = append(b, ", "...)
		}
		if v == allPolicies {
			b = appendPolicy(b, p)
		} else {
			b = appendState(b, p)
		}
	}
	return b
}

// Options configures a [Writer].
type Options struct {
	// Headers names the sets of header fields to write, see Sets. Zero means
	// IETF08 and XRateLimit.
	Headers []string
}

// Writer writes decisions into HTTP answers. Safe for concurrent use.
type Writer struct {
	fields []field
}

// New returns a writer. It returns an error for a set it does not know.
func New(opt Options) (*Writer, error) {
	names := opt.Headers
	if len(names) == 0 {
		names = []string{IETF08, XRateLimit}
	}
	w := &Writer{}
	var errs []error
	for i, name := range names {
		at := index(name)
		switch {
		case at < 0:
			errs = append(errs, fmt.Errorf("answer: unknown set of headers %q, use %s", name, strings.Join(Sets(), ", ")))
		case slices.Contains(names[:i], name):
			errs = append(errs, fmt.Errorf("answer: set of headers %q is named twice", name))
		default:
			w.fields = append(w.fields, sets[at].fields...)
		}
	}
	w.fields = append(w.fields, field{"Retry-After", retryAfter})
	return w, errors.Join(errs...)
}

func index(name string) int {
	for i := range sets {
		if sets[i].name == name {
			return i
		}
	}
	return -1
}

// Header adds to h what d, made of ops, says. When h already holds an answer
// of a limiter further on, nothing of it is loosened: lists are added to, and
// a smaller remainder is left to stand.
//
// It allocates twice, however many fields it writes.
func (w *Writer) Header(h http.Header, ops []weir.Op, d weir.Decision) {
	var few [4]policy
	f := facts{policies: policies(few[:0], ops, !d.Allowed())}
	if len(f.policies) == 0 && d.Limit == nil {
		return
	}
	w.header(h, &f, d)
}

func (w *Writer) header(h http.Header, f *facts, d weir.Decision) {
	f.retry = retrySeconds(f.policies, d)
	keep := len(f.policies) > 0 && tighterAlready(h, f.policies[0].left)

	// All values share one string and one slice.
	var room [256]byte
	var ends [maxFields]int
	buf := room[:0]
	for i, fd := range w.fields {
		buf = f.append(buf, fd.value)
		ends[i] = len(buf)
	}
	all, vals, from := string(buf), make([]string, len(w.fields)), 0
	for i, fd := range w.fields {
		v := all[from:ends[i]]
		from = ends[i]
		switch {
		case v == "":
		case fd.list() && len(h[fd.key]) > 0:
			h[fd.key] = append(h[fd.key], v)
		case keep && len(h[fd.key]) > 0:
		default:
			vals[i] = v
			h[fd.key] = vals[i : i+1 : i+1]
		}
	}
}

// retrySeconds returns the Retry-After of d: no earlier than any limit says,
// and 0 if it was allowed or waiting does not help.
func retrySeconds(ps []policy, d weir.Decision) int64 {
	if d.Allowed() || d.RetryAfter == weir.Never {
		return 0
	}
	s := Seconds(d.RetryAfter)
	for i := range ps {
		if ps[i].refused {
			s = max(s, ps[i].after)
		}
	}
	return s
}

// tighterAlready reports whether h tells of less left than left.
func tighterAlready(h http.Header, left int64) bool {
	for _, key := range [...]string{"X-Ratelimit-Remaining", "Ratelimit-Remaining"} {
		if v := h[key]; len(v) > 0 {
			if n, err := strconv.ParseInt(v[0], 10, 64); err == nil && n >= 0 && n < left {
				return true
			}
		}
	}
	return false
}
