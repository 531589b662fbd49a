package report

import (
	"cmp"
	"math"

	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// Totals are decisions under limits, by outcome. A request meets as many decisions
// as limits.
type Totals struct {
	// Decisions is how many there were: all outcomes but estimated and degraded,
	// which are counted beside the others.
	Decisions int64 `json:"decisions"`
	// Counts has the number of each outcome that there was, by its word.
	Counts map[string]int64 `json:"counts"`
	// RefusedShare, DelayedShare and ShadowShare are shares of Decisions, 0 to 1. In
	// Overview RefusedShare is the share of requests where those are known. A request meets
	// one limit once, so of one limit the two are the same.
	RefusedShare float64 `json:"refused_share"`
	DelayedShare float64 `json:"delayed_share"`
	ShadowShare  float64 `json:"shadow_share"`
}

// addOutcome counts decisions.
func (t *Totals) addOutcome(outcome string, n int64) {
	if t.Counts == nil {
		t.Counts = map[string]int64{}
	}
	t.Counts[outcome] += n
	if !query.IsMark(outcome) {
		t.Decisions += n
	}
	t.RefusedShare = shareOf(t.Counts["refused"], t.Decisions)
	t.DelayedShare = shareOf(t.Counts["delayed"], t.Decisions)
	t.ShadowShare = shareOf(t.Counts["shadow_refused"], t.Decisions)
}

// countLimited is how many decisions limited somebody, or would have.
func (t *Totals) countLimited() int64 {
	return t.Counts["refused"] + t.Counts["delayed"] + t.Counts["shadow_refused"]
}

// compareRefused orders by what was refused, then what was delayed, then what would have
// been refused, then by all; the most first.
func compareRefused(a, b *Totals) int {
	return cmp.Or(cmp.Compare(b.Counts["refused"], a.Counts["refused"]), cmp.Compare(b.Counts["delayed"], a.Counts["delayed"]),
		cmp.Compare(b.Counts["shadow_refused"], a.Counts["shadow_refused"]), cmp.Compare(b.Decisions, a.Decisions))
}

// totalsOf returns the decisions of a client.
func totalsOf(c *rows.Cells) Totals {
	t := Totals{Counts: map[string]int64{}}
	for outcome, cell := range rows.OutcomeCells {
		if c.N[cell] != 0 {
			t.addOutcome(outcome, c.N[cell])
		}
	}
	return t
}

func shareOf(a, b int64) float64 {
	if b <= 0 {
		return 0
	}
	return math.Round(float64(a)/float64(b)*1e6) / 1e6
}
