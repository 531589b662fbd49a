package weir

import (
	"errors"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"
)

// Limit is what is allowed: so many units in a period, counted by an
// algorithm. Fill the exported fields, then call [Limit.Compile] once ([New]
// does it for [Limits]); a compiled limit is immutable and safe for concurrent
// use.
type Limit struct {
	// Name says which limit this is in metrics, headers and explanations.
	// Empty means the limit in words, such as "100 per 1m0s".
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
	Params

	// Mode is what a breach does. The zero Mode refuses.
	Mode

	// Cells, Layout, Const and Envelope are filled by Algorithm.Prepare.

	// Cells is the most words of state a key needs.
	Cells int
	// Layout tells apart incompatible readings of the cells. Keys of another
	// layout start afresh.
	Layout string
	// Const is what the algorithm computed from the fields above; the
	// arguments of its script on other stores.
	Const [10]int64
	// Envelope is the most units that any interval of length Period can see
	// admitted; zero where the algorithm bounds something else.
	Envelope int64

	compiled bool
	simple   bool // a request meets it as one op that must allow
	traits   Traits
	id       uint64
	soft     *Limit
	ceiling  *Limit
	counters *Counters
	sources  [numSources]atomic.Pointer[Limit]
	source   Source
}

// Anchor is where the windows of a fixed_window limit begin.
type Anchor uint8

const (
	// AnchorEpoch: windows are aligned to the Unix epoch plus Params.Phase.
	AnchorEpoch Anchor = iota
	// AnchorFirst: a window begins with the first request after the last one
	// ended.
	AnchorFirst
	// AnchorCalendar: windows are days, weeks (from Monday), months or years
	// of Params.Location; Period is the nominal length, Params.Calendar the
	// unit.
	AnchorCalendar
)

// Calendar is the unit of calendar windows.
type Calendar uint8

// Units of a calendar window.
const (
	CalendarDay Calendar = iota
	CalendarWeek
	CalendarMonth
	CalendarYear
)

// Form is how a sliding_subwindows limit weighs its oldest sub-window.
type Form uint8

const (
	// Strict counts the oldest sub-window in full: never more than Count in
	// any window of Period.
	Strict Form = iota
	// Weighted counts the oldest sub-window in proportion to what the window
	// still covers of it.
	Weighted
	// Lenient leaves the oldest sub-window out.
	Lenient
)

// Params holds the parameters of single algorithms. The zero value is right
// for all of them.
type Params struct {
	// Anchor is where windows begin (fixed_window). Zero means AnchorEpoch.
	Anchor Anchor
	// Phase shifts windows aligned to the epoch, 0 to Period.
	Phase time.Duration
	// Calendar is the unit of calendar windows. Zero means days.
	Calendar Calendar
	// Location is the time zone of calendar windows. Nil means UTC.
	Location *time.Location
	// Precision is the number of sub-windows (sliding_subwindows). Zero means 60.
	Precision int
	// Form weighs the oldest sub-window (sliding_subwindows). Zero means Strict.
	Form Form
	// MaxDelay is the longest wait (leaky_queue). Zero means the time that
	// Burst units take to leave.
	MaxDelay time.Duration
	// Free is how many units pass without delay after a pause (leaky_queue).
	// Zero means none but the first.
	Free int64
	// MaxLog is the largest Count of a sliding_log limit. Zero means 10,000.
	MaxLog int64
	// Sketch sizes the approximate algorithm. The zero value takes 26 MiB, for
	// up to some five million units of a million keys in a period.
	Sketch SketchOptions
}

// SketchOptions sizes the sketch of an approximate limit. Either give the
// expected load and an error target, or the parameters themselves. The sizes are
// those of one sub-window, of which Generations and one more are kept.
type SketchOptions struct {
	// Expect is the number of units that all keys together spend in a period.
	// Zero means unknown: the sizes below are then used as they are.
	Expect int64
	// ErrorPermille is the over-count that is tolerated, in thousandths of
	// Count. Zero means 20.
	ErrorPermille int64
	// Width and Depth are the columns (a power of two) and rows of the
	// count-min sketch. Zero means by Expect and ErrorPermille, without Expect
	// 262,144 and 4.
	Width, Depth int
	// BloomBits and BloomHashes are the size of the Bloom filter and its number
	// of hash functions. Zero means for Expect keys, without Expect for a
	// million, of which one in a hundred is wrongly known.
	BloomBits   int64
	BloomHashes int
	// Generations is the number of sub-windows that the period is cut into.
	// Zero means 4.
	Generations int
}

