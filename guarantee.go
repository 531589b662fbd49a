package weir

import (
	"fmt"
	"math"
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

// Unbounded is the OverAdmit of a decision that promises nothing.
const Unbounded = math.MaxInt64

// String returns the word used in answers and metrics.
func (s Source) String() string {
	if s < numSources {
		return sourceWords[s]
	}
	return fmt.Sprintf("source(%d)", uint8(s))
}

// Guarantee is what a decision promises against the limit's own theorem, which
// the doc comment of each algorithm states.
type Guarantee struct {
	// Exact: the decision is the one that the algorithm's definition gives.
	Exact bool `json:"exact"`
	// OverAdmit is the most units that may be admitted above the theorem, or
	// Unbounded.
	OverAdmit int64 `json:"over_admit"`
	// Envelope is the most units that any interval as long as the limit's
	// period can see admitted when the decision is exact. Zero where the
	// algorithm bounds something else (concurrency).
	Envelope int64 `json:"envelope"`
	// Source is what the decision was made from.
	Source Source `json:"-"`
	// Degraded: the store could not give its usual guarantee (it is full, or
	// does not answer).
	Degraded bool `json:"degraded"`
}

// String states the guarantee in one line: "exact, at most 200 in any period".
func (g Guarantee) String() string {
	s := "exact"
	if !g.Exact {
		s = "may refuse early"
		switch {
		case g.OverAdmit == Unbounded:
			s = "may admit any number too many"
		case g.OverAdmit > 0:
			s = fmt.Sprintf("may admit %d too many", g.OverAdmit)
		}
	}
	if g.Envelope > 0 {
		s += fmt.Sprintf(", at most %d in any period", g.Envelope)
	}
	if g.Degraded {
		s += ", degraded"
	}
	return s
}
