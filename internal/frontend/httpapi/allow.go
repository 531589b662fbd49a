package httpapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/checks"
	"github.com/weirlimit/weir/internal/once"
)

// Sizes of what a client may send, in bytes.
const (
	maxDomain = checks.MaxDomain
	maxKey    = checks.MaxKey
	maxValue  = checks.MaxValue
)

// maxTimestamp is the longest timestamp, in bytes.
const maxTimestamp = 64

// readAllow reads the body of POST /shouldAllowRequest. The timestamp is checked for its form and not used: a
// client that told the time could move its own window, so the store does.
func readAllow(r *reader) (clientID string) {
	var seen uint32
	r.readObject(func(name []byte) {
		switch string(name) {
		case "clientId":
			r.refuseRepeat(&seen, 0)
			clientID = r.readString(1, maxValue)
		case "timestamp":
			r.refuseRepeat(&seen, 1)
			if !r.readNull() && !isRFC3339(r.readString(0, maxTimestamp)) {
				r.failValue("must be a time as RFC 3339 writes it, such as 2023-07-13T07:20:50.52Z")
			}
		default:
			r.unknown("clientId and timestamp")
		}
	})
	r.expectEnd()
	if r.err == nil && seen&1 == 0 {
		r.err = &inputError{"clientId is missing", "#/clientId"}
	}
	return clientID
}

// The two answers of /shouldAllowRequest. The header values' length is their
// capacity, so that adding to them copies them.
var (
	bodyAllowed   = []byte(`{"allowed":true}`)
	bodyRefused   = []byte(`{"allowed":false}`)
	lengthAllowed = []string{"16"}
	lengthRefused = []string{"17"}
	jsonType      = []string{"application/json"}
)

// shouldAllow answers /shouldAllowRequest.
func (d *decisions) shouldAllow(c *call, w http.ResponseWriter, r *http.Request) error {
	client := readAllow(&c.reader)
	if c.reader.err != nil {
		return c.reader.err
	}
	req := d.queries.limiter.Acquire()
	defer d.queries.limiter.Recycle(req)
	c.entries = append(c.entries[:0], weir.Entry{Key: "client_id", Value: client})
	req.Domain, req.Priority = d.queries.domain, d.queries.priority
	req.Descriptors = append(req.Descriptors, weir.Descriptor{Entries: c.entries})
	if d.queries.strict {
		if why := checks.Unmatched(d.queries.limiter, req); why != "" {
			return &inputError{why, "#/clientId"}
		}
	}
	key, err := readKey(r.Header)
	if err != nil {
		return err
	}
	d.queries.calls.Mark(once.Check, key, req)
	decision, err := d.queries.limiter.Decide(r.Context(), req)
	if err == nil {
		_, err = once.IsRepeated(req.Mark)
	}
	if err != nil {
		return err
	}
	body, length := bodyAllowed, lengthAllowed
	if !decision.Allowed() {
		body, length = bodyRefused, lengthRefused
	}
	h := w.Header()
	h["Content-Type"], h["Content-Length"] = jsonType, length
	// An error here means that the client has gone.
	_, _ = w.Write(body)
	return nil
}

// isRFC3339 reports whether s is a date and time as RFC 3339 §5.6 writes it,
// on a day that exists. A leap second is accepted wherever one could be.
func isRFC3339(s string) bool {
	var upper [maxTimestamp]byte
	b := upper[:copy(upper[:], s)]
	for i, c := range b {
		if c == 't' || c == 'z' {
			b[i] = c - ('a' - 'A')
		}
	}
	// Package time knows no leap seconds, and takes a comma in the fraction.
	if len(b) > len("2006-01-02T15:04:05") && string(b[17:19]) == "60" {
		copy(b[17:], "59")
	}
	return len(s) <= maxTimestamp && !strings.Contains(s, ",") && new(time.Time).UnmarshalText(b) == nil
}
