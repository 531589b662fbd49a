package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/reserve"
)

var (
	errNoKeyring = errors.New("the store of this service cannot forget single keys")
	errNoOverlay = errors.New("this service runs without bans, overrides and modes")
)

// statuses are those of the errors that are no fault of the input and not the store's,
// whose own text is the response.
var statuses = []struct {
	err    error
	status int
}{
	{errNoKeyring, http.StatusNotImplemented}, {errNoOverlay, http.StatusNotImplemented},
	{overlay.ErrFull, http.StatusConflict}, {overlay.ErrContended, http.StatusConflict}, {overlay.ErrUnread, http.StatusConflict},
	{reserve.ErrSettled, http.StatusConflict}, {reserve.ErrExpired, http.StatusGone}, {reserve.ErrRegion, http.StatusMisdirectedRequest},
	{reserve.ErrUnsupported, http.StatusUnprocessableEntity}, {reserve.ErrTooLarge, http.StatusUnprocessableEntity},
	{weir.ErrRefund, http.StatusUnprocessableEntity},
}

// fail answers a request that err kept from being carried out.
func (a *API) fail(w http.ResponseWriter, err error) {
	if fault := faultOf(err); fault != nil {
		badInput(w, fault)
		return
	}
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			answer.Problem{Status: s.status, Detail: err.Error()}.Write(w)
			return
		}
	}
	a.logStore(err)
	p := answer.Problem{Status: http.StatusServiceUnavailable, Detail: "the store did not answer; nothing was decided", RetryAfter: 1}
	if store, ok := errors.AsType[*overlay.StoreError](err); ok {
		p.Detail, p.RetryAfter = store.Error(), 0 // whether to try again is for the operator to see
	} else if errors.Is(err, reserve.ErrUnavailable) {
		p.Detail = err.Error()
	}
	p.Write(w)
}

// faultOf returns what is wrong with the input that got err, nil if the input is not to
// blame.
func faultOf(err error) *inputError {
	if fault, ok := errors.AsType[*inputError](err); ok {
		return fault
	}
	if _, ok := errors.AsType[*overlay.NumbersError](err); ok {
		return &inputError{err.Error(), "#/rate"}
	}
	if _, ok := errors.AsType[*overlay.ModeError](err); ok {
		return &inputError{err.Error(), "#/mode"}
	}
	switch {
	case errors.Is(err, reserve.ErrHandle):
		return &inputError{"is not a handle of this service", "#/handle"}
	case errors.Is(err, weir.ErrNoLease):
		return &inputError{"a concurrency limit applies: name the unit of work with lease, or use /v1/acquire", "#/lease"}
	case errors.Is(err, weir.ErrCost):
		return &inputError{"the cost, with what is kept for higher priorities, must be from 0 to 2^53", "#/cost"}
	}
	return nil
}

// badInput answers bad input.
func badInput(w http.ResponseWriter, e *inputError) {
	answer.Problem{
		Status: http.StatusBadRequest,
		Detail: e.Error(),
		Errors: []answer.FieldError{{Detail: e.detail, Pointer: e.pointer}},
	}.Write(w)
}

// logStore logs err unless something was logged this second, or the client
// has gone, for which the store is not to blame.
func (a *API) logStore(err error) {
	if !errors.Is(err, context.Canceled) {
		a.faults.Report("request undecided", err)
	}
}
