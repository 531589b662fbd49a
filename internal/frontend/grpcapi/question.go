package grpcapi

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/checks"
	"github.com/weirlimit/weir/internal/grpcstatus"
	weirpb "github.com/weirlimit/weir/proto/weir/v1"
)

// question is what the messages have in common that ask something.
type question struct {
	domain      string
	descriptors []*weirpb.Descriptor
	cost        *int64
	priority    *uint32
	peek        bool
	lease       string
	key         string // names the call
	kind        string // of a call that may have a key; empty: none may
	// spends: looking makes no sense. holds: there must be a lease.
	spends, holds bool
	// strict: it must be as the rules have it; nil: as the service is set.
	strict *bool
}

// acquireRequest returns a request from the pool, which the caller recycles, or why there can
// be none.
func (s *Service) acquireRequest(q *question) (*weir.Request, error) {
	req := s.limiter.Acquire()
	if f := s.fillRequest(req, q); f != nil {
		s.limiter.Recycle(req)
		return nil, f.callStatus("")
	}
	return req, nil
}

// questionOf returns what a check asks.
func questionOf(in *weirpb.CheckRequest) *question {
	return &question{domain: in.GetDomain(), descriptors: in.GetDescriptors(), cost: in.Cost, priority: in.Priority,
		peek: in.GetPeek(), lease: in.GetLease(), key: in.GetIdempotencyKey(), strict: in.Strict}
}

// fillRequest makes req the request that q asks about.
func (s *Service) fillRequest(req *weir.Request, q *question) *fault {
	held := checks.ReadLease(q.lease)
	if held != nil && q.holds {
		req.Lease, req.Domain, req.Cost, req.Facts = held.Lease, held.Domain, held.Cost, checks.Facts(req)
		req.Descriptors = append(req.Descriptors, held.Descriptors...)
		return nil
	}
	name := q.lease
	if held != nil {
		name = held.Lease
	}
	if f := s.head(req, q.domain, q.cost, q.priority, q.peek, name); f != nil {
		return f
	}
	switch {
	case q.key != "" && q.kind == "":
		return &fault{"idempotency_key", "is for one check: ask each by itself"}
	case !checks.IsIdempotencyKey(q.key):
		return &fault{"idempotency_key", fmt.Sprintf("must have at most %d characters of printable ASCII", checks.MaxIdempotencyKey)}
	case q.spends && req.Verb == weir.Peek:
		return &fault{"cost", "must be at least 1: looking holds nothing"}
	case q.holds && q.lease == "":
		return &fault{"lease", "is missing"}
	case q.holds && len(q.descriptors) == 0:
		return &fault{"descriptors", checks.NoLeaseText}
	case len(q.descriptors) == 0 || len(q.descriptors) > checks.MaxDescriptors:
		return &fault{"descriptors", fmt.Sprintf("must be from 1 to %d", checks.MaxDescriptors)}
	}
	for i, d := range q.descriptors {
		out := weir.Descriptor{Peek: d.GetPeek(), Entries: make([]weir.Entry, 0, len(d.GetEntries()))}
		for _, e := range d.GetEntries() {
			out.Entries = append(out.Entries, weir.Entry{Key: e.GetKey(), Value: e.GetValue()})
		}
		if f := finishDescriptor(&out, d != nil && d.Cost != nil, d.GetCost()); f != nil {
			return &fault{fmt.Sprintf("descriptors[%d].%s", i, f.field), f.detail}
		}
		req.Descriptors = append(req.Descriptors, out)
	}
	s.calls.Mark(q.kind, q.key, req)
	if q.holds { // what was acquired is kept or given back, whatever the rules have by now
		return nil
	}
	return s.strictly(req, q.strict)
}

// strictly says what is wrong with a strict request that the rules do not have.
func (s *Service) strictly(req *weir.Request, asked *bool) *fault {
	strict := s.opt.Strict
	if asked != nil {
		strict = *asked
	}
	if !strict {
		return nil
	}
	if why := checks.Unmatched(s.limiter, req); why != "" {
		return &fault{"descriptors", why}
	}
	return nil
}

