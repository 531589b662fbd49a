package lot

import (
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
)

// Marks count the calls of entries on the store, so that one whose answer was lost can be
// repeated: call n passes only while fewer than n were counted. They are used by turns: when
// the turn of one comes again, the store has forgotten it. The key tells entries apart.
type Marks [3]*weir.Limit

// A turn is so many microseconds long, and a call that was begun in it is repeated for
// RepeatFor, or until KnownFor from the beginning of the turn; the store remembers a mark for
// longer. It counts up to markCount, which is more than there can be.
const (
	turn, RepeatFor = 60_000_000, 20_000_000
	KnownFor        = turn + RepeatFor
	markLife        = 90 * time.Second
	markCount       = 1 << 40
)

// NewMarks returns marks for calls on l, under a name by rand that nothing else has, nor ever
// had. The error is one of weir.Limit.Compile.
func NewMarks(l *weir.Limit, calls string, rand func() uint64) (m *Marks, err error) {
	m = &Marks{}
	name := "\x1f" + calls + " " + strconv.FormatUint(rand(), 36)
	for i := range m {
		m[i], err = Variant(l, func(v *weir.Limit) {
			v.Inherit(l)
			v.Scope += name + " " + strconv.Itoa(i)
			v.Algorithm, v.Count, v.Period, v.Params = algorithm.FixedWindow, markCount, markLife, params.Params{Anchor: params.AnchorFirst}
		})
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

// TurnAt returns the turn at an instant of the monotonic clock, in microseconds. It is
// never zero.
func TurnAt(ticks int64) int64 { return 1 + ticks/turn }

// SinceTurn returns for how many microseconds that turn has lasted.
func SinceTurn(ticks int64) int64 { return ticks % turn }

// Op returns the op that counts the call of a key after so many by the mark of a turn. If
// how many is not known, less than zero, it looks.
func (m *Marks) Op(key string, turn, counted int64) weir.Op {
	o := weir.Op{Key: key, Limit: m[turn%int64(len(m))], Cost: 1, Headroom: markCount - counted - 1}
	if counted < 0 {
		o.Headroom, o.Role, o.Verb = 0, weir.Always, weir.Peek
	}
	return o
}

// Counted returns how many calls a mark has counted, by the store's answer to its op.
func Counted(o *weir.Op) int64 { return markCount - o.Decision.Remaining }

// Variant returns a limit like l, without its burst, that change has changed. The error is
// one of weir.Limit.Compile.
func Variant(l *weir.Limit, change func(v *weir.Limit)) (*weir.Limit, error) {
	v := &weir.Limit{Name: l.Name, Scope: l.Scope, Algorithm: l.Algorithm, Count: l.Count, Period: l.Period, Params: l.Params}
	change(v)
	return v, v.Compile()
}

// Raised returns l with all that it may be overshot by, on the same counters: what that has left
// shows by how much l was. It is nil if such a limit would have counters of its own.
func Raised(l *weir.Limit) *weir.Limit {
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

// DrawBy returns until when units of l with a receipt can be drawn, by the store's clock.
// The algorithm is a weir.Lender.
func DrawBy(l *weir.Limit, receipt int64) int64 { return l.Algorithm.(weir.Lender).SpendBy(l, receipt) }

// ReceiptAt returns the receipt of a unit of l that is charged at now to a key never seen.
func ReceiptAt(l *weir.Limit, now int64) int64 {
	a := l.Algorithm.Step(make([]int64, l.Cells), l, weir.Ask{Now: now, Cost: 1})
	return now + micros.Of(a.ResetAfter)
}
