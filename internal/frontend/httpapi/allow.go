package httpapi

import (
	"net/http"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/checks"
)

// Sizes of what a client may send, in bytes.
const (
	maxDomain = checks.MaxDomain
	maxKey    = checks.MaxKey
	maxValue  = checks.MaxValue
)

// maxTimestamp is the longest timestamp, in bytes.
const maxTimestamp = 64

// allowRequest is the body of POST /shouldAllowRequest.
type allowRequest struct{ clientID string }

// read reads the body. The timestamp is checked for its form and not used: a
// client that told the time could move its own window, so the store does.
func (q *allowRequest) read(r *reader) {
	var seen uint32
	r.object(func(name []byte) {
		switch string(name) {
		case "clientId":
			r.once(&seen, 0)
			q.clientID = r.str(1, maxValue)
		case "timestamp":
			r.once(&seen, 1)
			if !r.null() && !isRFC3339(r.str(0, maxTimestamp)) {
				r.fail("must be a time as RFC 3339 writes it, such as 2023-07-13T07:20:50.52Z")
			}
		default:
			r.unknown("clientId and timestamp")
		}
	})
	r.end()
	if r.err == nil && seen&1 == 0 {
		r.err = &inputError{"clientId is missing", "#/clientId"}
	}
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

func (a *API) shouldAllow(c *call, w http.ResponseWriter, r *http.Request) error {
	var q allowRequest
	if q.read(&c.reader); c.reader.err != nil {
		return c.reader.err
	}
	req := a.limiter.Acquire()
	defer a.limiter.Recycle(req)
	c.entries = append(c.entries[:0], weir.Entry{Key: "client_id", Value: q.clientID})
	req.Domain, req.Priority = a.opt.Domain, a.opt.Priority
	req.Descriptors = append(req.Descriptors, weir.Descriptor{Entries: c.entries})
	d, err := a.limiter.Decide(r.Context(), req)
	if err != nil {
		return err
	}
	body, length := bodyAllowed, lengthAllowed
	if !d.Allowed() {
		body, length = bodyRefused, lengthRefused
	}
	h := w.Header()
	h["Content-Type"], h["Content-Length"] = jsonType, length
	// An error here means that the client has gone.
	_, _ = w.Write(body)
	return nil
}
