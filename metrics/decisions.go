package metrics

import (
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/params"
)

// collectDecisions writes the decisions under each limit, by outcome, and how far it may be
// exceeded or misjudged.
func (c *collector) collectDecisions(out sink, series []limits.Ref) {
	decisions := out.counters("weir_decisions_total", "Decisions under a limit, by outcome.", "domain", "rule", "limit", "decision")
	overshoot := out.gauges("weir_limit_max_overshoot_units", "Largest number of units by which a limit with eventual consistency can exceed its limit.", "domain", "rule", "limit")
	sums := c.sumCounters(series)
	for k, sum := range sums {
		for o := weir.Allowed; o < weir.NumOutcomes; o++ {
			// The two everyday outcomes are always there, so that a rate
			// can be taken from the first scrape on.
			if n := sum.counts[o]; n > 0 || o == weir.Allowed || o == weir.Refused {
				decisions.count(n, k.Domain, k.Rule, k.Limit, o.String())
			}
		}
		if sum.overshoot > 0 {
			overshoot.set(float64(sum.overshoot), k.Domain, k.Rule, k.Limit)
		}
	}
	c.collectSketches(out, sums)
}

// collectSketches writes the errors of the approximate limits.
func (c *collector) collectSketches(out sink, sums map[limits.Name]*sum) {
	bytes := out.gauges("weir_sketch_bytes", "Memory of the sketch of an approximate limit.", "domain", "rule", "limit")
	bound := out.gauges("weir_sketch_error_bound_units", "Upper bound of the over-estimate of a key, with probability 1 - e^-depth.", "domain", "rule", "limit")
	mean := out.gauges("weir_sketch_error_mean_units", "Measured mean over-estimate of the keys that are also counted exactly.", "domain", "rule", "limit")
	largest := out.gauges("weir_sketch_error_max_units", "Measured largest over-estimate of the keys that are also counted exactly.", "domain", "rule", "limit")
	falsePositives := out.gauges("weir_sketch_false_positives_ratio", "Measured ratio of false positives of the Bloom filter.", "domain", "rule", "limit")
	expected := out.gauges("weir_sketch_false_positives_expected_ratio", "Ratio of false positives expected from the fill of the Bloom filter.", "domain", "rule", "limit")
	if c.opt.Sketch == nil {
		return
	}
	for k, sum := range sums {
		if sum.sketched == nil {
			continue
		}
		s, ok := c.opt.Sketch(sum.sketched)
		if !ok {
			continue
		}
		labels := []string{k.Domain, k.Rule, k.Limit}
		bytes.set(float64(s.Bytes), labels...)
		bound.set(s.Bound, labels...)
		mean.set(s.MeanError, labels...)
		largest.set(float64(s.MaxError), labels...)
		falsePositives.set(s.FalsePositives(), labels...)
		expected.set(s.BloomExpected, labels...)
	}
}

// other is the rule name of the limits beyond MaxSeries.
const other = "(other)"

// sum is what the limits of one name have counted.
type sum struct {
	// counts is by weir.Outcome.
	counts []uint64
	// overshoot is the largest that one of them promises.
	overshoot int64
	// sketched is the first approximate limit among them.
	sketched *weir.Limit
}

// sumCounters adds up the counters of limits with the same labels: a registry
// refuses the same series twice.
func (c *collector) sumCounters(series []limits.Ref) map[limits.Name]*sum {
	sums := make(map[limits.Name]*sum, min(len(series), c.opt.MaxSeries))
	// Limits may share counters; each is read once.
	seen := make(map[*weir.Counters]bool, len(series))
	for _, s := range series {
		counters := s.Limit.Counters()
		if counters == nil || seen[counters] {
			continue
		}
		seen[counters] = true
		k := limits.Name{Domain: validLabel(s.Domain), Rule: validLabel(s.Rule), Limit: validLabel(s.Limit.Name)}
		if sums[k] == nil && len(sums) >= c.opt.MaxSeries {
			k = limits.Name{Rule: other}
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
		if at.sketched == nil && k.Rule != other && s.Limit.Traits()&weir.Sketches != 0 {
			at.sketched = s.Limit
		}
	}
	return sums
}

// validLabel returns s as a label value: Prometheus refuses other than UTF-8.
func validLabel(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
