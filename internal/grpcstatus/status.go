// Package grpcstatus says in gRPC's words why a question was not decided.
package grpcstatus

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir"
)

// Undecided returns the status of a call whose question got err instead of a
// decision, and reports whether the store is to blame. What the store says is
// not told to clients.
func Undecided(err error) (st error, store bool) {
	switch {
	case errors.Is(err, weir.ErrNoLease):
		return noLease, false
	case errors.Is(err, weir.ErrCost):
		return badCost, false
	case errors.Is(err, weir.ErrRefund):
		return noRefund, false
	case errors.Is(err, weir.ErrNode):
		return otherNode, false
	case errors.Is(err, context.Canceled):
		return canceled, false
	case errors.Is(err, context.DeadlineExceeded):
		return late, false // its own: a store that is late is decided without
	}
	return unavailable, true
}

// Made once: a store that is down answers every call.
var (
	noLease     = status.Error(codes.FailedPrecondition, "a concurrency limit applies: name the unit of work with a lease")
	badCost     = status.Error(codes.InvalidArgument, "the cost, with what is kept for higher priorities, must be from 0 to 2^53")
	noRefund    = status.Error(codes.FailedPrecondition, "an approximate limit, a concurrency limit or a queue takes no units back")
	otherNode   = status.Error(codes.FailedPrecondition, weir.ErrNode.Error())
	canceled    = status.Error(codes.Canceled, "the call was canceled")
	late        = status.Error(codes.DeadlineExceeded, "the store did not answer before the call's deadline; nothing was decided")
	unavailable = status.Error(codes.Unavailable, "the store did not answer; nothing was decided")
)

// RetryDelay returns how long a status asks to stay away, by google.rpc.RetryInfo; 0 if it
// does not.
func RetryDelay(st *status.Status) time.Duration {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok && info.GetRetryDelay().AsDuration() > 0 {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}
