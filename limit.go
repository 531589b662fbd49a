package weir

import (
	"fmt"
	"hash/maphash"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/params"
)

// Bounds, and numbers that stand for something else.
const (
	// Never is the RetryAfter of a request that can never pass, however long it
	// waits: its cost exceeds what the limit could ever hold.
	Never time.Duration = -1
	// Forever is the longest duration that a decision states; longer ones are cut
	// to it.
	Forever time.Duration = math.MaxInt64
	// NoAnswer is the Code of a [Result], beside the statuses of HTTP, of a request that
	// was let through and got no response: the upstream could not be reached, broke off,
	// or took too long.
	NoAnswer = 0
	// ClientGone is the Code of a request whose client hung up before the end of the
	// response, as nginx logs it: nothing of its charge is given back.
	ClientGone = 499
	// MaxCost is the largest cost of a request and the largest count of a limit:
	// 2^53, the largest integer that every store's script computes exactly.
	MaxCost = 1 << 53
	// MaxPeriod is the longest period of a limit: ten years.
	MaxPeriod = 10 * 366 * 24 * time.Hour
	// MaxCode is the largest code of a [Result].
	MaxCode = 639
	// Unbounded is the OverAdmit and AtMost of a [Guarantee] without a number.
	Unbounded = math.MaxInt64
	// FractionBits is how many low bits of a key's first cell lie below the
	// microsecond, see [Algorithm].
	FractionBits = 11
	// LatencyEvery is how many decisions there are for each one that is timed, see
	// [Request.Took]: to look at the clock twice costs as much as to decide.
	LatencyEvery = 256
)

// Limit is what is allowed: so many units in a period, counted by an
// algorithm. Fill the exported fields, then call [Limit.Compile] once ([New]
// does it for [Limits]); a compiled limit is immutable and safe for concurrent
// use.
type Limit struct {
	// Name says which limit this is in metrics, headers and explanations.
	// Empty means the limit in words, such as "100/minute".
	Name string
	// Scope separates the counters of this limit from those of others: limits
	// of the same Scope and algorithm share the counters of equal keys, and a
	// reloaded limit finds its counters again by it. Empty means Name.
	Scope string
	// Algorithm decides. Required.
	Algorithm Algorithm
	// Count is how many units per Period, 1 to MaxCost; for a concurrency
	// limit, how many at once.
	Count int64
	// Period is what Count is counted over, in whole microseconds; for a
	// concurrency limit, how long a lease lives unless renewed.
	Period time.Duration
	// Burst is how many units pass at once (token_bucket, leaky_bucket), or
	// may wait (leaky_queue). Zero means Count.
	Burst int64

	// Params holds what only some algorithms know.
	params.Params

	// Mode is what a breach does. The zero Mode refuses.
	Mode

	// Bans: what the limit refuses is banned, and answers say so and until when, in
	// place of how much is left. Compile sets it of a Mode.Ban. With a Count of 0 the limit
	// refuses whatever is asked of it: so decisions name a ban or a deny list.
	Bans bool

	// Adjustment is what becomes of a charge once the request's answer is
	// known. Nil means that it stands.
	Adjustment *Adjustment

	// Consistency is how nodes that share a store count together.
	Consistency params.Consistency

	// Derived is the limit that this is a version of, where both have one Scope, until
	// Compile has seen it. Nil means that names alone tell.
	Derived *Limit

	Prepared
	compilation
}

// Prepared is what [Algorithm].Prepare computes of a limit.
type Prepared struct {
	// Cells is the most words of state a key needs.
	Cells int
	// Full is how many words the fullest key of a [Grower] needs if it was never
	// under another version of the limit. Zero means Cells.
	Full int
	// Layout tells apart incompatible readings of the cells. Keys of another
	// layout start afresh.
	Layout string
	// Price tells apart the numbers by which the cells of one layout are read. Rows of
	// another price are carried over by the algorithm, which is a [Carrier]. Empty means
	// that cells are read alike under all numbers.
	Price string
	// Const is what the algorithm computed from the settings of the limit; the
	// arguments of its script on other stores.
	Const [10]int64
	// Envelope is the most units that any interval of length Period can see
	// admitted; zero where the algorithm bounds something else.
	Envelope int64
}

// compilation is what Compile computes of a limit beside Prepared.
type compilation struct {
	compiled    bool
	isSimple    bool // a request meets it as one op that must allow
	traits      Traits
	id          uint64
	rowID       uint64
	counter     uint64
	counterName string
	soft        *Limit
	ceiling     *Limit
	counters    *Counters
	sources     *[numSources]atomic.Pointer[Limit] // shared by the limit and what From returns
	source      Source
	part        bool // it is the pool or the ban of limits: it counts other than what passes
}

