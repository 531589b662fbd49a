// Package breaker decides when a circuit breaker opens: after five failures in a row, or
// when ten of the last twenty calls failed. Whose breaker it is says what it does while it
// is open, and when it closes.
package breaker

import "math/bits"

const (
	inRow  = 5
	ofLast = 10
	last   = 20
)

// Failures is how calls ended. The zero value is ready. Not safe for concurrent use.
type Failures struct {
	row  int    // since the last success
	last uint32 // the last calls, 1 for a failure, newest lowest
	seen int    // how many of them there were
}

// Record counts the end of a call.
func (f *Failures) Record(failed bool) {
	f.seen = min(f.seen+1, last)
	f.last = f.last << 1 & (1<<last - 1)
	if !failed {
		f.row = 0
		return
	}
	f.row++
	f.last |= 1
}

// Row returns how many calls have failed since the last success.
func (f *Failures) Row() int { return f.row }

// IsRow reports whether enough calls in a row have failed.
func (f *Failures) IsRow() bool { return f.row >= inRow }

// AreMany reports whether enough calls have failed, in a row or of the last ones.
func (f *Failures) AreMany() bool {
	return f.IsRow() || f.seen == last && bits.OnesCount32(f.last) >= ofLast
}