// Mode is what a breach does, and who is let through all the same.
type Mode struct {
	// Excess makes the limit soft: so many percent above Count still pass,
	// marked soft. Zero means hard.
	Excess int64
	// Pool makes the limit elastic: what exceeds Count is taken from the pool
	// while it has room. Nil means not elastic. The pool is compiled with the
	// limit, its key is PoolKey; it is a bucket or a window, of whose Mode
	// nothing but Reserve may be set.
	Pool    *Limit
	PoolKey string
	// Ceiling is the most units per Period that one key may spend of its own
	// share and the pool together. Zero means no ceiling but the pool's.
	Ceiling int64
	// Shadow counts what would be refused and refuses nothing.
	Shadow bool
	// Rollout enforces the limit for so many percent of its keys, the same
	// keys always; for the others it is a shadow. Zero means 100.
	Rollout int64
	// Penalize charges refused requests too, so that whoever keeps on calling
	// stays refused.
	Penalize bool
	// Ban refuses a key outright while this limit on its refusals is
	// exhausted; algorithm.Lockout is made for it. Nil means no bans. It is
	// compiled with the limit.
	Ban *Limit
	// Reserve[p] is how many units are kept from requests of priority p.
	// Priorities beyond its end are treated as the last. Nil means all are
	// equal.
	Reserve []int64
}

// PerSecond returns a limit of count units per second.
func PerSecond(count int64, a Algorithm) *Limit { return per(count, time.Second, a) }

// PerMinute returns a limit of count units per minute.
func PerMinute(count int64, a Algorithm) *Limit { return per(count, time.Minute, a) }

// PerHour returns a limit of count units per hour.
func PerHour(count int64, a Algorithm) *Limit { return per(count, time.Hour, a) }

// PerDay returns a limit of count units per 24 hours.
func PerDay(count int64, a Algorithm) *Limit { return per(count, 24*time.Hour, a) }

func per(count int64, period time.Duration, a Algorithm) *Limit {
	return &Limit{Algorithm: a, Count: count, Period: period}
}

// scopeSeed keys the ids of scopes, so that nobody outside can aim at them.
var scopeSeed = maphash.MakeSeed()

// Compile checks the limit and prepares it for use. It must be called before
// the first decision, by one goroutine. Calling it again does nothing.
func (l *Limit) Compile() error {
	if l.compiled {
		return nil
	}
	if err := l.check(); err != nil {
		return err
	}
	if l.Burst == 0 {
		l.Burst = l.Count
	}
	if l.Name == "" {
		l.Name = fmt.Sprintf("%d per %s", l.Count, l.Period)
	}
	if l.Scope == "" {
		l.Scope = l.Name
	}
	if err := l.Algorithm.Prepare(l); err != nil {
		return fmt.Errorf("limit %q: %w", l.Name, err)
	}
	if l.Cells < 1 {
		return fmt.Errorf("limit %q: algorithm %s keeps no state", l.Name, l.Algorithm.Name())
	}
	if l.counters == nil {
		l.counters = NewCounters()
	}
	l.traits = traitsOf(l.Algorithm)
	l.simple = l.Mode.simple()
	l.compiled = true
	err := l.compileMode()
	// Not earlier: the raised count of a soft limit can need another layout.
	l.id = maphash.String(scopeSeed, l.Scope+"\x1f"+l.Algorithm.Name()+"\x1f"+l.Layout)
	return err
}

func (l *Limit) check() error {
	switch {
	case l.Algorithm == nil:
		return fmt.Errorf("limit %q: no algorithm", l.Name)
	case l.Count < 1 || l.Count > MaxCost:
		return fmt.Errorf("limit %q: count %d must be between 1 and 2^53", l.Name, l.Count)
	case l.Burst < 0 || l.Burst > MaxCost:
		return fmt.Errorf("limit %q: burst %d must be between 0 and 2^53", l.Name, l.Burst)
	case l.Period < time.Microsecond || l.Period%time.Microsecond != 0:
		return fmt.Errorf("limit %q: period %s must be a whole number of microseconds, at least one", l.Name, l.Period)
	case l.Period > MaxPeriod:
		return fmt.Errorf("limit %q: period %s must be at most %s", l.Name, l.Period, MaxPeriod)
	}
	return l.Mode.check(l)
}