// PerSecond returns a limit of count units per second.
func PerSecond(count int64, a Algorithm) *Limit { return newLimit(count, time.Second, a) }

// PerMinute returns a limit of count units per minute.
func PerMinute(count int64, a Algorithm) *Limit { return newLimit(count, time.Minute, a) }

// PerHour returns a limit of count units per hour.
func PerHour(count int64, a Algorithm) *Limit { return newLimit(count, time.Hour, a) }

// PerDay returns a limit of count units per 24 hours.
func PerDay(count int64, a Algorithm) *Limit { return newLimit(count, 24*time.Hour, a) }

func newLimit(count int64, period time.Duration, a Algorithm) *Limit {
	return &Limit{Algorithm: a, Count: count, Period: period}
}

// scopeSeed keys the ids of scopes, so that nobody outside can aim at them.
var scopeSeed = maphash.MakeSeed()

// rateInWords returns a rate as a rules file has it, such as "100/minute" or "5/10m".
func rateInWords(count int64, period time.Duration) string {
	every := ""
	switch period {
	case time.Second:
		every = "second"
	case time.Minute:
		every = "minute"
	case time.Hour:
		every = "hour"
	case 24 * time.Hour:
		every = "day"
	default:
		every = period.String()
		for _, none := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(every, none) {
				every = every[:len(every)-2]
			}
		}
	}
	return fmt.Sprintf("%d/%s", count, every)
}

// ID tells this limit's counters from those of every other limit in this
// process. It differs from process to process.
func (l *Limit) ID() uint64 { return l.id }

// RowID is ID for limits of one Price: it tells apart the rows in which they keep a
// counter. It differs from ID in the lower 32 bits only, so that a store can keep all
// rows of a counter in one place.
func (l *Limit) RowID() uint64 { return l.rowID }

// CounterID is the same for all versions of a limit between whose rows a [Carrier] carries
// over what was spent, whatever their algorithms and layouts; zero if none does.
func CounterID(l *Limit) uint64 { return l.counter }

// CounterName is CounterID as all processes have it; empty if that is zero.
func CounterName(l *Limit) string { return l.counterName }

// Restarts says why l counts from zero where old, an earlier version of the same
// limit, has counted. Empty means that it goes on from there. Both must be compiled.
func (l *Limit) Restarts(old *Limit) string {
	switch {
	case l.id == old.id, l.counter != 0 && l.counter == old.counter:
		return ""
	case l.Algorithm.Name() != old.Algorithm.Name():
		return "each algorithm counts for itself"
	case l.Scope != old.Scope:
		return "it is counted under another name"
	}
	return fmt.Sprintf("%s keeps the two in different forms", l.Algorithm.Name())
}

// RefusesAll reports whether l stands for a ban or a deny list: it has a name, and no count,
// period or algorithm that would say anything.
func (l *Limit) RefusesAll() bool { return l.Bans && l.Count == 0 }

// Traits returns what is special about the limit's algorithm.
func (l *Limit) Traits() Traits { return l.traits }

// Counters returns what was decided under this limit so far.
func (l *Limit) Counters() *Counters { return l.counters }

// Inherit makes l count on where old, an earlier version of the same limit,
// left off. It must be called before l is in use.
func (l *Limit) Inherit(old *Limit) {
	l.counters = old.counters
	for _, part := range [...]*Limit{l.soft, l.ceiling} {
		if part != nil {
			part.counters = l.counters
		}
	}
}

// From returns the limit as it stands in decisions made from another source
// than the store's exact state: the same limit, with another Guarantee.
func (l *Limit) From(s Source) *Limit {
	if s == FromStore {
		return l
	}
	if v := l.sources[s].Load(); v != nil {
		return v
	}
	v := *l
	v.source = s
	if !l.sources[s].CompareAndSwap(nil, &v) {
		return l.sources[s].Load()
	}
	return &v
}

// Clone returns a version of the limit that is not compiled: all that callers set as they
// set it, for [Limit.Compile] after a change. With the Scope of l it goes on from what l
// has counted, see Derived. It shares l's counters; the parts of its mode are l's.
func (l *Limit) Clone() *Limit {
	v := *l
	v.Prepared, v.compilation = Prepared{}, compilation{counters: l.counters}
	v.Derived = l
	if l.soft != nil { // Compile raised the numbers by the excess
		v.Count, v.Burst = l.soft.Count, l.soft.Burst
	}
	return &v
}
