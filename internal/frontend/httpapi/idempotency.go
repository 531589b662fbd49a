package httpapi

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/checks"
	"github.com/weirlimit/weir/internal/once"
)

// keyHeader names a call, so that its repeats are charged nothing.
const keyHeader = "Idempotency-Key"

// readKey returns the idempotency key of a request, empty where there is none: a String of
// structured fields. Parameters, of which there are none yet, are an error.
//
// Source: draft-ietf-httpapi-idempotency-key-header §2.1, RFC 9651 §4.2.
func readKey(h http.Header) (string, error) {
	values := h[keyHeader]
	if len(values) == 0 {
		return "", nil
	}
	fault := func(detail string) error { return &inputError{detail, keyHeader} }
	s := strings.Trim(values[0], " ")
	switch {
	case len(values) > 1:
		return "", fault("is there twice")
	case len(s) < 2 || s[0] != '"':
		return "", fault(`must be a string in quotes, such as "8e03978e-40d5-43dd-bc93-6894a57f9324"`)
	}
	key := make([]byte, 0, len(s))
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' && i+1 < len(s):
			return "", fault("has something behind the quotes")
		case c == '"' && (len(key) == 0 || len(key) > checks.MaxIdempotencyKey):
			return "", fault(fmt.Sprintf("must have from 1 to %d characters", checks.MaxIdempotencyKey))
		case c == '"':
			return string(key), nil
		case c == '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", fault(`has a \ before neither a quote nor another`)
			}
			key = append(key, s[i])
		case c < ' ' || c > '~':
			return "", fault("must be printable ASCII")
		default:
			key = append(key, c)
		}
	}
	return "", fault("has no quote at its end")
}

// appendRepeated appends the member that says that a call was made before, if it was.
func appendRepeated(b []byte, mark *weir.Op) []byte {
	if repeated, err := once.IsRepeated(mark); repeated && err == nil {
		b = append(b, `,"repeated":true`...)
	}
	return b
}
