package lot

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
)

// A mark counts the calls of one entry on the store, so that one whose answer was lost can
// be repeated. Calls are numbered by it for NumberFor, in microseconds, and one is repeated
// for RepeatFor; the store remembers it for longer. It counts up to MarkCount, which is
// more than there can be: an op with a headroom of MarkCount less n passes while fewer than
// n calls were counted.
const (
	NumberFor, RepeatFor = 60_000_000, 20_000_000
	markLife             = 90 * time.Second
	MarkCount            = 1 << 40
)

// NewMark returns a mark for calls on l, under a name that nothing else has, nor ever had.
// The error is one of weir.Limit.Compile.
func NewMark(l *weir.Limit, calls string) (*weir.Limit, error) {
	return Variant(l, func(v *weir.Limit) {
		v.Inherit(l)
		v.Scope += "\x1f" + calls + " " + strconv.FormatUint(rand.Uint64(), 36)
		v.Algorithm, v.Count, v.Period, v.Params = algorithm.FixedWindow, MarkCount, markLife, params.Params{Anchor: params.AnchorFirst}
	})
}

// Variant returns a limit like l, without its burst, that change has changed. The error is
// one of weir.Limit.Compile.
func Variant(l *weir.Limit, change func(v *weir.Limit)) (*weir.Limit, error) {
	v := &weir.Limit{Name: l.Name, Scope: l.Scope, Algorithm: l.Algorithm, Count: l.Count, Period: l.Period, Params: l.Params}
	change(v)
	return v, v.Compile()
}

// DrawBy returns until when units of l with a receipt can be drawn, by the store's clock.
// The algorithm is a weir.Lender.
func DrawBy(l *weir.Limit, receipt int64) int64 { return l.Algorithm.(weir.Lender).SpendBy(l, receipt) }

// ReceiptAt returns the receipt of a unit of l that is charged at now to a key never seen.
func ReceiptAt(l *weir.Limit, now int64) int64 {
	a := l.Algorithm.Step(make([]int64, l.Cells), l, weir.Ask{Now: now, Cost: 1})
	return now + micros.Of(a.ResetAfter)
}
