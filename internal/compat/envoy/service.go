package envoy

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/compat/envoy/counter"
	"github.com/weirlimit/weir/internal/compat/envoy/stats"
	"github.com/weirlimit/weir/internal/faults"
)

// Service answers ShouldRateLimit. Make it with New, give it rules with Load.
// Safe for concurrent use.
type Service struct {
	rlsv3.UnimplementedRateLimitServiceServer
	opt    Options
	faults *faults.Log
	looker counter.Looker
	totals stats.Service
	local  *localCache
	// rules is nil until some are loaded.
	rules atomic.Pointer[set]
	pool  sync.Pool
}

// New returns a service without rules: until some are loaded it answers with an
// error.
func New(o Options) *Service {
	o.fillDefaults()
	s := &Service{opt: o, faults: faults.New(o.Logger), totals: o.Stats.Service()}
	if o.StopIncrementWhenOver {
		s.looker, _ = o.Counters.(counter.Looker)
	}
	if o.LocalCacheBytes != 0 {
		s.local = newLocalCache(o.LocalCacheBytes)
	}
	s.pool.New = func() any { return new(scratch) }
	return s
}

// LoadFiles takes the rules of all files, in their order, in place of those before.
// After an error, whose text is that of envoyproxy/ratelimit, the rules are what
// they were. With merge, files may add descriptors to a domain of others
// (MERGE_DOMAIN_CONFIG). No files are no rules: no domain is known then.
func (s *Service) LoadFiles(files []File, merge bool) error {
	set, err := compileFiles(files, merge, s.opt.NearLimitRatio)
	return s.installRules(set, err)
}

func (s *Service) installRules(set *set, err error) error {
	if err != nil {
		s.totals.ConfigLoadError.Inc()
		return err
	}
	set.bindStats(s.opt.Stats)
	s.totals.ConfigLoadSuccess.Inc()
	s.rules.Store(set)
	return nil
}

// LoadedDomains returns how many domains there are rules for. It is false until rules
// are loaded.
func (s *Service) LoadedDomains() (domains int, ok bool) {
	set := s.rules.Load()
	if set == nil {
		return 0, false
	}
	return len(set.order), true
}

// Dump writes one line for each limit, in the order of the files.
func (s *Service) Dump(w io.Writer) error {
	if set := s.rules.Load(); set != nil {
		return set.dump(w)
	}
	return nil
}

// The faults of a request, in the words of envoyproxy/ratelimit.
var (
	errNoDomain      = status.Error(codes.Unknown, "rate limit domain must not be empty")
	errNoDescriptors = status.Error(codes.Unknown, "rate limit descriptor list must not be empty")
	errNoRules       = status.Error(codes.Unknown, "no rate limit configuration loaded")
)

// storeError is an error of the store of the counters.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// GRPCStatus makes the error one of gRPC, with its own text.
func (e storeError) GRPCStatus() *status.Status { return status.New(codes.Unknown, e.Error()) }

// ShouldRateLimit implements Envoy's rate limit service. Its errors have the code
// Unknown, as with envoyproxy/ratelimit; InvalidArgument is for what that one
// cannot take: overrides without a unit, and hits beyond 63 bits.
func (s *Service) ShouldRateLimit(ctx context.Context, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	resp, err := s.decide(ctx, req)
	if err == nil {
		return resp, nil
	}
	if _, store := errors.AsType[storeError](err); store {
		s.totals.RedisError.Inc()
	} else {
		s.totals.ServiceError.Inc()
	}
	return nil, err
}

func (s *Service) decide(ctx context.Context, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	rules := s.rules.Load()
	switch {
	case req.Domain == "":
		return nil, errNoDomain
	case len(req.Descriptors) == 0:
		return nil, errNoDescriptors
	case rules == nil:
		return nil, errNoRules
	}
	c := s.pool.Get().(*scratch)
	defer func() {
		c.reset()
		s.pool.Put(c)
	}()
	c.now = s.opt.Now()
	if err := c.matchDescriptors(s, rules, req); err != nil {
		return nil, err
	}
	if err := c.countHits(ctx, s); err != nil {
		return nil, storeError{err}
	}
	return c.makeResponse(s, req), nil
}
