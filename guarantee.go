package weir

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirlimit/weir/params"
)

// Source names what a decision was made from.
type Source uint8

const (
	// FromStore is the exact state that the store keeps for the key.
	FromStore Source = iota
	// FromSketch is an estimate shared by many keys. It never counts less than
	// was spent, so it never admits too much; it may refuse too early.
	FromSketch
	// FromCache is a refusal of the shared store that the node remembers and
	// that still holds.
	FromCache
	// FromLease are units that the node has fetched from the shared store
	// ahead, and that the store counts as spent. Other nodes may hold units too,
	// so it can refuse early; it never admits too much.
	FromLease
	// FromLooseLease is FromLease where the whole burst was lent.
	FromLooseLease
	// FromCounts is what the node has admitted on its own since it last told
	// the shared store, and what the store knew then.
	FromCounts
	// FromLocal is the node's own state, of a limit that each node counts
	// alone. It is exact on the node.
	FromLocal
	// FromShare is the node's share of the limit, while the shared store does
	// not answer.
	FromShare
	// FromLastKnown is what the node last knew to remain, while the shared store
	// does not answer.
	FromLastKnown
	// FailedOpen: the shared store does not answer, and everything passes.
	FailedOpen
	// FailedClosed: the shared store does not answer, and nothing passes.
	FailedClosed
	// FromSuccessor is the state of a server that keeps the key while its own
	// server is lost: what was spent before is not known to it.
	FromSuccessor
	numSources
)

// sourceWords are the words used in answers and metrics.
var sourceWords = [numSources]string{"store", "sketch", "cache", "lease", "loose_lease", "counts", "local", "share",
	"last_known", "failed_open", "failed_closed", "successor"}

// String returns the word used in answers and metrics.
func (s Source) String() string {
	if s < numSources {
		return sourceWords[s]
	}
	return fmt.Sprintf("source(%d)", uint8(s))
}

// UnmarshalText sets s to the source of a word that String returns. It returns an
// error for any other word, and leaves s as it is.
func (s *Source) UnmarshalText(word []byte) error {
	i := slices.Index(sourceWords[:], string(word))
	if i < 0 {
		return fmt.Errorf("weir: no source %q", word)
	}
	*s = Source(i)
	return nil
}

// mayRefuseEarly reports whether decisions from s can refuse what the algorithm's definition
// would allow.
func (s Source) mayRefuseEarly() bool {
	switch s {
	case FromStore, FromCache, FromLocal, FromLastKnown, FailedOpen, FromSuccessor:
		return false
	}
	return true
}

// degraded reports whether decisions from s have less than the usual guarantee of a
// limit that is kept exactly.
func (s Source) degraded() bool {
	switch s {
	case FromSketch, FailedClosed, FromShare, FromSuccessor, FromLastKnown, FailedOpen:
		return true
	}
	return false
}

// Guarantee is what a decision promises: how many units can be admitted in any
// interval as long as the limit's period. A cost that is forced is counted and not
// bounded.
type Guarantee struct {
	// Exact: no such interval ever sees more than the written count, AtMost is no
	// larger than it, and the decision is the one that the algorithm's definition
	// gives. A bucket is not exact: its burst comes on top of its count. The count of
	// a soft limit is the one below its excess.
	Exact bool `json:"exact"`
	// AtMost is the most units that any such interval can see admitted, all that is
	// said here included; for a concurrency limit, the most that are held at once.
	// Of a limit FromLocal or FromSketch it is the number of one node. Unbounded where no number
	// holds: a shadow refuses nothing, a pool also bears what limits assure, a ban counts
	// refusals, and a cost that the response states is charged whatever remains.
	AtMost int64 `json:"at_most"`
	// OverAdmit is the most units that may be admitted above the limit's own theorem,
	// which the doc comment of each algorithm states, or Unbounded. It is a part of
	// AtMost, once for each window that such an interval touches.
	OverAdmit int64 `json:"over_admit"`
	// Envelope is AtMost where each decision is the one that the algorithm's
	// definition gives, and nothing is borrowed. Zero where the algorithm bounds
	// something else (concurrency).
	Envelope int64 `json:"envelope"`
	// Source is what the decision was made from.
	Source Source `json:"-"`
	// Degraded: the store could not give its usual guarantee (it is full, or
	// does not answer).
	Degraded bool `json:"degraded"`
}

