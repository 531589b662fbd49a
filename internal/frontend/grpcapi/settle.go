package grpcapi

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/weirlimit/weir"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
	"github.com/weirlimit/weir/reserve"
)

var errNoReserver = status.Error(codes.Unimplemented, "this service runs without reservations")

// Reserve implements weirpb.LimitServiceServer.
func (s *Service) Reserve(ctx context.Context, in *weirpb.ReserveRequest) (*weirpb.ReserveResponse, error) {
	if s.opt.Reserver == nil {
		return nil, errNoReserver
	}
	req, err := s.ask(&question{domain: in.Domain, descriptors: in.Descriptors, cost: in.Cost, priority: in.Priority, spends: true, strict: in.Strict})
	if err != nil {
		return nil, err
	}
	defer s.limiter.Recycle(req)
	res, err := s.opt.Reserver.Reserve(ctx, req)
	if err != nil {
		return nil, s.unsettled(err)
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
		return nil, bad("actual", "is missing")
	case *in.Actual < 0 || *in.Actual > weir.MaxCost:
		return nil, bad("actual", "must be from 0 to 2^53")
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
		return reserve.Settlement{}, bad("handle", "is missing")
	case len(handle) > reserve.MaxHandle:
		return reserve.Settlement{}, bad("handle", "is not a handle of this service")
	}
	res, err := by(s.opt.Reserver)
	if err != nil {
		return res, s.unsettled(err)
	}
	return res, nil
}

// Reasons why a reservation is not made or settled, in google.rpc.ErrorInfo of
// domain "weir".
const (
	ReasonSettled     = "SETTLED"
	ReasonExpired     = "EXPIRED"
	ReasonRegion      = "REGION"
	ReasonUnsupported = "UNSUPPORTED"
	ReasonTooLarge    = "TOO_LARGE"
)

// reasons are those of the errors that no other call would change.
var reasons = []struct {
	err    error
	reason string
}{
	{reserve.ErrSettled, ReasonSettled}, {reserve.ErrExpired, ReasonExpired}, {reserve.ErrRegion, ReasonRegion},
	{reserve.ErrUnsupported, ReasonUnsupported}, {weir.ErrRefund, ReasonUnsupported}, {weir.ErrNode, ReasonUnsupported},
	{reserve.ErrTooLarge, ReasonTooLarge},
}

// unsettled returns the status of a call that err kept from making or settling a
// reservation.
func (s *Service) unsettled(err error) error {
	switch {
	case errors.Is(err, reserve.ErrHandle):
		return bad("handle", "is not a handle of this service")
	case errors.Is(err, reserve.ErrUnavailable):
		s.faults.Report("request undecided", err)
		return detailed(codes.Unavailable, err.Error(), &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return detailed(codes.FailedPrecondition, err.Error(), &errdetails.ErrorInfo{Reason: r.reason, Domain: "weir"})
		}
	}
	return s.undecided(err)
}
