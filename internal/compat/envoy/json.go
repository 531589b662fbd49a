package envoy

import (
	"errors"
	"net/http"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weirlimit/weir/internal/bodies"
)

// MaxBodyBytes is the largest body that JSON reads: that of a message of gRPC.
const MaxBodyBytes = 4 << 20

// JSON answers requests in JSON, as /json of envoyproxy/ratelimit does: whatever
// the method, 200 for OK, 429 for OVER_LIMIT, 400 for what cannot be read or
// decided. Where the store of the counters failed it is 500, for a body of more
// than MaxBodyBytes 413, and for one for which Options.Bodies has no room 503.
func (s *Service) JSON() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		share := s.opt.Bodies.Share()
		defer share.End()
		body, err := share.ReadAll(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
		if err == nil {
			err = checkJSON(body)
		}
		var req rlsv3.RateLimitRequest
		if err == nil {
			err = protojson.Unmarshal(body, &req)
		}
		var resp *rlsv3.RateLimitResponse
		if err == nil {
			resp, err = s.ShouldRateLimit(r.Context(), &req)
		}
		if err != nil {
			s.answerError(w, err)
			return
		}
		if body, err = protojson.Marshal(resp); err != nil {
			s.faults.Report("response cannot be encoded as JSON", err)
			writeStatus(w, http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if resp.OverallCode == rlsv3.RateLimitResponse_OVER_LIMIT {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		// Whoever went away needs no answer.
		_, _ = w.Write(body)
	})
}

func (s *Service) answerError(w http.ResponseWriter, err error) {
	code := http.StatusBadRequest
	if _, store := errors.AsType[storeError](err); store {
		code = http.StatusInternalServerError
	} else if _, large := errors.AsType[*http.MaxBytesError](err); large {
		code = http.StatusRequestEntityTooLarge
	} else if errors.Is(err, bodies.ErrNoRoom) {
		code = http.StatusServiceUnavailable
		w.Header().Set("Connection", "close") // the client does not wait for the rest of its body to be read
	}
	s.faults.Warn("HTTP request undecided: "+http.StatusText(code), err)
	writeStatus(w, code)
}

func writeStatus(w http.ResponseWriter, code int) { http.Error(w, http.StatusText(code), code) }
