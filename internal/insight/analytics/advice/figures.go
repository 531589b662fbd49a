package advice

import (
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/verdict"
)

// Figures is what is known of a limit in a range of time.
type Figures struct {
	// Algorithm is the word for it in rules. Allowance units are allowed in a
	// Period; Burst is the most that passes at once.
	Algorithm string
	Allowance int64
	Period    time.Duration
	Burst     int64
	// Kind says what the rule's keys name.
	Kind verdict.Kind
	// Shadow says that the limit is tried and never heard. A limit that is enforced
	// for a share of its keys is no shadow.
	Shadow bool
	// From and To are the range. It counts as no longer than records were kept.
	From, To time.Time

	// Allowed, Refused and ShadowRefused are decisions, as roll-ups count them; soft,
	// borrowed and delayed ones are among the allowed. Decisive is in how many of the
	// refusals the limit's answer was the request's.
	Allowed       int64
	Refused       int64
	ShadowRefused int64
	Decisive      int64

	// Sample is what sampled clients asked for in their busiest period, limited or
	// not.
	Sample Quantiles
	// Clients are those that were limited, or the most limited of them.
	Clients []Client

	// Minutes is how many minutes had decisions, Tripped how many of them had
	// refusals, Trips how often a minute with refusals followed one without.
	Minutes int64
	Tripped int64
	Trips   int64
}

// Client is one that was limited.
type Client struct {
	Evidence *verdict.Evidence
	Verdict  verdict.Verdict
}

// Quantiles of what clients asked for in their busiest period, in units. 95 in 100 of
// the clients stay at or below P95.
type Quantiles struct{ Clients, P95, Max int64 }

// refusals are those that were, or would have been but for shadow mode.
func (f *Figures) refusals() int64 { return f.Refused + f.ShadowRefused }

func (f *Figures) decisions() int64 { return f.Allowed + f.refusals() }

func (f *Figures) rangeLength() time.Duration { return max(f.To.Sub(f.From), 0) }

// part is what limited clients of one class have in common.
type part struct {
	clients, refused int64
}

// partsByClass divides the limited clients by class.
func (f *Figures) partsByClass() (by map[verdict.Class]part, all part) {
	by = make(map[verdict.Class]part)
	for _, c := range f.Clients {
		if c.Evidence == nil {
			continue
		}
		p := by[c.Verdict.Class]
		p.clients++
		p.refused += c.Evidence.Refused
		by[c.Verdict.Class] = p
		all.clients++
		all.refused += c.Evidence.Refused
	}
	return by, all
}
