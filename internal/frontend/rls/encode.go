package rls

import (
	"math"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
	"github.com/weirlimit/weir/internal/wire"
)

// Codes of a RateLimitResponse.
const (
	codeOK        = 1
	codeOverLimit = 2
)

// status is what is told of one descriptor.
type status struct {
	over bool
	// limit is nil where none applied.
	limit     *weir.Limit
	remaining int64
	reset     time.Duration
	// banned: the limit came with the descriptor and allows nothing.
	banned bool
}

// encodeResponse writes the RateLimitResponse into c.out.
func (c *call) encodeResponse(d weir.Decision, g weir.Guarantee, fields []answer.Field, body []byte) {
	b := wire.AppendVarint(c.out[:0], 1, outcomeCode(!d.Allowed()))
	for i := range c.statuses {
		b = c.statuses[i].appendTo(b)
	}
	for i := range fields {
		var at int
		b, at = wire.Begin(b, 3)
		b = wire.AppendText(b, 1, fields[i].Name)
		b = wire.AppendText(b, 2, fields[i].Value)
		b = wire.End(b, at)
	}
	if len(body) > 0 {
		b = wire.AppendText(b, 5, body)
	}
	if c.service.opt.Metadata {
		b = appendMetadata(b, d, g)
	}
	c.out = b
}

func outcomeCode(over bool) uint64 {
	if over {
		return codeOverLimit
	}
	return codeOK
}

// appendTo appends s as one of the answer's statuses.
func (s *status) appendTo(b []byte) []byte {
	b, at := wire.Begin(b, 2)
	b = wire.AppendVarint(b, 1, outcomeCode(s.over))
	if l := s.limit; l != nil {
		var in int
		b, in = wire.Begin(b, 2)
		b = appendLimit(b, l, s.banned)
		b = wire.End(b, in)
		b = wire.AppendVarint(b, 3, uint64(clamp(s.remaining)))
		if s.reset > 0 {
			b, in = wire.Begin(b, 4)
			b = wire.AppendVarint(b, 1, uint64(answer.Seconds(s.reset)))
			b = wire.End(b, in)
		}
	}
	return wire.End(b, at)
}

// clamp returns n as the wire has it.
func clamp(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// appendLimit appends the fields of a RateLimitResponse.RateLimit.
func appendLimit(b []byte, l *weir.Limit, banned bool) []byte {
	if l.Bans {
		return wire.AppendText(b, 3, validText(l.Name)) // a ban has no rate
	}
	if !banned {
		b = wire.AppendVarint(b, 1, uint64(clamp(l.Count)))
	}
	unit, times := unitOf(l)
	b = wire.AppendVarint(b, 2, uint64(unit))
	b = wire.AppendText(b, 3, validText(l.Name))
	if times > 1 {
		var at int
		b, at = wire.Begin(b, 4)
		b = wire.AppendVarint(b, 1, uint64(times))
		b = wire.End(b, at)
	}
	return b
}
