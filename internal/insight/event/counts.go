package event

import "github.com/weirlimit/weir"

// outcomeCounts is by weir.Outcome.
type outcomeCounts [weir.NumOutcomes]uint64

// takeGrowth returns by how much counters have grown since the last call, by the words of
// outcomes.
func (c *outcomeCounts) takeGrowth(counters *weir.Counters, word func(weir.Outcome) string) map[string]uint64 {
	grown := make(map[string]uint64)
	for o := weir.Allowed; o < weir.NumOutcomes; o++ {
		if n := counters.Load(o); n != c[o] {
			grown[word(o)] = n - c[o]
			c[o] = n
		}
	}
	return grown
}