// MaxPeriod is the longest period of a limit: ten years.
const MaxPeriod = 10 * 366 * 24 * time.Hour

// simple reports whether a request meets a limit of the mode as one op, in the
// role Enforce.
func (m *Mode) simple() bool {
	return m.Excess == 0 && m.Pool == nil && !m.Shadow && (m.Rollout == 0 || m.Rollout == 100) &&
		!m.Penalize && m.Ban == nil
}

func (m *Mode) check(l *Limit) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("limit %q: "+format, append([]any{l.Name}, args...)...))
	}
	if m.Excess < 0 || m.Excess > 1000 {
		bad("soft excess %d%% must be between 0 and 1000", m.Excess)
	}
	if m.Excess > 0 && m.Pool != nil {
		bad("a limit is either soft or elastic, not both")
	}
	if m.Pool != nil && m.Penalize {
		bad("an elastic limit cannot be penalizing: choose one")
	}
	if m.Rollout < 0 || m.Rollout > 100 {
		bad("rollout %d%% must be between 0 and 100", m.Rollout)
	}
	if m.Ceiling != 0 && (m.Pool == nil || m.Ceiling < l.Count) {
		bad("ceiling %d needs a pool and must be at least the count of %d", m.Ceiling, l.Count)
	}
	for p, r := range m.Reserve {
		if r < 0 || r >= max(l.Burst, l.Count) {
			bad("reserve of %d units against priority %d must be at least 0 and below the burst", r, p)
		}
	}
	_, leases := l.Algorithm.(Leaser)
	if leases && (m.Excess > 0 || m.Pool != nil || m.Penalize || m.Reserve != nil) {
		bad("a concurrency limit can be neither soft, elastic, penalizing nor prioritized")
	}
	if _, shapes := l.Algorithm.(Shaper); shapes && (m.Excess > 0 || m.Pool != nil) {
		bad("a limit that delays can be neither soft nor elastic")
	}
	return errors.Join(errs...)
}

// compileMode builds the limits that stand behind a mode: the lower threshold
// of a soft limit, the ceiling of an elastic one, and compiles pool and ban.
func (l *Limit) compileMode() error {
	derive := func(scope string, count, burst int64) *Limit {
		return &Limit{Name: l.Name, Scope: l.Scope + scope, Algorithm: l.Algorithm,
			Count: count, Period: l.Period, Burst: burst, Params: l.Params}
	}
	var errs []error
	if l.Excess > 0 {
		l.soft = derive("\x1fsoft", l.Count, l.Burst)
		errs = append(errs, l.soft.Compile())
		// The limit itself becomes the hard threshold above it.
		count, burst := raise(l.Count, l.Excess), raise(l.Burst, l.Excess)
		l.Count, l.Burst = count, burst
		errs = append(errs, l.Algorithm.Prepare(l))
	}
	if l.Pool != nil {
		if traitsOf(l.Pool.Algorithm)&(Sketches|Leases|Shapes) != 0 {
			errs = append(errs, fmt.Errorf("limit %q: a pool cannot be %s: use a bucket or a window", l.Name, l.Pool.Algorithm.Name()))
		}
		if m := &l.Pool.Mode; m.Excess != 0 || m.Pool != nil || m.Shadow || m.Rollout != 0 || m.Penalize || m.Ban != nil {
			errs = append(errs, fmt.Errorf("limit %q: of the modes a pool can have a reserve only", l.Name))
		}
		errs = append(errs, l.Pool.Compile())
	}
	if l.Ceiling > 0 {
		l.ceiling = derive("\x1fceiling", l.Ceiling, 0)
		errs = append(errs, l.ceiling.Compile())
	}
	if l.Ban != nil {
		l.Ban.Scope = l.Scope + "\x1fban"
		errs = append(errs, l.Ban.Compile())
	}
	return errors.Join(errs...)
}

// raise returns n and percent more, rounded down.
func raise(n, percent int64) int64 {
	if n > MaxCost/(100+percent) {
		return min(n+n/100*percent, MaxCost)
	}
	return n + n*percent/100
}

