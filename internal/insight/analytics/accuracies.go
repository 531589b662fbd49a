package analytics

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/insight/analytics/accuracy"
)

const (
	// maxCompared is how many decisions of a limit are compared: the newest.
	maxCompared = 100_000
	// maxComparedRules is how many limits are.
	maxComparedRules = 20
)

// played are the arrivals of a limit, by key.
type played struct {
	limit int64
	keys  map[string][]accuracy.Arrival
	n     int64
	cut   bool
}

// reportAccuracy reads the arrivals of the range, and returns what makes an AccuracyList of
// them.
func reportAccuracy(r *reader) func() (*AccuracyList, error) {
	by := map[int64]*played{}
	r.eachArrivals(func(limit int64, client string, arrivals []accuracy.Arrival, cut bool) {
		p := entry(by, limit, func() *played { return &played{limit: limit, keys: map[string][]accuracy.Arrival{}} })
		p.n += int64(len(arrivals))
		p.keys[client] = append(p.keys[client], arrivals...)
		p.cut = p.cut || cut
	})
	all := slices.SortedFunc(maps.Values(by), func(a, b *played) int {
		return cmp.Or(cmp.Compare(b.n, a.n), compareLimits(r.byID[a.limit], r.byID[b.limit]))
	})
	if len(all) > maxComparedRules {
		all = all[:maxComparedRules]
		r.missing = append(r.missing, "compared are the "+strconv.Itoa(maxComparedRules)+" limits with the most arrivals of sampled keys")
	}
	out := &AccuracyList{Coverage: r.coverage(), Rules: []Accuracy{}}
	out.Coverage.Basis = "records"
	return func() (*AccuracyList, error) {
		for _, p := range all {
			a, err := p.compare(r.byID[p.limit], &out.Coverage)
			if err != nil {
				return nil, err
			}
			out.Rules = append(out.Rules, *a)
		}
		return out, nil
	}
}

// compare compares what was decided with what should have been.
func (p *played) compare(l Limit, c *Coverage) (*Accuracy, error) {
	of := accuracyOf(l)
	m, err := accuracy.New(of)
	if err != nil {
		c.Missing = append(c.Missing, "limit "+nameOf(l).String()+" is not compared: "+err.Error())
		return &Accuracy{Limit: l, Compare: []Compared{}}, nil
	}
	var keys [][]accuracy.Arrival
	n := 0
	for _, key := range slices.Sorted(maps.Keys(p.keys)) {
		arrivals := p.keys[key]
		if n+len(arrivals) > maxCompared {
			p.cut = true
			break
		}
		n += len(arrivals)
		inOrder(arrivals)
		keys = append(keys, arrivals)
		m.Key(arrivals)
	}
	rep := m.Report()
	out := &Accuracy{
		Limit: l, Keys: rep.Keys, Decisions: rep.Decisions, Cut: p.cut,
		Reference:  "at most " + strconv.FormatInt(l.Allowance, 10) + " units in any " + of.Period.String() + ", counted exactly",
		FalseAllow: round(rep.FalseAllow()), FalseDeny: round(rep.FalseDeny()), FalseAllowed: rep.FalseAllowed, FalseDenied: rep.FalseDenied,
		Overshoot: round(rep.Overshoot), Worst: rep.Worst, Boundary: round(rep.Boundary),
		PeakToMean: round(rep.PeakBefore), PeakToMeanAdmitted: round(rep.PeakAfter), Compare: []Compared{},
	}
	others, err := accuracy.Compare(of, keys)
	if err != nil {
		return nil, err
	}
	for _, a := range others {
		out.Compare = append(out.Compare, Compared{
			Algorithm: a.Algorithm, InUse: a.InUse, Unsupported: a.Unsupported, Admitted: a.Admitted, Refused: a.Refused, Delayed: a.Delayed,
			LongestDelayMS: a.LongestDelay.Milliseconds(), FalseAllow: round(a.FalseAllow()), FalseDeny: round(a.FalseDeny()),
			Overshoot: round(a.Overshoot), Boundary: round(a.Boundary), PeakToMeanAdmitted: round(a.PeakAfter),
			BytesPerKey: a.Bytes, Operations: round(a.Operations),
		})
	}
	return out, nil
}
