package envoy

import (
	"math"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// one is the response to a request of one descriptor, in one piece of memory.
type one struct {
	response rlsv3.RateLimitResponse
	status   [1]rlsv3.RateLimitResponse_DescriptorStatus
	pointer  [1]*rlsv3.RateLimitResponse_DescriptorStatus
	duration [1]durationpb.Duration
}

// newResponse returns a response with n statuses, and a duration for each.
func newResponse(n int) (*rlsv3.RateLimitResponse, []durationpb.Duration) {
	if n == 1 {
		o := &one{}
		o.pointer[0] = &o.status[0]
		o.response.Statuses = o.pointer[:]
		return &o.response, o.duration[:]
	}
	statuses := make([]rlsv3.RateLimitResponse_DescriptorStatus, n)
	resp := &rlsv3.RateLimitResponse{Statuses: make([]*rlsv3.RateLimitResponse_DescriptorStatus, n)}
	for i := range statuses {
		resp.Statuses[i] = &statuses[i]
	}
	return resp, make([]durationpb.Duration, n)
}

// makeResponse makes the response of the counts.
func (c *scratch) makeResponse(s *Service, req *rlsv3.RateLimitRequest) *rlsv3.RateLimitResponse {
	modes := &s.opt.Modes
	resp, durations := newResponse(len(c.matches))
	// told is the status that the headers tell.
	strictest, least := -1, uint32(math.MaxUint32)
	refused, quotas, quotasOver := false, 0, 0
	for i := range c.matches {
		m, st := &c.matches[i], resp.Statuses[i]
		if m.unlimited {
			st.Code, st.LimitRemaining = rlsv3.RateLimitResponse_OK, math.MaxUint32
			continue
		}
		st.Code = rlsv3.RateLimitResponse_OK
		if m.rule != nil {
			st.CurrentLimit = m.rule.limit
			durations[i].Seconds = m.rule.period - c.now%m.rule.period
			st.DurationUntilReset = &durations[i]
			c.applyLimit(s, m, st)
			if st.LimitRemaining < least {
				strictest, least = i, st.LimitRemaining
			}
		}
		quota := modes.Quota || m.rule != nil && m.rule.quota
		if quota {
			quotas++
		}
		switch {
		case st.Code == rlsv3.RateLimitResponse_OK:
		case quota:
			quotasOver++
		default:
			refused, strictest, least = true, i, 0
		}
	}
	resp.OverallCode = rlsv3.RateLimitResponse_OK
	// Limits of quota mode refuse together only.
	if refused || quotas > 0 && quotas == quotasOver {
		resp.OverallCode = rlsv3.RateLimitResponse_OVER_LIMIT
		if modes.Shadow {
			resp.OverallCode = rlsv3.RateLimitResponse_OK
			s.totals.GlobalShadowMode.Inc()
		}
	}
	if modes.Headers.Enabled && strictest >= 0 {
		resp.ResponseHeadersToAdd = modes.Headers.valuesFor(resp.Statuses[strictest])
	}
	if modes.DynamicMetadata {
		resp.DynamicMetadata = c.metadata(req, resp.Statuses)
	}
	return resp
}

// applyLimit sets the status of a limit by where its counter stands, and counts what
// was decided. Counters of statistics are added to as envoyproxy/ratelimit does,
// where it subtracts below zero included.
func (c *scratch) applyLimit(s *Service, m *match, st *rlsv3.RateLimitResponse_DescriptorStatus) {
	limit := uint64(m.rule.limit.RequestsPerUnit)
	after, before := m.count, m.count-m.hits
	switch {
	case m.back:
		st.LimitRemaining = uint32(limit - min(limit, after))
		return
	case m.cached:
		m.stats.OverLimit.Add(m.hits)
		m.stats.OverLimitWithLocalCache.Add(m.hits)
		before = limit
	case after > limit:
		if before >= limit {
			m.stats.OverLimit.Add(m.hits)
		} else {
			m.stats.OverLimit.Add(after - limit)
			m.stats.NearLimit.Add(limit - max(m.rule.near, before))
		}
		s.local.remember(c.keys[m.from:m.to], c.now, m.rule.period)
	default:
		if near := m.rule.near; after > near {
			if before >= near {
				m.stats.NearLimit.Add(m.hits)
			} else {
				m.stats.NearLimit.Add(after - near)
			}
		}
		m.stats.WithinLimit.Add(m.hits)
		st.LimitRemaining = uint32(limit - after)
		return
	}
	if !m.rule.shadow {
		st.Code = rlsv3.RateLimitResponse_OVER_LIMIT
		return
	}
	if before >= limit {
		m.stats.ShadowMode.Add(m.hits)
	} else {
		m.stats.ShadowMode.Add(after - limit)
	}
}

// valuesFor returns the headers for a status that has a limit.
func (h *Headers) valuesFor(st *rlsv3.RateLimitResponse_DescriptorStatus) []*corev3.HeaderValue {
	all := [...]corev3.HeaderValue{
		{Key: h.Limit, Value: decimal(uint64(st.CurrentLimit.RequestsPerUnit))},
		{Key: h.Remaining, Value: decimal(uint64(st.LimitRemaining))},
		{Key: h.Reset, Value: decimal(uint64(st.DurationUntilReset.Seconds))},
	}
	return []*corev3.HeaderValue{&all[0], &all[1], &all[2]}
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