// ID tells this limit's counters from those of every other limit in this
// process. It differs from process to process.
func (l *Limit) ID() uint64 { return l.id }

// Traits returns which optional interfaces the limit's algorithm has.
func (l *Limit) Traits() Traits { return l.traits }

// Counters returns what was decided under this limit so far.
func (l *Limit) Counters() *Counters { return l.counters }

// Inherit makes l count on where old, an earlier version of the same limit,
// left off. It must be called before l is in use.
func (l *Limit) Inherit(old *Limit) { l.counters = old.counters }

// From returns the limit as it stands in decisions made from another source
// than the store's exact state: the same limit, with another Guarantee.
func (l *Limit) From(s Source) *Limit {
	if s == FromStore {
		return l
	}
	if v := l.sources[s].Load(); v != nil {
		return v
	}
	v := &Limit{Name: l.Name, Scope: l.Scope, Algorithm: l.Algorithm, Count: l.Count, Period: l.Period,
		Burst: l.Burst, Params: l.Params, Mode: l.Mode, Cells: l.Cells, Layout: l.Layout, Const: l.Const,
		Envelope: l.Envelope, compiled: true, traits: l.traits, id: l.id, soft: l.soft, ceiling: l.ceiling,
		counters: l.counters, source: s}
	if !l.sources[s].CompareAndSwap(nil, v) {
		return l.sources[s].Load()
	}
	return v
}

// Guarantee returns what decisions under l promise.
func (l *Limit) Guarantee() Guarantee {
	if _, ok := l.Algorithm.(Approximate); ok {
		return Guarantee{Envelope: l.Envelope, Source: FromSketch}
	}
	return Guarantee{
		Exact:    l.source == FromStore,
		Envelope: l.Envelope,
		Source:   l.source,
		Degraded: l.source == FromSketch,
	}
}

// Append adds the ops by which a request of the given key, cost and priority
// meets the limit. It allocates only when dst is full.
func (l *Limit) Append(dst []Op, key string, cost int64, r *Request) []Op {
	if l.simple {
		return appendOp(dst, l, key, cost, Enforce, r)
	}
	if l.Shadow || l.Rollout != 0 && l.Rollout < 100 && !l.enforced(key) {
		return appendOp(dst, l, key, cost, Shadow, r)
	}
	if l.Ban != nil {
		dst = appendOp(dst, l.Ban, key, 1, Ban, r)
	}
	if l.Pool == nil {
		dst = appendOp(dst, l, key, cost, Enforce, r)
		dst[len(dst)-1].Penalize = l.Penalize
		if l.soft != nil {
			dst = appendOp(dst, l.soft, key, cost, Soft, r)
		}
		return dst
	}
	if l.ceiling != nil {
		dst = appendOp(dst, l.ceiling, key, cost, Enforce, r)
	}
	dst = appendOp(dst, l, key, cost, Own, r)
	return appendOp(dst, l.Pool, l.PoolKey, cost, Pool, r)
}

// appendOp appends one op. It writes the op where it is to stand, field by field:
// Op is large, and making one to copy it cost as much as the rest of Append
// (BenchmarkDecide in bench/).
func appendOp(dst []Op, l *Limit, key string, cost int64, role Role, r *Request) []Op {
	n := len(dst)
	if n < cap(dst) {
		dst = dst[:n+1]
	} else {
		dst = append(dst, Op{})
	}
	o := &dst[n]
	o.Key, o.Limit, o.Cost, o.Reserve, o.ID = key, l, cost, 0, r.lease
	o.Role, o.Verb, o.Penalize = role, r.Verb, false
	o.Decision, o.Now, o.Charged, o.Borrowed = Decision{}, 0, false, false
	if k := len(l.Reserve); k > 0 && role != Ban {
		o.Reserve = l.Reserve[min(max(r.Priority, 0), k-1)]
	}
	return dst
}

// enforced reports whether key belongs to the share of keys that the rollout
// covers. It is the same on every node and after every restart.
func (l *Limit) enforced(key string) bool {
	// FNV-1a, then a finalizer so that the low bits depend on all of the key.
	// A client that finds a key outside the rollout escapes nothing that it
	// would not have escaped before the rollout began.
	h := uint64(14695981039346656037)
	for i := 0; i < len(key); i++ {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	return int64((h>>32)*100>>32) < l.Rollout
}
