// Package rls is the way in for Envoy: its RateLimitService over native rules.
//
// It speaks envoy.service.ratelimit.v3.RateLimitService, version 1.40 of the
// API, with everything that rules can say: every algorithm and mode, several
// limits on one descriptor, and all or nothing across descriptors. For an answer
// like that of envoyproxy/ratelimit, fixed windows and all, there is
// internal/compat/envoy.
//
// # Descriptors
//
// A descriptor costs its own hits_addend where it has one, else the call's, else
// 1. hits_addend 0 looks whether one more would pass, and spends nothing.
// is_negative_hits gives back what a call has spent. A limit in a descriptor
// takes the place of the rule's.
//
// Three entries are for this service and are taken out before rules are looked
// for, [EntryCharge], [EntryLease] and [EntryContentType].
package rls

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	grpcstat "google.golang.org/grpc/status"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/admit"
	"github.com/weirlimit/weir/internal/grpcstatus"
)

// Keys of entries that are for this service.
const (
	// EntryCharge marks a descriptor whose cost is incurred already, as with
	// Envoy's apply_on_stream_done: it counts though it goes past the limit, and
	// its status is OK. Its value is of no account. Nothing else in such a call
	// tells it from others.
	EntryCharge = "weir_charge"
	// EntryLease names the unit of work that concurrency limits count, such as a
	// request's x-request-id: a call takes a place, and one with is_negative_hits
	// gives it back.
	EntryLease = "weir_lease"
	// EntryContentType has the request's Content-Type as its value. A refused call of
	// gRPC is then told a sentence, of which Envoy makes the call's message, in place of
	// a document.
	EntryContentType = "weir_content_type"
)

// Options configures a [Service].
type Options struct {
	// Limiter decides. Required.
	Limiter *weir.Limiter
	// Answer writes the header fields and problem documents that Envoy hands on.
	// Nil means answer.New with its defaults.
	Answer *answer.Writer
	// Metadata adds dynamic metadata to the answers, for access logs and filters
	// behind: allowed, limit, algorithm, and guarantee with exact, degraded,
	// over_admit and source. Zero means none.
	Metadata bool
	// Priority is that of all calls, 0 the highest. Zero means the highest.
	Priority int
	// MaxDelay is the longest that a call is held back for a limit that delays; it
	// is never held beyond its deadline. One that would have to wait longer is
	// refused. Zero means ten seconds.
	MaxDelay time.Duration
	// MaxWaiting is how many calls may be held back at a time; those above it are
	// refused. Zero means 1024.
	MaxWaiting int
	// Log is told of errors of the store, at most one a second. Nil means nobody.
	Log *slog.Logger
}

// Service answers Envoy. Safe for concurrent use.
type Service struct {
	opt       Options
	gate      *admit.Gate
	overrides overrides
	calls     sync.Pool
}

// Bounds on a call.
const (
	maxDescriptors = 256
	maxEntries     = 32 // of a descriptor
	maxHits        = 1_000_000_000
	maxLease       = 256 // bytes
)

// New returns a service. It returns an error when the limiter is missing or an
// option is out of range.
func New(opt Options) (*Service, error) {
	if opt.Priority < 0 || opt.MaxDelay < 0 {
		return nil, errors.New("rls: priority and max delay must not be negative")
	}
	gate, err := admit.New(admit.Options{Limiter: opt.Limiter, MaxDelay: opt.MaxDelay, WithinDeadline: true, MaxWaiting: opt.MaxWaiting, Log: opt.Log})
	if err != nil {
		return nil, fmt.Errorf("rls: %w", err)
	}
	if opt.Answer == nil {
		if opt.Answer, err = answer.New(answer.Options{}); err != nil {
			return nil, err
		}
	}
	s := &Service{opt: opt, gate: gate}
	s.calls.New = func() any { return &call{service: s} }
	return s, nil
}

// Name is the name of the service, to gRPC's health service among others.
var Name = rlspb.RateLimitService_ServiceDesc.ServiceName

// Register adds the service to a server, which must be one of
// internal/grpcserver: its messages read and write themselves.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	r.RegisterService(&grpc.ServiceDesc{
		ServiceName: Name,
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: shouldRateLimit}},
		// What reflection looks the messages up by.
		Metadata: rlspb.RateLimitService_ServiceDesc.Metadata,
	}, s)
}

// shouldRateLimit is the method's handler, as generated code has it.
func shouldRateLimit(srv any, ctx context.Context, read func(any) error, around grpc.UnaryServerInterceptor) (any, error) {
	c := srv.(*Service).calls.Get().(*call)
	err := read(c)
	switch {
	case err != nil:
	case around == nil:
		err = c.answerQuestion(ctx)
	default:
		info := &grpc.UnaryServerInfo{Server: srv, FullMethod: rlspb.RateLimitService_ShouldRateLimit_FullMethodName}
		_, err = around(ctx, c, info, func(ctx context.Context, _ any) (any, error) { return c, c.answerQuestion(ctx) })
	}
	if err != nil {
		c.Sent()
		return nil, err
	}
	return c, nil
}

// call is one call, and the memory for it.
type call struct {
	service *Service
	data    mem.Buffer // what the strings point into; nil when there is none

	// The question as it came.
	domain      string
	hits        uint32
	isCall      bool // of gRPC
	entries     []weir.Entry
	descriptors []descriptor

	// The question as it is asked: what spends or looks, what is charged in any
	// case, and what is given back.
	parts    [numParts]part
	statuses []status

	// The answer.
	values []byte
	fields []answer.Field
	out    []byte
}

// Parts of a question.
const (
	spending = iota
	charging
	refunding
	numParts
)

