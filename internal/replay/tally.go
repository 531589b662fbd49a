package replay

import (
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/sketch"
	"github.com/weirlimit/weir/limits"
)

// followed is how many clients each limit follows to find those that it refuses
// most.
const followed = 256

// tally is what came of one limit.
type tally struct {
	limits.Ref
	met    int64                    // requests
	counts [weir.Degraded + 1]int64 // by weir.Outcome
	// decisive counts the refusals that were the request's answer.
	decisive         int64
	clients, refused distinct
	heavy            *sketch.SpaceSaving[string]
	// first and last are when it refused, in microseconds, 0 for never.
	first, last int64
	series      series
	demand      demand
}

func newTally(p limits.Ref) (*tally, error) {
	heavy, err := sketch.NewSpaceSaving[string](followed)
	return &tally{Ref: p, heavy: heavy, demand: demand{period: p.Limit.Period.Microseconds()}}, err
}

// addDecision takes in one decision under the limit.
func (t *tally) addDecision(op *weir.Op, now int64, decisive bool) {
	t.counts[op.Outcome]++
	hash := hashOf(op.Key)
	t.clients.addHash(hash)
	p := t.series.pointAt(now)
	if op.Outcome != weir.Refused && op.Outcome != weir.ShadowRefused {
		p.allowed++
		return
	}
	p.refused++
	t.refused.addHash(hash)
	t.heavy.AddUnits(strings.Clone(op.Key), 1) // the key lives in the request
	if decisive {
		t.decisive++
	}
	if t.first == 0 {
		t.first = now
	}
	t.last = now
}
