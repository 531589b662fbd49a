package grpcapi

import (
	"github.com/weirlimit/weir/internal/micros"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/wire"
)

// columns are decisions as a CheckBatchResponse has them: each column as the
// bytes of its packed integers.
type columns struct {
	cols [numColumns][]byte
	// written: the column has something else than zeros, or is always there.
	written [numColumns]bool
	limits  []*weir.Limit
}

// Columns, in the order of their fields; their numbers begin with 1.
const (
	colAllowed = iota
	colRemaining
	colRetryAfter
	colResetAfter
	colLimit
	colDelay
	colSoft
	colBorrowed
	numColumns
	fieldLimits = numColumns + 1
)

// always are the columns that have a member for every check.
var always = [numColumns]bool{colAllowed: true, colRemaining: true, colResetAfter: true, colLimit: true}

func (c *columns) reset() {
	for i := range c.cols {
		c.cols[i] = c.cols[i][:0]
	}
	clear(c.limits)
	c.written, c.limits = always, c.limits[:0]
}

func (c *columns) addDecision(r *weir.Request, d weir.Decision) {
	c.appendFlag(colAllowed, d.Allowed())
	c.appendNumber(colRemaining, remaining(d))
	c.appendNumber(colRetryAfter, microsOrNever(d.RetryAfter))
	c.appendNumber(colResetAfter, microsOrNever(d.ResetAfter))
	c.appendNumber(colLimit, int64(c.limitIndex(d.Limit)))
	soft, borrowed, delay := false, false, int64(0)
	if d.Allowed() {
		soft, borrowed, delay = r.Soft(), r.Borrowed(), microsOrNever(r.Delay())
	}
	c.appendNumber(colDelay, delay)
	c.appendFlag(colSoft, soft)
	c.appendFlag(colBorrowed, borrowed)
}

func (c *columns) appendNumber(col int, v int64) {
	c.written[col] = c.written[col] || v != 0
	c.cols[col] = protowire.AppendVarint(c.cols[col], uint64(v))
}

func (c *columns) appendFlag(col int, v bool) {
	n := int64(0)
	if v {
		n = 1
	}
	c.appendNumber(col, n)
}

// limitIndex returns the place of l among the limits, counted from 1.
func (c *columns) limitIndex(l *weir.Limit) int {
	if l == nil {
		return 0
	}
	// The last ones first: checks that follow each other meet the same limits.
	for i := len(c.limits) - 1; i >= 0; i-- {
		if c.limits[i] == l {
			return i + 1
		}
	}
	c.limits = append(c.limits, l)
	return len(c.limits)
}

// appendResponse appends the CheckBatchResponse.
func (c *columns) appendResponse(b []byte) []byte {
	for i := range c.cols {
		if c.written[i] {
			b = wire.AppendText(b, protowire.Number(i+1), c.cols[i])
		}
	}
	for _, l := range c.limits {
		var at, in int
		b, at = wire.Begin(b, fieldLimits)
		b, in = wire.Begin(b, 1)
		b = wire.AppendText(b, 1, validText(l.Name))
		if !l.RefusesAll() {
			b = wire.AppendVarint(b, 2, uint64(l.Count))
			b = wire.AppendVarint(b, 3, uint64(l.Burst))
			b = wire.AppendVarint(b, 4, uint64(micros.Of(l.Period)))
			b = wire.AppendText(b, 5, l.Algorithm.Name())
		}
		b = wire.End(b, in)
		g := l.Guarantee()
		b, in = wire.Begin(b, 2)
		b = wire.AppendBool(b, 1, g.Exact)
		b = wire.AppendVarint(b, 2, uint64(g.OverAdmit))
		b = wire.AppendVarint(b, 3, uint64(g.Envelope))
		b = wire.AppendText(b, 4, g.Source.String())
		b = wire.AppendBool(b, 5, g.Degraded)
		b = wire.AppendVarint(b, 6, uint64(g.AtMost))
		b = wire.End(b, in)
		b = wire.AppendBool(b, 3, l.Bans)
		b = wire.End(b, at)
	}
	return b
}