// part is some of the descriptors.
type part struct {
	life admit.Admission
	// indexes are those of the descriptors in the question.
	indexes []int
}

// Encoded implements grpcserver.Message.
func (c *call) Encoded() []byte { return c.out }

// keep bounds what a call keeps for the next, in bytes and in entries.
const (
	keepBytes   = 64 << 10
	keepEntries = 1024
)

// Sent implements grpcserver.Message.
func (c *call) Sent() {
	// Strings that point into data must not outlive it.
	clear(c.entries)
	for i := range c.parts {
		p := &c.parts[i]
		clear(p.life.Req.Descriptors)
		p.life.End()
		p.indexes = p.indexes[:0]
	}
	if c.data != nil {
		c.data.Free()
		c.data = nil
	}
	clear(c.statuses)
	c.domain, c.hits, c.isCall = "", 0, false
	c.entries, c.descriptors, c.statuses = c.entries[:0], c.descriptors[:0], c.statuses[:0]
	c.values, c.fields, c.out = c.values[:0], c.fields[:0], c.out[:0]
	if cap(c.out)+cap(c.values) <= keepBytes && cap(c.entries) <= keepEntries {
		c.service.calls.Put(c)
	}
}

func invalid(format string, args ...any) error {
	return grpcstat.Error(codes.InvalidArgument, fmt.Sprintf(format, args...))
}

// makeParts makes the parts of the question.
func (c *call) makeParts() error {
	switch n := len(c.descriptors); {
	case c.domain == "":
		return invalid("the domain is empty")
	case n == 0:
		return invalid("there are no descriptors")
	case n > maxDescriptors:
		return invalid("there are %d descriptors, at most %d are allowed", n, maxDescriptors)
	}
	for i := range c.descriptors {
		if err := c.addDescriptor(i); err != nil {
			return err
		}
		c.statuses = append(c.statuses, status{})
	}
	for i := range c.parts {
		c.parts[i].life.Begin(c.service.gate)
		r := &c.parts[i].life.Req
		r.Domain, r.Priority = c.domain, c.service.opt.Priority
	}
	c.parts[charging].life.Req.Verb = weir.Force
	c.parts[refunding].life.Req.Verb = weir.Refund
	return nil
}

// addDescriptor adds descriptor i to the part where it belongs.
func (c *call) addDescriptor(i int) error {
	d := &c.descriptors[i]
	all := c.entries[d.from:d.to:d.to]
	if len(all) == 0 || len(all) > maxEntries {
		return invalid("descriptor %d has %d entries: it must have from 1 to %d", i, len(all), maxEntries)
	}
	to, lease := spending, ""
	kept := all[:0]
	for _, e := range all {
		switch e.Key {
		case "":
			return invalid("descriptor %d has an entry without a key", i)
		case EntryCharge:
			to = charging
		case EntryContentType:
			c.isCall = answer.IsCall(e.Value)
		case EntryLease:
			lease = permitName(e.Value)
		default:
			kept = append(kept, e)
		}
	}
	hits := uint64(max(c.hits, 1))
	if d.hasHits {
		hits = d.hits
	}
	switch {
	case len(kept) == 0:
		return invalid("descriptor %d has no entry but those for the service itself", i)
	case hits > maxHits:
		return invalid("hits_addend of descriptor %d is %d, at most %d are allowed", i, hits, maxHits)
	}
	out := weir.Descriptor{Entries: kept, Cost: int64(hits), Peek: hits == 0}
	if d.limited {
		if err := c.service.replace(&out, &d.override); err != nil {
			return invalid("descriptor %d: %s", i, err)
		}
	}
	if d.negative {
		to, out.Peek = refunding, false
	}
	p := &c.parts[to]
	if lease != "" {
		p.life.Req.Lease = lease
	}
	p.life.Req.Descriptors = append(p.life.Req.Descriptors, out)
	p.indexes = append(p.indexes, i)
	return nil
}

// permitName returns the name of a permit that a value asks for. A client may have chosen
// the value, so that none is an error: a long one is its hash, an empty one nobody's.
func permitName(value string) string {
	if len(value) > maxLease {
		sum := sha256.Sum256([]byte(value))
		return string(sum[:])
	}
	return cmp.Or(value, rand.Text())
}

// replace puts the limit o in the place of the rule's.
func (s *Service) replace(d *weir.Descriptor, o *override) error {
	period, err := o.statedPeriod()
	if err != nil {
		return err
	}
	if d.Override, err = s.overrides.limitFor(o.count, period); err != nil {
		return err
	}
	if o.count == 0 {
		d.Cost = 2 // of a limit of one: never
	}
	return nil
}

// answerQuestion decides the question and encodes the answer.
func (c *call) answerQuestion(ctx context.Context) error {
	if err := c.makeParts(); err != nil {
		return err
	}
	d, speaker, err := c.decideParts(ctx)
	if err != nil {
		return c.service.errorStatus(err)
	}
	ops := speaker.life.Req.Ops()
	var body []byte
	if d.Allowed() {
		c.values, c.fields = c.service.opt.Answer.Fields(c.values, c.fields, ops, d, admit.DecidedAt(ops))
	} else {
		c.values, c.fields, body, _ = c.service.opt.Answer.Refusal(c.values, c.fields, answer.OverLimit, ops, d, admit.DecidedAt(ops))
		if c.isCall {
			body = []byte(answer.Detail(ops, d))
		}
	}
	c.encodeResponse(d, speaker.life.Req.Guarantee(), c.fields, body)
	return nil
}

// errorStatus returns the status of a call that got err instead of a decision.
func (s *Service) errorStatus(err error) error {
	st, store := grpcstatus.Undecided(err)
	if store {
		s.gate.Faults.Report("request undecided", err)
	}
	return st
}
