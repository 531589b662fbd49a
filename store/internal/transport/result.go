package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"os"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/storecalls"
)

// Class is by what time a call is judged.
type Class uint8

const (
	// Foreground: a decision waits for it, for its budget.
	Foreground Class = iota
	// Background: no decision waits for it. It is judged by the timeout, and all of
	// them take at most a quarter of a shard's calls.
	Background
	// Fetch: it has the timeout, as what it brings is of use however late it comes. It
	// is late once more each time that a budget has passed, if a decision waits for it.
	Fetch
)

// Outcome is how a call without an answer ended.
type Outcome uint8

const (
	_          Outcome = iota // answered: no Result
	Rejected                  // the server answered with an error about these ops
	Failed                    // the driver could not deliver it, or lost the connection
	Late                      // its budget was over after it was sent
	Unsent                    // its budget was over in the queue, or the queue was full
	Open                      // the shard's breaker was open
	CallerGone                // the caller's context ended first
)

// Reasons why a call has no answer.
var (
	ErrOpen = errors.New("the shared store is away")
	ErrLate = error(lateError{})
	ErrBusy = errors.New("too many calls of the shared store are under way")
)

// FailureOf returns the word for why a call has no answer, as far as the network tells it.
func FailureOf(err error) string {
	var netErr net.Error
	switch {
	case errors.Is(err, ErrOpen):
		return storecalls.Open
	case errors.Is(err, ErrBusy):
		return storecalls.Busy
	case errors.Is(err, context.Canceled):
		return storecalls.Canceled
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		return storecalls.Timeout
	case errors.As(err, &netErr), errors.Is(err, io.EOF):
		return storecalls.Unreachable
	}
	return storecalls.Other
}

// lateError is the error of a store that has a timeout.
type lateError struct{}

func (lateError) Error() string {
	return "no answer from the shared store in time; if it is well, raise timeout= in its URL"
}

// Unwrap serves errors.Is.
func (lateError) Unwrap() error { return os.ErrDeadlineExceeded }

// A Result says how a call without an answer ended. It is the error that the methods of
// [Queue] return, and what a driver hands to [Call.Finish].
type Result struct {
	Outcome Outcome
	// MayRun: the ops, or some of them, may have been carried out, or be so later. If
	// not, none ever is.
	MayRun bool
	// Excused: the shard's breaker does not count it, though it failed or was late: one
	// that got its turn late had but a part of its time, or the driver says so.
	Excused bool
	// Shard is where the call was to go.
	Shard int
	Err   error

	left *Call // what the caller has left, if it was sent
}

func (r *Result) Error() string { return r.Err.Error() }

// Unwrap returns r.Err.
func (r *Result) Unwrap() error { return r.Err }

// IsLeft reports whether the call was sent, and its caller left it before it ended.
func (r *Result) IsLeft() bool { return r.left != nil }

var (
	errOpen   = &Result{Outcome: Open, Err: ErrOpen}
	errBusy   = &Result{Outcome: Unsent, Err: ErrBusy}
	errLate   = &Result{Outcome: Late, MayRun: true, Err: ErrLate}
	errUnsent = &Result{Outcome: Unsent, Err: ErrLate}
	errClosed = &Result{Outcome: Unsent, Err: weir.ErrClosed}
)

// MayRun reports whether the ops of a call that ended with err may be carried out. It is
// true of an error that is not of this package.
func MayRun(err error) bool {
	if r, ok := errors.AsType[*Result](err); ok {
		return r.MayRun
	}
	return err != nil && !errors.Is(err, ErrOpen) && !errors.Is(err, ErrBusy)
}
