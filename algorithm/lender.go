package algorithm

import (
	"math"

	"github.com/weirlimit/weir"
)

// The algorithms whose units a node may fetch ahead. A log counts the instant of
// each spend, a queue its order, a lockout failures as they happen: they are none.
var (
	_ weir.Lender = gcra(0)
	_ weir.Lender = fixedWindow{}
	_ weir.Lender = slidingWindow{}
	_ weir.Lender = slidingCounter{}
	_ weir.Lender = slidingSubwindows{}
)

// SpendBy implements weir.Lender: what flows back does so whenever it is spent.
func (gcra) SpendBy(*weir.Limit, int64) int64 { return math.MaxInt64 }

// SpendBy implements weir.Lender: units die with their window.
func (fixedWindow) SpendBy(_ *weir.Limit, receipt int64) int64 { return receipt }

// SpendBy implements weir.Lender: units die with the window that they were
// charged to, one period before it stops to count.
func (slidingCounter) SpendBy(l *weir.Limit, receipt int64) int64 {
	return receipt - l.Const[windowPeriod]
}

// SpendBy implements weir.Lender: units die when they count as spent, at the end of
// the limit's grain; without one that is when they were charged.
func (slidingWindow) SpendBy(l *weir.Limit, receipt int64) int64 {
	return receipt - l.Const[windowPeriod]
}

// SpendBy implements weir.Lender: units die with the sub-window that they were
// charged to.
func (slidingSubwindows) SpendBy(l *weir.Limit, receipt int64) int64 {
	return receipt - (l.Const[subKept]-1)*l.Const[subLength]
}
