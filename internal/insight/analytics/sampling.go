package analytics

import (
	"cmp"
	"slices"
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
	clientKey
	*sampling
}

// sampleCells are the cells that peaks are of.
var sampleCells = []int{cUnits, cPeak, cPeakMinute, cLeast, cRefused, cShadow, cEvery}

// windows returns how long the periods of limits are whose period is longer than a row.
func (s *scope) windows(g Grain) map[int64]int64 {
	out := map[int64]int64{}
	for _, id := range s.chosen {
		if w := ceil(s.byID[id].PeriodMS, g.Seconds()*1000) / 1000; w > g.Seconds() {
			out[id] = w
		}
	}
	return out
}

// add takes in a row of a limit whose periods are so long, or not longer than a row.
func (s *sampling) add(l *clientLine, window int64) {
	s.second, s.minute = max(s.second, l.n[cPeak]), max(s.minute, l.n[cPeakMinute])
	s.least, s.every = min(s.least, l.n[cLeast]), max(s.every, l.n[cEvery])
	s.limited += l.n[cRefused] + l.n[cShadow]
	if window == 0 {
		s.units = max(s.units, l.n[cUnits])
		return
	}
	if s.periods == nil {
		s.periods = map[int64]int64{}
	}
	n := s.periods[l.at-l.at%window] + l.n[cUnits]
	s.periods[l.at-l.at%window] = n
	s.units = max(s.units, n)
}

// eachPeak calls each with the peaks of sampled clients, in order.
func eachPeak(r *reader, all []sampledClient, each func(limit int64, client string, p sampledPeak)) {
	slices.SortFunc(all, func(a, b sampledClient) int {
		return cmp.Or(cmp.Compare(a.limit, b.limit), cmp.Compare(a.client, b.client))
	})
	for _, s := range all[:min(len(all), maxSampled)] {
		l := r.byID[s.limit]
		p := sampledPeak{demand: demandIn(l.PeriodMS, r.clientGrain(), s.units, s.second, s.minute)}
		if s.least != noLeast && l.Burst > 0 {
			p.usage = round(float64(max(l.Burst-s.least, 0)) / float64(l.Burst))
		}
		if s.limited > 0 {
			p.usage = max(p.usage, 1)
		}
		each(s.limit, s.client, p)
	}
}

// demandIn returns the most units of a period, of the most in one row, one second
// and one minute: exact where a row is a period, and else between what is known
// of shorter times and what the row allows.
func demandIn(periodMS int64, g Grain, row, second, minute int64) int64 {
	if periodMS >= g.Seconds()*1000 {
		return row
	}
	if g == Hour && periodMS >= 60_000 {
		return max(minute, ceilDiv(row*periodMS, 3_600_000))
	}
	if g == Hour {
		row = minute
	}
	return max(second, ceilDiv(row*max(periodMS, 1000), 60_000))
}

// usageOf returns the percentiles of what is sorted, nil of nothing.
func usageOf(sorted []float64) *Usage {
	if len(sorted) == 0 {
		return nil
	}
	return &Usage{Keys: int64(len(sorted)), P50: quantile(sorted, 50), P95: quantile(sorted, 95), P99: quantile(sorted, 99), Max: quantile(sorted, 100)}
}
