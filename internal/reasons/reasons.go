// Package reasons says in words for programs why a reservation is not made or settled, a call not charged once, and
// units are not given back: over HTTP the code of a problem document, over gRPC the reason
// of google.rpc.ErrorInfo.
package reasons

import (
	"errors"
	"net/http"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/once"
	"github.com/weirlimit/weir/reserve"
)

// Reason is why, and the status of HTTP that goes with it.
type Reason struct {
	Code   string
	Status int
}

// unsupported is the reason of what the limits do not allow to be done.
var unsupported = Reason{"UNSUPPORTED", http.StatusUnprocessableEntity}

// all are the reasons of the errors that no other call would change.
var all = []struct {
	err    error
	reason Reason
}{
	{reserve.ErrSettled, Reason{"SETTLED", http.StatusConflict}}, {reserve.ErrExpired, Reason{"EXPIRED", http.StatusGone}},
	{reserve.ErrRegion, Reason{"REGION", http.StatusMisdirectedRequest}}, {reserve.ErrTooLarge, Reason{"TOO_LARGE", http.StatusUnprocessableEntity}},
	{once.ErrMismatch, Reason{"IDEMPOTENCY_MISMATCH", http.StatusUnprocessableEntity}}, {once.ErrUnsupported, unsupported},
	{reserve.ErrUnsupported, unsupported}, {weir.ErrRefund, unsupported}, {weir.ErrNode, unsupported},
}

// Find returns the reason of an error; false where it has none.
func Find(err error) (Reason, bool) {
	for _, known := range all {
		if errors.Is(err, known.err) {
			return known.reason, true
		}
	}
	return Reason{}, false
}
