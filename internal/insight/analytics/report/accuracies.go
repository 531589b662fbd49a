package report

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/insight/analytics/accuracy"
	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
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
func reportAccuracy(r *query.Reader) func() (any, error) {
	by := map[int64]*played{}
	r.EachArrivals(func(limit int64, client string, arrivals []accuracy.Arrival, cut bool) {
		p := rows.EnsureEntry(by, limit, func() *played { return &played{limit: limit, keys: map[string][]accuracy.Arrival{}} })
		p.n += int64(len(arrivals))
		p.keys[client] = append(p.keys[client], arrivals...)
		p.cut = p.cut || cut
	})
	all := slices.SortedFunc(maps.Values(by), func(a, b *played) int {
		return cmp.Or(cmp.Compare(b.n, a.n), rows.CompareLimits(r.ByID[a.limit], r.ByID[b.limit]))
	})
	if len(all) > maxComparedRules {
		all = all[:maxComparedRules]
		r.Missing = append(r.Missing, "compared are the "+strconv.Itoa(maxComparedRules)+" limits with the most arrivals of sampled keys")
	}
	out := &AccuracyList{Coverage: r.ReadCoverage(), Rules: []Accuracy{}}
	out.Coverage.Basis = "records"
	return func() (any, error) {
		for _, p := range all {
			a, err := p.compareDecisions(r.ByID[p.limit], &out.Coverage)
			if err != nil {
				return nil, err
			}
			out.Rules = append(out.Rules, *a)
		}
		return out, nil
	}
}

// compareDecisions compares what was decided with what should have been.
func (p *played) compareDecisions(l rows.Limit, c *query.Coverage) (*Accuracy, error) {
	of := accuracyOf(l)
	m, err := accuracy.New(of)
	if err != nil {
		c.Missing = append(c.Missing, "limit "+query.LimitName(l).String()+" is not compared: "+err.Error())
		return &Accuracy{Limit: l, Compare: []accuracy.Alternative{}}, nil
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
		sortArrivals(arrivals)
		keys = append(keys, arrivals)
		m.AddArrivals(arrivals)
	}
	out := &Accuracy{
		Limit: l, Report: m.Report(), Cut: p.cut,
		Reference: "at most " + strconv.FormatInt(l.Allowance, 10) + " units in any " + of.Period.String() + ", counted exactly",
	}
	out.RoundShares()
	if out.Compare, err = accuracy.Compare(of, keys); err != nil {
		return nil, err
	}
	for i := range out.Compare {
		a := &out.Compare[i]
		a.RoundShares()
		a.Operations = roundMillionths(a.Operations)
	}
	return out, nil
}
