package weir

import "fmt"

// Source names what a decision was made from.
type Source uint8

const (
	// FromStore is the exact state that the store keeps for the key.
	FromStore Source = iota
	// FromSketch is an estimate shared by many keys. It never counts less than
	// was spent, so it never admits too much; it may refuse too early.
	FromSketch
	numSources
)

// String returns the word used in answers and metrics.
func (s Source) String() string {
	switch s {
	case FromStore:
		return "store"
	case FromSketch:
		return "sketch"
	}
	return fmt.Sprintf("source(%d)", uint8(s))
}

// Guarantee is what a decision promises against the limit's own theorem, which
// the doc comment of each algorithm states.
type Guarantee struct {
	// Exact: the decision is the one that the algorithm's definition gives.
	Exact bool `json:"exact"`
	// OverAdmit is the most units that may be admitted above the theorem.
	OverAdmit int64 `json:"over_admit"`
	// Envelope is the most units that any interval as long as the limit's
	// period can see admitted when the decision is exact. Zero where the
	// algorithm bounds something else (concurrency).
	Envelope int64 `json:"envelope"`
	// Source is what the decision was made from.
	Source Source `json:"-"`
	// Degraded: the store could not give its usual guarantee (it is full).
	Degraded bool `json:"degraded"`
}

// String states the guarantee in one line: "exact, at most 200 in any period".
func (g Guarantee) String() string {
	s := "exact"
	if !g.Exact {
		s = "may refuse early"
		if g.OverAdmit > 0 {
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
