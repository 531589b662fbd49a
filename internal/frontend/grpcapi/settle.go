package grpcapi

import (
	"context"
	"errors"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/once"
	"github.com/weirlimit/weir/internal/reasons"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
	"github.com/weirlimit/weir/reserve"
)

var errNoReserver = status.Error(codes.Unimplemented, "this service runs without reservations")

// Reserve implements weirpb.LimitServiceServer.
func (s *Service) Reserve(ctx context.Context, in *weirpb.ReserveRequest) (*weirpb.ReserveResponse, error) {
	if s.opt.Reserver == nil {
		return nil, errNoReserver
	}
	req, err := s.acquireRequest(&question{domain: in.Domain, descriptors: in.Descriptors, cost: in.Cost, priority: in.Priority, spends: true, strict: in.Strict,
		key: in.IdempotencyKey, kind: once.Reserve})
	if err != nil {
		return nil, err
	}
	defer s.limiter.Recycle(req)
	res, err := s.opt.Reserver.Reserve(ctx, req)
	if err != nil {
		return nil, s.unsettled(err, reserve.Settlement{})
	}
	out := &weirpb.ReserveResponse{Decision: decision(req, res.Decision), Handle: res.Handle}
	if res.Handle != "" {
		out.ExpiresUs = res.Expires.UnixMicro()
	}
	return out, nil
}

// Commit implements weirpb.LimitServiceServer.
func (s *Service) Commit(ctx context.Context, in *weirpb.CommitRequest) (*weirpb.CommitResponse, error) {
	switch {
	case in.Actual == nil: // 0 gives everything back
		return nil, invalidField("actual", "is missing")
	case *in.Actual < 0 || *in.Actual > weir.MaxCost:
		return nil, invalidField("actual", "must be from 0 to 2^53")
	}
	res, err := s.settle(in.Handle, func(r *reserve.Reserver) (reserve.Settlement, error) { return r.Commit(ctx, in.Handle, *in.Actual) })
	if err != nil {
		return nil, err
	}
	return &weirpb.CommitResponse{Reserved: res.Reserved, Actual: res.Actual}, nil
}

// Cancel implements weirpb.LimitServiceServer.
func (s *Service) Cancel(ctx context.Context, in *weirpb.CancelRequest) (*weirpb.CancelResponse, error) {
	res, err := s.settle(in.Handle, func(r *reserve.Reserver) (reserve.Settlement, error) { return r.Cancel(ctx, in.Handle) })
	if err != nil {
		return nil, err
	}
	return &weirpb.CancelResponse{Reserved: res.Reserved}, nil
}

func (s *Service) settle(handle string, by func(*reserve.Reserver) (reserve.Settlement, error)) (reserve.Settlement, error) {
	switch {
	case s.opt.Reserver == nil:
		return reserve.Settlement{}, errNoReserver
	case handle == "":
		return reserve.Settlement{}, invalidField("handle", "is missing")
	case len(handle) > reserve.MaxHandle:
		return reserve.Settlement{}, invalidField("handle", "is not a handle of this service")
	}
	res, err := by(s.opt.Reserver)
	if err != nil {
		return res, s.unsettled(err, res)
	}
	return res, nil
}

// unsettled returns the status of a call that err kept from being made once, or from making
// or settling a reservation; before is what it came to earlier, if it was settled.
func (s *Service) unsettled(err error, before reserve.Settlement) error {
	switch {
	case errors.Is(err, reserve.ErrHandle):
		return invalidField("handle", "is not a handle of this service")
	case errors.Is(err, reserve.ErrUnavailable), errors.Is(err, weir.ErrMark):
		s.faults.Report("request undecided", err)
		return detailed(codes.Unavailable, err.Error(), &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	}
	reason, ok := reasons.Find(err)
	if !ok {
		return s.undecided(err)
	}
	info := &errdetails.ErrorInfo{Reason: reason.Code, Domain: "weir"}
	if errors.Is(err, reserve.ErrSettled) {
		info.Metadata = map[string]string{"reserved": strconv.FormatInt(before.Reserved, 10), "actual": strconv.FormatInt(before.Actual, 10)}
	}
	return detailed(codes.FailedPrecondition, err.Error(), info)
}