// head fills in what a question has beside its descriptors.
func (s *Service) head(req *weir.Request, domain string, cost *int64, asked *uint32, peek bool, lease string) *fault {
	priority := s.opt.Priority
	if asked != nil {
		priority = int(min(*asked, checks.MaxPriority+1))
	}
	req.Domain, req.Priority, req.Lease, req.Facts = cmp.Or(domain, s.opt.Domain), priority, lease, checks.Facts(req)
	if peek {
		req.Verb = weir.Peek
	}
	if cost != nil {
		if req.Cost = *cost; req.Cost == 0 {
			req.Verb = weir.Peek
		}
	}
	switch {
	case len(domain) > checks.MaxDomain:
		return &fault{"domain", fmt.Sprintf("must have at most %d bytes", checks.MaxDomain)}
	case req.Cost < 0 || req.Cost > weir.MaxCost:
		return &costFault
	case priority > checks.MaxPriority:
		return &fault{"priority", fmt.Sprintf("must be from 0 to %d", checks.MaxPriority)}
	case len(lease) > checks.MaxLease:
		return &fault{"lease", fmt.Sprintf("must have at most %d bytes", checks.MaxLease)}
	}
	return nil
}

var costFault = fault{"cost", "must be from 0 to 2^53"}

// finishDescriptor gives a descriptor its own cost, if it has one, and checks its entries.
func finishDescriptor(d *weir.Descriptor, hasCost bool, cost int64) *fault {
	switch {
	case hasCost && (cost < 0 || cost > weir.MaxCost):
		return &costFault
	case hasCost:
		d.Cost, d.Peek = cost, d.Peek || cost == 0
	}
	if len(d.Entries) == 0 || len(d.Entries) > checks.MaxEntries {
		return &fault{"entries", fmt.Sprintf("must be from 1 to %d", checks.MaxEntries)}
	}
	for i := range d.Entries {
		if f := checkEntry(&d.Entries[i]); f != nil {
			f.field = fmt.Sprintf("entries[%d].%s", i, f.field)
			return f
		}
	}
	return nil
}

func checkEntry(e *weir.Entry) *fault {
	switch {
	case e.Key == "" || len(e.Key) > checks.MaxKey:
		return &fault{"key", fmt.Sprintf("must have from 1 to %d bytes", checks.MaxKey)}
	case len(e.Value) > checks.MaxValue:
		return &fault{"value", fmt.Sprintf("must have at most %d bytes", checks.MaxValue)}
	}
	return nil
}

// fault is what is wrong with a field of a message.
type fault struct{ field, detail string }

// callStatus returns f as the status of a call; at is where the message stands that
// has the field.
func (f *fault) callStatus(at string) error { return invalidField(at+f.field, f.detail) }

// invalidField returns the status of a call with a field that is wrong.
func invalidField(field, detail string) error {
	violation := &errdetails.BadRequest_FieldViolation{Field: field, Description: strings.ToUpper(detail[:1]) + detail[1:] + "."}
	return detailed(codes.InvalidArgument, field+": "+detail, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{violation}})
}

// detailed returns an error with a detail for programs.
func detailed(code codes.Code, text string, detail protoadapt.MessageV1) error {
	st := status.New(code, text)
	if full, err := st.WithDetails(detail); err == nil { // never of a status that is no OK
		st = full
	}
	return st.Err()
}

// undecided returns the status of a call that got err instead of a decision.
func (s *Service) undecided(err error) error {
	switch {
	case errors.Is(err, weir.ErrCost):
		return invalidField("cost", "must, with what is kept for higher priorities, be from 0 to 2^53")
	case errors.Is(err, weir.ErrNoLease):
		return invalidField("lease", "is missing: a concurrency limit applies; name the unit of work, or use Acquire")
	}
	st, store := grpcstatus.Undecided(err)
	if store {
		s.faults.Report("request undecided", err)
	}
	return st
}
