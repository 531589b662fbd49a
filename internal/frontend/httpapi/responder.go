package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/bodies"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/overlay"
	"github.com/weirlimit/weir/internal/reasons"
	"github.com/weirlimit/weir/reserve"
)

// responder reads the bodies of requests and writes responses, of whichever part of the
// API. Safe for concurrent use.
type responder struct {
	bodies  *bodies.Budget
	timeout time.Duration // of a body
	faults  *faults.Log
}

// A handle makes the response to the request whose body c has read, a JSON text, in c.out.
type handle func(c *call, r *http.Request) error

// readsBody returns a handler that reads bodies of so many bytes at most before it calls h.
// An error is answered by [responder.answerError].
func (p *responder) readsBody(most int, h func(c *call, w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := callFor(r, most)
		defer c.release()
		err := c.readBody(w, r, most, p.bodies, p.timeout)
		if err == nil {
			err = h(c, w, r)
		}
		if err != nil {
			p.answerError(w, err)
		}
	}
}

// answers is reads for a handle.
func (p *responder) answers(most int, h handle) http.HandlerFunc {
	return p.readsBody(most, func(c *call, w http.ResponseWriter, r *http.Request) error {
		if err := h(c, r); err != nil {
			return err
		}
		sendJSON(w, c.out)
		return nil
	})
}

// sendsValue returns a handler that sends what value returns, for requests without a body.
func (p *responder) sendsValue(value func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := value(r)
		var b []byte
		if err == nil {
			b, err = encodeJSON(v)
		}
		if err != nil {
			p.answerError(w, err)
			return
		}
		sendJSON(w, b)
	}
}

// encodeJSON returns v as JSON. An error is an [encodingError].
func encodeJSON(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, encodingError{err}
	}
	return b, nil
}

// appendMembers appends the members of v, a struct, and the closing brace to an object
// that has members.
func appendMembers(b []byte, v any) ([]byte, error) {
	data, err := encodeJSON(v)
	if err != nil {
		return b, err
	}
	return append(append(b, ','), data[1:]...), nil
}

func sendJSON(w http.ResponseWriter, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Cache-Control"] = noStore
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	// An error here means that the client has gone.
	_, _ = w.Write(body)
}

var noStore = []string{"no-store"}

// problem is an error that says how it is answered.
type problem answer.Problem

func (p *problem) Error() string { return p.Detail }

// encodingError is why the rules, or what operators changed of them, are not JSON.
type encodingError struct{ error }

// conflicts are the codes of what keeps an operator's change from being made.
var conflicts = []struct {
	err  error
	code string
}{{overlay.ErrFull, "FULL"}, {overlay.ErrContended, "CONTENDED"}, {overlay.ErrUnread, "UNREAD"}}

// answerError answers a request that err kept from being carried out, and logs err where the
// input is not to blame.
func (p *responder) answerError(w http.ResponseWriter, err error) {
	answer.Problem(p.problemOf(err)).Write(w)
}

func (p *responder) problemOf(err error) problem {
	if fault := faultOf(err); fault != nil {
		return problem{Status: http.StatusBadRequest, Detail: fault.Error(),
			Errors: []answer.FieldError{fault.fieldError()}}
	}
	if known, ok := errors.AsType[*problem](err); ok {
		return *known
	}
	if reason, ok := reasons.Find(err); ok {
		return problem{Status: reason.Status, Code: reason.Code, Detail: err.Error()}
	}
	for _, c := range conflicts {
		if errors.Is(err, c.err) {
			return problem{Status: http.StatusConflict, Code: c.code, Detail: err.Error()}
		}
	}
	if errors.Is(err, bodies.ErrNoRoom) {
		p.faults.Report("request refused", err)
		return problem{Type: answer.ReducedCapacity, Title: "Too many large requests at once", Status: http.StatusServiceUnavailable,
			Detail: "the bodies under way hold all the memory that they may; smaller requests are answered", RetryAfter: 1}
	}
	if _, ok := errors.AsType[encodingError](err); ok {
		p.faults.Report("rules cannot be encoded", err)
		return problem{Status: http.StatusInternalServerError, Detail: "the rules cannot be encoded"}
	}
	if outage, ok := errors.AsType[interface {
		error
		Detail() string
	}](err); ok {
		p.faults.Report("operator not answered", err)
		// Whether to try again is for the operator to see.
		return problem{Status: http.StatusServiceUnavailable, Detail: outage.Detail()}
	}
	p.logStore(err)
	out := problem{Status: http.StatusServiceUnavailable, Detail: "the store did not answer; nothing was decided", RetryAfter: 1}
	if errors.Is(err, reserve.ErrUnavailable) || errors.Is(err, weir.ErrMark) {
		out.Detail = err.Error()
	}
	return out
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
		return &inputError{"a concurrency limit applies: name the unit of work, or use /v1/acquire", "#/lease"}
	case errors.Is(err, weir.ErrCost):
		return &inputError{"the cost, with what is kept for higher priorities, must be from 0 to 2^53", "#/cost"}
	}
	return nil
}

// logStore logs err unless something was logged this second, or the client
// has gone, for which the store is not to blame.
func (p *responder) logStore(err error) {
	if !errors.Is(err, context.Canceled) {
		p.faults.Report("request undecided", err)
	}
}
