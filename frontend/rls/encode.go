package rls

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/answer"
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

// encode writes the RateLimitResponse into c.out.
func (c *call) encode(d weir.Decision, fields []answer.Field, body []byte) {
	b := appendVarint(c.out[:0], 1, code(!d.Allowed()))
	for i := range c.statuses {
		b = c.statuses[i].append(b)
	}
	for i := range fields {
		var at int
		b, at = begin(b, 3)
		b = appendText(b, 1, fields[i].Name)
		b = appendText(b, 2, fields[i].Value)
		b = end(b, at)
	}
	if len(body) > 0 {
		b = appendText(b, 5, body)
	}
	c.out = b
}

func code(over bool) uint64 {
	if over {
		return codeOverLimit
	}
	return codeOK
}

// append appends s as one of the answer's statuses.
func (s *status) append(b []byte) []byte {
	b, at := begin(b, 2)
	b = appendVarint(b, 1, code(s.over))
	if l := s.limit; l != nil {
		var in int
		b, in = begin(b, 2)
		b = appendLimit(b, l, s.banned)
		b = end(b, in)
		b = appendVarint(b, 3, uint64(clamp(s.remaining)))
		if s.reset > 0 {
			b, in = begin(b, 4)
			b = appendVarint(b, 1, uint64(seconds(s.reset)))
			b = end(b, in)
		}
	}
	return end(b, at)
}

// seconds returns d rounded up.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// clamp returns n as the wire has it.
func clamp(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }

// appendLimit appends the fields of a RateLimitResponse.RateLimit.
func appendLimit(b []byte, l *weir.Limit, banned bool) []byte {
	if !banned {
		b = appendVarint(b, 1, uint64(clamp(l.Count)))
	}
	unit, times := unitOf(l)
	b = appendVarint(b, 2, uint64(unit))
	name := l.Name
	if !utf8.ValidString(name) {
		name = strings.ToValidUTF8(name, "_")
	}
	b = appendText(b, 3, name)
	if times > 1 {
		var at int
		b, at = begin(b, 4)
		b = appendVarint(b, 1, uint64(times))
		b = end(b, at)
	}
	return b
}

// appendVarint appends an integer field, nothing if it is zero.
func appendVarint(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}

// appendText appends a field of bytes, nothing if there are none.
func appendText[T string | []byte](b []byte, num protowire.Number, v T) []byte {
	if len(v) == 0 {
		return b
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, num, protowire.BytesType), uint64(len(v)))
	return append(b, v...)
}

// begin begins a message in a message, whose fields are appended next.
func begin(b []byte, num protowire.Number) (more []byte, at int) {
	b = append(protowire.AppendTag(b, num, protowire.BytesType), 0)
	return b, len(b)
}

// end states the length of the message that began at.
func end(b []byte, at int) []byte {
	n := len(b) - at
	if n < 0x80 {
		b[at-1] = byte(n)
		return b
	}
	size := protowire.SizeVarint(uint64(n))
	for range size - 1 {
		b = append(b, 0)
	}
	copy(b[at-1+size:], b[at:at+n])
	protowire.AppendVarint(b[:at-1], uint64(n))
	return b
}
