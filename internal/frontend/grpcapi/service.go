// Package grpcapi is the way in over gRPC in the project's own words: weir.v1,
// which asks and answers what the JSON API of internal/frontend/httpapi does.
//
// A refusal is not an error: the call's status is OK and the decision says no.
// Bad input is INVALID_ARGUMENT with google.rpc.BadRequest, which names the
// field, and nothing has been counted then. When the store does not answer the
// status is UNAVAILABLE.
package grpcapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/admit"
	"github.com/weirlimit/weir/internal/checks"
	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/once"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
	"github.com/weirlimit/weir/reserve"
)

// Options configures a [Service].
type Options struct {
	// Limiter decides. Required.
	Limiter *weir.Limiter
	// Domain is the domain of questions that name none. Zero means "api".
	Domain string
	// Reserver serves Reserve, Commit and Cancel. Nil means that they answer
	// UNIMPLEMENTED.
	Reserver *reserve.Reserver
	// Priority is that of questions that name none, 0 the highest. Zero means the
	// highest.
	Priority int
	// Strict makes it an error where the rules do not have what is asked, unless the
	// question says otherwise.
	Strict bool
	// Log is told of errors of the store, at most one a second. Nil means nobody.
	Log *slog.Logger
}

// Service answers weir.v1.LimitService. Safe for concurrent use.
type Service struct {
	weirpb.UnimplementedLimitServiceServer
	opt     Options
	limiter *weir.Limiter
	faults  *faults.Log
	calls   *once.Calls
	batches sync.Pool
}

// New returns a service. It returns an error when the limiter is missing or an
// option is out of range.
func New(opt Options) (*Service, error) {
	switch {
	case opt.Limiter == nil:
		return nil, errors.New("grpcapi: no limiter: set Options.Limiter")
	case opt.Priority < 0 || opt.Priority > checks.MaxPriority:
		return nil, fmt.Errorf("grpcapi: priority %d must be between 0 and %d", opt.Priority, checks.MaxPriority)
	case len(opt.Domain) > checks.MaxDomain:
		return nil, fmt.Errorf("grpcapi: domain has %d bytes, at most %d are allowed", len(opt.Domain), checks.MaxDomain)
	}
	opt.Domain = cmp.Or(opt.Domain, "api")
	s := &Service{opt: opt, limiter: opt.Limiter, faults: faults.New(opt.Log), calls: once.NewCalls()}
	s.batches.New = func() any { return &batch{service: s, answers: columns{written: always}} }
	return s, nil
}

// Name is the name of the service, to gRPC's health service among others.
var Name = weirpb.LimitService_ServiceDesc.ServiceName

// Register adds the service to a server, which must be one of
// internal/grpcserver: batches read and write themselves.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	desc := weirpb.LimitService_ServiceDesc
	desc.Methods = slices.Clone(desc.Methods)
	for i := range desc.Methods {
		if desc.Methods[i].MethodName == "CheckBatch" {
			desc.Methods[i].Handler = checkBatch
		}
	}
	r.RegisterService(&desc, s)
}

// Check implements weirpb.LimitServiceServer.
func (s *Service) Check(ctx context.Context, in *weirpb.CheckRequest) (*weirpb.CheckResponse, error) {
	q := questionOf(in)
	q.kind = once.Check
	req, err := s.acquireRequest(q)
	if err != nil {
		return nil, err
	}
	defer s.limiter.Recycle(req)
	d, err := s.limiter.Decide(ctx, req)
	if err == nil {
		_, err = once.IsRepeated(req.Mark)
	}
	if err != nil {
		return nil, s.unsettled(err, reserve.Settlement{})
	}
	return &weirpb.CheckResponse{Decision: decision(req, d)}, nil
}

// Acquire implements weirpb.LimitServiceServer.
func (s *Service) Acquire(ctx context.Context, in *weirpb.AcquireRequest) (*weirpb.AcquireResponse, error) {
	req, err := s.acquireRequest(&question{domain: in.Domain, descriptors: in.Descriptors, cost: in.Cost, priority: in.Priority,
		lease: in.Lease, spends: true, strict: in.Strict})
	if err != nil {
		return nil, err
	}
	defer s.limiter.Recycle(req)
	d, err := admit.Acquire(ctx, s.limiter, req)
	if err != nil {
		return nil, s.undecided(err)
	}
	out := &weirpb.AcquireResponse{Decision: decision(req, d)}
	if d.Allowed() {
		out.Lease = checks.WriteLease(req)
	}
	return out, nil
}

// Renew implements weirpb.LimitServiceServer.
func (s *Service) Renew(ctx context.Context, in *weirpb.RenewRequest) (*weirpb.RenewResponse, error) {
	req, err := s.acquireRequest(&question{domain: in.Domain, descriptors: in.Descriptors, cost: in.Cost, lease: in.Lease,
		spends: true, holds: true})
	if err != nil {
		return nil, err
	}
	defer s.limiter.Recycle(req)
	ops, d, err := admit.RenewPermits(ctx, s.limiter, req)
	if err != nil {
		return nil, s.undecided(err)
	}
	out := decisionOf(req, ops, d)
	out.Guarantee = guarantee(d.Guarantee())
	return &weirpb.RenewResponse{Decision: out}, nil
}

// Release implements weirpb.LimitServiceServer.
func (s *Service) Release(ctx context.Context, in *weirpb.ReleaseRequest) (*weirpb.ReleaseResponse, error) {
	req, err := s.acquireRequest(&question{domain: in.Domain, descriptors: in.Descriptors, cost: in.Cost, lease: in.Lease, holds: true})
	if err != nil {
		return nil, err
	}
	defer s.limiter.Recycle(req)
	released, err := s.limiter.Release(ctx, req)
	if err != nil {
		return nil, s.undecided(err)
	}
	return &weirpb.ReleaseResponse{Released: released}, nil
}
