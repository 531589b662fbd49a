package transport

import (
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/neighbor"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/internal/clock"
)

// A mark of a series is used for new calls for so many microseconds, and for those that are
// made again until KnownFor: the store remembers it for longer. It counts up to markCount,
// which is more than there can be.
const (
	seriesFor, KnownFor = 60_000_000, 80_000_000
	markLife            = 90 * time.Second
	markCount           = 1 << 40
)

// NewMark returns the limit of which all marks are counters, each beside the key that is
// charged: a fixed window, which stands above this package.
func NewMark(fixedWindow weir.Algorithm) *weir.Limit {
	l := &weir.Limit{Name: "calls", Scope: "\x1fonce", Algorithm: fixedWindow, Count: markCount, Period: markLife, Params: params.Params{Anchor: params.AnchorFirst}}
	if err := l.Compile(); err != nil {
		panic(err) // nobody chooses its numbers
	}
	return l
}

// A Series is calls of an entry, one after the other, each of which the store carries out once,
// however often and late it arrives: in the same call it counts them by a mark that nothing
// else has, nor ever had, and the n-th passes only while fewer than n were counted. So one
// whose answer was lost can be made again. Every server has counted so many as it was sent at
// most: one that refuses a call has carried it out. The zero value begins with the next call.
type Series struct {
	name  string
	done  int64 // calls that are over
	begun clock.Node
}

// MarkOp returns the op of the mark for the next call of a series at now, or for one that is
// made again: a counter of a limit beside a key, with a name from rand.
func (s *Series) MarkOp(key string, mark *weir.Limit, again bool, now clock.Node, rand func() uint64) weir.Op {
	if s.name == "" || !again && int64(now-s.begun) > seriesFor {
		*s = Series{name: strconv.FormatUint(rand()|1, 36), begun: now}
	}
	return weir.Op{Key: neighbor.Key(key, s.name), Limit: mark, Cost: 1, Headroom: markCount - s.done - 1}
}

// IsOver reports whether the store may forget the mark: no call is made again.
func (s *Series) IsOver(now clock.Node) bool { return int64(now-s.begun) > KnownFor }

// EndCall ends a call: the next one has another number.
func (s *Series) EndCall() { s.done++ }

// HasRun reports whether the call was carried out before, by the store's answer to its mark.
func (s *Series) HasRun(o *weir.Op) bool { return markCount-o.Decision.Remaining > s.done }
