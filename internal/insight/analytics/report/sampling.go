package report

import (
	"cmp"
	"slices"

	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

// sampledPeak is how near a sampled client came to its limit, as a share of it, and
// the most units that it asked for in a period.
type sampledPeak struct {
	usage  float64
	demand int64
}

// sampling is what the rows of a client say of its peaks.
type sampling struct {
	// units are the most in a period that is longer than a row, or in a row.
	units, second, minute, least, limited, every int64
	periods                                      map[int64]int64 // units of longer periods
}

// sampledClient is a client with its peaks.
type sampledClient struct {
	rows.ClientKey
	*sampling
}

// sampleCells are the cells that peaks are of.
var sampleCells = []int{rows.Units, rows.Peak, rows.PeakMinute, rows.Least, rows.Refused, rows.Shadow, rows.Every}

// windowsIn returns how long the periods of limits are whose period is longer than a row.
func windowsIn(r *query.Reader, g rows.Grain) map[int64]int64 {
	out := map[int64]int64{}
	for _, id := range r.Chosen {
		if w := rows.CeilTo(r.ByID[id].PeriodMS, g.Seconds()*1000) / 1000; w > g.Seconds() {
			out[id] = w
		}
	}
	return out
}

// addRow takes in a row of a limit whose periods are so long, or not longer than a row.
func (s *sampling) addRow(l *rows.ClientLine, window int64) {
	s.second, s.minute = max(s.second, l.N[rows.Peak]), max(s.minute, l.N[rows.PeakMinute])
	s.least, s.every = min(s.least, l.N[rows.Least]), max(s.every, l.N[rows.Every])
	s.limited += l.N[rows.Refused] + l.N[rows.Shadow]
	if window == 0 {
		s.units = max(s.units, l.N[rows.Units])
		return
	}
	if s.periods == nil {
		s.periods = map[int64]int64{}
	}
	n := s.periods[l.At-l.At%window] + l.N[rows.Units]
	s.periods[l.At-l.At%window] = n
	s.units = max(s.units, n)
}

// eachPeak calls each with the peaks of sampled clients, in order.
func eachPeak(r *query.Reader, all []sampledClient, each func(limit int64, client string, p sampledPeak)) {
	slices.SortFunc(all, func(a, b sampledClient) int {
		return cmp.Or(cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Client, b.Client))
	})
	for _, s := range all[:min(len(all), maxSampled)] {
		l := r.ByID[s.Limit]
		p := sampledPeak{demand: demandIn(l.PeriodMS, r.ClientGrain(), s.units, s.second, s.minute)}
		if s.least != rows.NoLeast && l.Burst > 0 {
			p.usage = roundMillionths(float64(max(l.Burst-s.least, 0)) / float64(l.Burst))
		}
		if s.limited > 0 {
			p.usage = max(p.usage, 1)
		}
		each(s.Limit, s.Client, p)
	}
}

// demandIn returns the most units of a period, of the most in one row, one second
// and one minute: exact where a row is a period, and else between what is known
// of shorter times and what the row allows.
func demandIn(periodMS int64, g rows.Grain, row, second, minute int64) int64 {
	if periodMS >= g.Seconds()*1000 {
		return row
	}
	if g == rows.Hour && periodMS >= 60_000 {
		return max(minute, rows.DivideUp(row*periodMS, 3_600_000))
	}
	if g == rows.Hour {
		row = minute
	}
	return max(second, rows.DivideUp(row*max(periodMS, 1000), 60_000))
}

// usageOf returns the percentiles of what is sorted, nil of nothing.
func usageOf(sorted []float64) *Usage {
	if len(sorted) == 0 {
		return nil
	}
	return &Usage{Keys: int64(len(sorted)), P50: quantileOf(sorted, 50), P95: quantileOf(sorted, 95), P99: quantileOf(sorted, 99), Max: quantileOf(sorted, 100)}
}
