package report

import (
	"cmp"
	"math"
	"slices"
)

// addClients fills in all that is made of clients.
func (out *Rates) addClients(clients []*rateClient, top int) {
	windows := []RateBucket{}
	peaks := make([]PeakBucket, 0, len(clients))
	for _, c := range clients {
		for _, w := range c.windows {
			c.Peak, c.Windows = max(c.Peak, w.units), c.Windows+w.n
			windows = append(windows, RateBucket{Rate: w.units, Windows: w.n * c.Weight, Units: w.units * w.n * c.Weight})
		}
		if c.Windows > 0 {
			c.Mean = roundMillionths(float64(c.Units) / float64(c.Windows))
		}
		p := PeakBucket{Peak: c.Peak, Clients: c.Weight}
		if c.User {
			p.Users = c.Weight
		}
		peaks = append(peaks, p)
		out.Clients += c.Weight
		out.Rows++
	}
	for _, w := range windows {
		out.Units += w.Units
	}
	slices.SortFunc(clients, func(a, b *rateClient) int {
		return cmp.Or(cmp.Compare(b.Peak, a.Peak), cmp.Compare(b.Units, a.Units), cmp.Compare(a.Key, b.Key))
	})
	for _, c := range clients[:min(len(clients), top)] {
		out.Top = append(out.Top, c.RateClient)
	}
	slices.SortFunc(peaks, func(a, b PeakBucket) int { return cmp.Compare(b.Peak, a.Peak) })
	slices.SortFunc(windows, func(a, b RateBucket) int { return cmp.Compare(b.Rate, a.Rate) })
	out.addPercentiles(peaks)
	out.addLadder(peaks, windows)
	out.Peaks = thinOut(peaks, func(p PeakBucket) int64 { return p.Peak }, func(into *PeakBucket, p PeakBucket) {
		into.Clients, into.Users = into.Clients+p.Clients, into.Users+p.Users
	})
	out.Buckets = thinOut(windows, func(b RateBucket) int64 { return b.Rate }, func(into *RateBucket, b RateBucket) {
		into.Windows, into.Units = into.Windows+b.Windows, into.Units+b.Units
		into.Rate = (into.Units + into.Windows/2) / into.Windows
	})
}

// addPercentiles are of the peaks by weight, which are in descending order.
func (out *Rates) addPercentiles(peaks []PeakBucket) {
	for _, p := range []float64{50, 75, 90, 95, 99, 99.5, 99.9, 100} {
		need := int64(math.Ceil(p / 100 * float64(out.Clients)))
		for i := len(peaks) - 1; i >= 0; i-- {
			if need -= peaks[i].Clients; need <= 0 {
				out.Percentiles = append(out.Percentiles, Percentile{p, peaks[i].Peak})
				break
			}
		}
	}
}

// addLadder says what limits would have caught, from one to the highest peak, at
// steps of one ratio.
func (out *Rates) addLadder(peaks []PeakBucket, windows []RateBucket) {
	if len(peaks) == 0 || peaks[0].Peak == 0 {
		return
	}
	ratioOf := math.Pow(float64(peaks[0].Peak), 1/float64(rungs-1))
	limit, was := 1.0, int64(0)
	for range rungs {
		at := int64(math.Round(limit))
		limit *= ratioOf
		if at == was {
			continue
		}
		was = at
		rung := Rung{Limit: at}
		for _, p := range peaks {
			if p.Peak <= at {
				break
			}
			rung.Clients += p.Clients
			rung.Users += p.Users
		}
		for _, w := range windows {
			if w.Rate <= at {
				break
			}
			rung.Units += (w.Rate - at) * w.Windows
		}
		rung.Share = shareOf(rung.Units, out.Units)
		out.Ladder = append(out.Ladder, rung)
	}
}

// thinOut puts neighbours together by join, in descending order: those of one value, and of
// nearly the first one's if there are too many.
func thinOut[T any](all []T, value func(T) int64, join func(into *T, other T)) []T {
	for near := 1.0; ; near *= 0.99 {
		out, first := []T{}, int64(0)
		for _, x := range all {
			if n := len(out); n > 0 && float64(value(x)) >= float64(first)*near {
				join(&out[n-1], x)
				continue
			}
			out, first = append(out, x), value(x)
		}
		if len(out) <= maxBuckets {
			return out
		}
	}
}