// String states the guarantee in one line: "exact, at most 100 in any period".
func (g Guarantee) String() string {
	var parts []string
	switch {
	case g.Exact:
		parts = append(parts, "exact")
	case g.OverAdmit == Unbounded:
		parts = append(parts, "may admit any number too many")
	case g.OverAdmit > 0:
		parts = append(parts, fmt.Sprintf("may admit %d too many", g.OverAdmit))
	case g.Source.mayRefuseEarly():
		parts = append(parts, "may refuse early")
	}
	switch {
	case g.AtMost == Unbounded && g.OverAdmit != Unbounded && !g.Exact: // a pool, a shadow
		parts = append(parts, "bounded by no number of its own")
	case g.AtMost == Unbounded || g.AtMost == 0:
	case g.Envelope == 0:
		parts = append(parts, fmt.Sprintf("at most %d at once", g.AtMost))
	default:
		parts = append(parts, fmt.Sprintf("at most %d in any period", g.AtMost))
	}
	if g.Source == FromLocal {
		parts = append(parts, "on each node")
	}
	if g.Degraded {
		parts = append(parts, "degraded")
	}
	return strings.Join(parts, ", ")
}

// Guarantee returns what decisions under l promise.
func (l *Limit) Guarantee() Guarantee {
	if l.Algorithm != nil && l.Algorithm.Traits()&Sketches != 0 {
		return Guarantee{AtMost: mostAdmitted(l, false), Envelope: l.Envelope, Source: FromSketch}
	}
	g := Guarantee{AtMost: mostAdmitted(l, l.source == FromCounts), Envelope: l.Envelope, Source: l.source}
	if l.Bans && l.part {
		g.Envelope = 0 // its windows hold refusals
	}
	g.Exact = g.AtMost <= writtenCount(l)
	switch {
	case l.Consistency.Mode == params.ConsistencyEventual:
		g.Exact, g.OverAdmit = false, l.Overshoot()
	case lendsAll(l):
		g.OverAdmit = l.Inflow()
	}
	g.Degraded = l.source.degraded()
	switch l.source {
	case FromSketch, FailedClosed, FromLease, FromLocal:
		g.Exact = false
	case FromLooseLease:
		g.Exact, g.OverAdmit = false, l.Inflow()
		if !lendsAll(l) {
			g.AtMost = addUnits(g.AtMost, g.OverAdmit)
		}
	case FromCounts:
		g.Exact, g.OverAdmit = false, l.Overshoot()
	case FromShare, FromSuccessor:
		// What the store has admitted before is not known, and may be all of it.
		g.Exact, g.OverAdmit = false, l.Burst
		g.AtMost = addUnits(g.AtMost, g.AtMost)
	case FromLastKnown, FailedOpen:
		g.Exact, g.OverAdmit, g.AtMost = false, Unbounded, Unbounded
	}
	if a := l.Adjustment; a != nil && (a.Per > 0 || a.Header != "") {
		// What requests in flight will cost is not known: all of them may pass.
		g.Exact, g.OverAdmit, g.AtMost = false, Unbounded, Unbounded
	}
	return g
}

// writtenCount is the count that the limit was given, below the excess of a soft limit.
func writtenCount(l *Limit) int64 {
	if l.soft != nil {
		return l.soft.Count
	}
	return l.Count
}

// mostAdmitted returns the most units that any interval of one period can see admitted to a
// key, as long as the store answers; counts: where nodes count on their own.
func mostAdmitted(l *Limit, counts bool) int64 {
	switch {
	case l.Shadow || l.part:
		return Unbounded
	case l.Pool == nil || l.Pool.Algorithm == nil:
		return mostOwn(l, counts)
	}
	n := addUnits(mostOwn(l, counts), mostOwn(l.Pool, counts))
	if l.ceiling != nil {
		n = min(n, mostOwn(l.ceiling, counts))
	}
	return n
}

// mostOwn is mostAdmitted for the limit's own units.
func mostOwn(l *Limit, counts bool) int64 {
	n := l.Envelope
	switch {
	case l.Count == 0: // denies
		return 0
	case l.traits&Leases != 0:
		return l.Count
	case n == 0:
		return Unbounded
	case !counts && lendsAll(l):
		return addUnits(n, l.Inflow())
	case !counts && l.Consistency.Mode != params.ConsistencyEventual:
		return n
	}
	// Each window can be overshot, a bucket once.
	times := max(n/l.Count, 1)
	if flowsBack(l) {
		times = 1
	}
	if over := l.Overshoot(); over <= (Unbounded-n)/times {
		return n + times*over
	}
	return Unbounded
}

// flowsBack reports whether units of l are bound to no window and flow back, as those of
// a bucket.
func flowsBack(l *Limit) bool {
	by, ok := l.Algorithm.(Lender)
	return ok && by.SpendBy(l, 0) == math.MaxInt64
}

// lendsAll reports whether nodes may fetch the whole burst of l ahead.
func lendsAll(l *Limit) bool {
	m := l.Consistency.Mode
	return l.Consistency.Loose && (m == params.ConsistencyDefault || m == params.ConsistencyLeased) && flowsBack(l)
}

// addUnits returns a + b, at most Unbounded. Neither is negative.
func addUnits(a, b int64) int64 {
	if a > Unbounded-b {
		return Unbounded
	}
	return a + b
}
