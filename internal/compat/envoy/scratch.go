package envoy

import (
	"context"
	"math"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/compat/envoy/counter"
)

// scratch is what one request is decided in. It is used again.
type scratch struct {
	matcher
	matches []match
	hits    []counter.Hit
	// of are the places in matches that hits are for.
	of []int
}

// maxKept bounds the bytes that a scratch keeps for the next request.
const maxKept = 64 << 10

// reset forgets the request.
func (c *scratch) reset() {
	if cap(c.keys)+cap(c.metric)+cap(c.word)+64*(cap(c.matches)+cap(c.hits)+cap(c.counted)) > maxKept {
		*c = scratch{}
		return
	}
	clear(c.counted[:cap(c.counted)])
	clear(c.matches)
	clear(c.hits)
	c.matcher = matcher{word: c.word[:0], metric: c.metric[:0], keys: c.keys[:0], counted: c.counted[:0]}
	c.matches, c.hits, c.of = c.matches[:0], c.hits[:0], c.of[:0]
}

// matchDescriptors finds the limits of all descriptors, and drops those that others replace.
func (c *scratch) matchDescriptors(s *Service, set *set, req *rlsv3.RateLimitRequest) error {
	n := len(req.Descriptors)
	if cap(c.matches) < n {
		c.matches = make([]match, n)
	}
	c.matches = c.matches[:n]
	c.domain = set.domains[req.Domain]
	if c.domain == nil {
		s.opt.Stats.UnknownDomain(req.Domain).Add(uint64(n))
		return nil
	}
	c.stats, c.prefix, c.ratio = s.opt.Stats, s.opt.KeyPrefix, s.opt.NearLimitRatio
	replaces := false
	for i, d := range req.Descriptors {
		m := &c.matches[i]
		if err := c.fillMatch(m, d); err != nil {
			return err
		}
		replaces = replaces || m.rule != nil && len(m.rule.replaces) > 0
	}
	// A limit that is itself replaced, or is none, replaces others too.
	if replaces {
		c.replace()
	}
	for i, d := range req.Descriptors {
		m := &c.matches[i]
		if m.unlimited = m.rule != nil && m.rule.unlimited; m.unlimited {
			m.rule = nil
		}
		if m.rule == nil {
			continue
		}
		m.hits, m.back = max(1, uint64(req.HitsAddend)), d.IsNegativeHits
		if d.HitsAddend != nil {
			m.hits = d.HitsAddend.Value
		}
		if m.hits > math.MaxInt64 {
			return status.Errorf(codes.InvalidArgument, "hits_addend %d of descriptor %d is out of range: at most %d", m.hits, i, int64(math.MaxInt64))
		}
	}
	return nil
}

// replace drops the limits that others replace.
func (c *scratch) replace() {
	names := map[string]bool{}
	for i := range c.matches {
		if r := c.matches[i].rule; r != nil {
			for _, name := range r.replaces {
				names[name] = true
			}
		}
	}
	for i := range c.matches {
		if r := c.matches[i].rule; r != nil && !r.unlimited && names[r.limit.Name] {
			c.matches[i].rule = nil
		}
	}
}

// countHits changes the counters of all limits.
func (c *scratch) countHits(ctx context.Context, s *Service) error {
	cached := false
	for i := range c.matches {
		m := &c.matches[i]
		if m.rule == nil {
			continue
		}
		key := c.keys[m.from:m.to]
		if m.back {
			m.stats.NegativeHits.Add(m.hits)
			s.local.forgetKey(key)
		} else {
			m.stats.TotalHits.Add(m.hits)
			if m.cached = s.local.isOverLimit(key, c.now); m.cached {
				cached = true
				continue
			}
		}
		c.of = append(c.of, i)
		c.hits = append(c.hits, counter.Hit{
			Key: key, Hits: m.hits, Back: m.back,
			PerSecond: m.rule.limit.Unit == rlsv3.RateLimitResponse_RateLimit_SECOND,
			Period:    m.rule.period, End: c.now - c.now%m.rule.period + m.rule.period,
		})
	}
	if len(c.hits) == 0 {
		return nil
	}
	if s.looker != nil {
		if err := c.findExceeded(ctx, s, cached); err != nil {
			return err
		}
	}
	if err := s.opt.Counters.Add(ctx, c.now, c.hits); err != nil {
		return err
	}
	for i := range c.hits {
		c.matches[c.of[i]].count = c.hits[i].Count
	}
	return nil
}

// findExceeded sees which limits would be exceeded. If some are, the others count nothing.
func (c *scratch) findExceeded(ctx context.Context, s *Service, cached bool) error {
	over := cached
	if !cached {
		if err := s.looker.Look(ctx, c.now, c.hits); err != nil {
			return err
		}
		for i := range c.hits {
			h, m := &c.hits[i], &c.matches[c.of[i]]
			m.alone = !h.Back && h.Count+h.Hits > uint64(m.rule.limit.RequestsPerUnit)
			over = over || m.alone
		}
	}
	for i := range c.hits {
		if h := &c.hits[i]; over && !h.Back && !c.matches[c.of[i]].alone {
			h.Hits = 0
		}
	}
	return nil
}
