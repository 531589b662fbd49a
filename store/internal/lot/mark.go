package lot

import (
	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/transport"
)

// MarkOp returns the op of the mark for the next call of a series, or for one that is made
// again.
func (v *Env) MarkOp(s *transport.Series, key string, again bool) weir.Op {
	return s.MarkOp(key, v.Mark, again, v.Clock.Now(), v.Rand)
}

// Variant returns a limit like l, without its burst, that change has changed: a version of l
// unless its scope is another. The error is one of weir.Limit.Compile.
func Variant(l *weir.Limit, change func(v *weir.Limit)) (*weir.Limit, error) {
	v := l.Clone()
	v.Count, v.Burst, v.Mode, v.Bans, v.Adjustment, v.Consistency = l.Count, 0, weir.Mode{}, false, nil, params.Consistency{}
	change(v)
	return v, v.Compile()
}

// RaisedByOvershoot returns l with all that it may be overshot by, on the same counters: what that has left
// shows by how much l was. It is nil if such a limit would have counters of its own.
func RaisedByOvershoot(l *weir.Limit) *weir.Limit {
	most, err := Variant(l, func(v *weir.Limit) {
		if l.Traits()&weir.Refills != 0 {
			v.Burst = l.Burst + l.Overshoot()
		} else {
			v.Count += l.Overshoot()
		}
	})
	if err != nil || most.ID() != l.ID() {
		return nil
	}
	return most
}

// DrawableUntil returns until when units of l with a receipt can be drawn, by the store's clock.
// The algorithm is a weir.Lender.
func DrawableUntil(l *weir.Limit, receipt int64) int64 {
	return l.Algorithm.(weir.Lender).SpendBy(l, receipt)
}

// ReceiptAt returns the receipt of a unit of l that is charged at now to a key never seen.
func ReceiptAt(l *weir.Limit, now int64) int64 {
	a := l.Algorithm.Step(make([]int64, l.Cells), l, weir.Ask{Now: now, Cost: 1})
	return now + micros.Of(a.ResetAfter)
}
