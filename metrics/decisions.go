package metrics

import (
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/params"
)

// collectDecisions writes the decisions under each limit, by outcome, and how far it may be
// exceeded or misjudged.
func (c *collector) collectDecisions(series []Series, counter writeCounter, gauge writeGauge) {
	for k, sum := range c.sum(series) {
		for o := weir.Allowed; o < weir.NumOutcomes; o++ {
			// The two everyday outcomes are always there, so that a rate
			// can be taken from the first scrape on.
			if n := sum.counts[o]; n > 0 || o == weir.Allowed || o == weir.Refused {
				counter(decisions, n, k.domain, k.rule, k.limit, o.String())
			}
		}
		if sum.overshoot > 0 {
			gauge(overshoot, float64(sum.overshoot), k.domain, k.rule, k.limit)
		}
		if sum.sketched != nil && c.opt.Sketch != nil {
			c.collectSketch(k, sum.sketched, gauge)
		}
	}
}

// collectSketch writes the errors of an approximate limit.
func (c *collector) collectSketch(k label, l *weir.Limit, gauge writeGauge) {
	s, ok := c.opt.Sketch(l)
	if !ok {
		return
	}
	labels := []string{k.domain, k.rule, k.limit}
	gauge(sketchBytes, float64(s.Bytes), labels...)
	gauge(sketchBound, s.Bound, labels...)
	gauge(sketchMean, s.MeanError, labels...)
	gauge(sketchMax, float64(s.MaxError), labels...)
	gauge(sketchFalse, s.FalsePositives(), labels...)
	gauge(sketchFalseExpected, s.BloomExpected, labels...)
}

// label identifies a series.
type label struct{ domain, rule, limit string }

// other is the rule name of the limits beyond MaxSeries.
const other = "(other)"

// sum is what the limits of one label have counted.
type sum struct {
	// counts is by weir.Outcome.
	counts []uint64
	// overshoot is the largest that one of them promises.
	overshoot int64
	// sketched is the first approximate limit among them.
	sketched *weir.Limit
}

// sum adds up the counters of limits with the same labels: a registry
// refuses the same series twice.
func (c *collector) sum(series []Series) map[label]*sum {
	sums := make(map[label]*sum, min(len(series), c.opt.MaxSeries))
	// Limits may share counters; each is read once.
	seen := make(map[*weir.Counters]bool, len(series))
	for _, s := range series {
		counters := s.Limit.Counters()
		if counters == nil || seen[counters] {
			continue
		}
		seen[counters] = true
		k := label{valid(s.Domain), valid(s.Rule), valid(s.Limit.Name)}
		if sums[k] == nil && len(sums) >= c.opt.MaxSeries {
			k = label{rule: other}
		}
		at := sums[k]
		if at == nil {
			at = &sum{counts: make([]uint64, weir.NumOutcomes)}
			sums[k] = at
		}
		for o := weir.Allowed; o < weir.NumOutcomes; o++ {
			at.counts[o] += counters.Load(o)
		}
		eventual := s.Limit.Consistency.Mode == params.ConsistencyEventual ||
			c.opt.Regions && s.Limit.Consistency.Mode == params.ConsistencyDefault && s.Limit.Traits()&weir.Lends != 0
		if eventual && c.opt.Shared != nil {
			at.overshoot = max(at.overshoot, s.Limit.Overshoot())
		}
		if at.sketched == nil && k.rule != other && s.Limit.Traits()&weir.Sketches != 0 {
			at.sketched = s.Limit
		}
	}
	return sums
}

// valid returns s as a label value: Prometheus refuses other than UTF-8.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
