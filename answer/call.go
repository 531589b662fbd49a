package answer

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// IsCall reports whether a request with this Content-Type is a call of gRPC.
func IsCall(contentType string) bool {
	rest, ok := strings.CutPrefix(contentType, "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

// ForCall returns rw, or for a call of gRPC a writer to which [Problem.Write] and
// [Writer.Refuse] write the status of the call, in its fields: of any other answer clients
// of gRPC make UNAVAILABLE or UNKNOWN, and may try again at once.
//
// Source: "gRPC over HTTP2", Trailers-Only.
func ForCall(rw http.ResponseWriter, r *http.Request) http.ResponseWriter {
	if !IsCall(r.Header.Get("Content-Type")) {
		return rw
	}
	return call{rw}
}

// call is a writer to a client of gRPC.
type call struct{ http.ResponseWriter }

// sendStatus sends the status of the call, in place of an HTTP status.
func (c call) sendStatus(status int, detail string) {
	h := c.Header()
	h["Content-Type"] = callType
	h["Grpc-Status"] = []string{strconv.Itoa(grpcCode(status))}
	h["Grpc-Message"] = []string{escapeMessage(detail)}
	c.WriteHeader(http.StatusOK)
}

var callType = []string{"application/grpc"}

// grpcCode returns the code of gRPC for an HTTP status.
func grpcCode(status int) int {
	switch status {
	case http.StatusBadRequest, http.StatusMisdirectedRequest:
		return 3 // INVALID_ARGUMENT
	case http.StatusUnauthorized:
		return 16 // UNAUTHENTICATED
	case http.StatusForbidden:
		return 7 // PERMISSION_DENIED
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return 12 // UNIMPLEMENTED
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return 4 // DEADLINE_EXCEEDED
	case http.StatusTooManyRequests, http.StatusRequestEntityTooLarge, http.StatusRequestHeaderFieldsTooLarge:
		return 8 // RESOURCE_EXHAUSTED
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return 14 // UNAVAILABLE
	case http.StatusInternalServerError:
		return 13 // INTERNAL
	}
	return 2 // UNKNOWN
}

// escapeMessage escapes what may not stand in a Grpc-Message.
func escapeMessage(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
