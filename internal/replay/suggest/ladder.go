package suggest

import (
	"math"
	"slices"
	"time"
)

// Ladder says who would be caught by which limit.
type Ladder struct {
	// Period is the length of the windows.
	Period time.Duration `json:"-"`
	// Seconds is Period in JSON.
	Seconds  float64 `json:"period_seconds"`
	Clients  int64   `json:"clients"`
	Requests int64   `json:"requests"`
	// Peaks are quantiles of what clients asked for in their busiest window.
	Peaks Quantiles `json:"peaks"`
	Rungs []Rung    `json:"candidates"`
	// Suggested is a limit that sets apart the few who ask for far more than
	// others; zero where nobody does, or there are too few clients to tell.
	Suggested int64 `json:"suggested"`
	// Why says what it was chosen by.
	Why string `json:"reason"`
	// Busiest are the clients who asked for most in all.
	Busiest []Busy `json:"busiest,omitempty"`
}

// Quantiles of the busiest windows: half of the clients stay below P50.
type Quantiles struct {
	P50  int64 `json:"p50"`
	P90  int64 `json:"p90"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p99_9"`
	Max  int64 `json:"max"`
}

// Rung is one limit, and what it would have caught.
type Rung struct {
	Limit    int64 `json:"limit"`
	Clients  int64 `json:"clients"`
	Requests int64 `json:"requests"`
}

// Busy is a client who asked for much.
type Busy struct {
	Key      string `json:"key"`
	Requests int64  `json:"requests"`
	// Error is how many of them may be another's.
	Error int64 `json:"error,omitempty"`
}

const (
	// maxBusiest is how many of the busiest are told of.
	maxBusiest = 10
	// enough is how many clients there must be for a suggestion.
	enough = 20
	// separated is how many times as much the busiest must ask for as others do, to
	// be set apart.
	separated = 3
	// heavy is the share of clients, one in so many, that may be set apart.
	heavy = 50
)

// Ladder returns what the census found. It ends the windows that are open.
func (c *Census) Ladder() *Ladder {
	period := time.Duration(c.period) * time.Microsecond
	l := &Ladder{Period: period, Seconds: period.Seconds(), Clients: int64(len(c.clients)), Requests: c.requests}
	peaks := make([]int64, 0, len(c.clients))
	for _, who := range c.clients {
		peaks = append(peaks, who.peak)
		if who.count > 0 {
			c.windows[who.count]++
			who.count = 0
		}
	}
	if len(peaks) == 0 {
		l.Why = "there are no clients"
		return l
	}
	slices.Sort(peaks)
	l.Peaks = Quantiles{quantile(peaks, 0.5), quantile(peaks, 0.9), quantile(peaks, 0.99), quantile(peaks, 0.999), peaks[len(peaks)-1]}
	l.Suggested, l.Why = suggest(peaks)
	for _, limit := range steps(l.Peaks.P50, l.Peaks.Max, l.Suggested) {
		l.Rungs = append(l.Rungs, Rung{limit, above(peaks, limit), c.beyond(limit)})
	}
	for _, m := range c.most.Top(maxBusiest) {
		if m.Error < m.Count {
			l.Busiest = append(l.Busiest, Busy{m.Key, m.Count, m.Error})
		}
	}
	return l
}

// beyond returns how many requests came after the first limit ones of their
// window.
func (c *Census) beyond(limit int64) (n int64) {
	for count, windows := range c.windows {
		n += max(count-limit, 0) * windows
	}
	return n
}

// above returns how many of the sorted peaks are above limit.
func above(peaks []int64, limit int64) int64 {
	i, _ := slices.BinarySearch(peaks, limit+1)
	return int64(len(peaks) - i)
}

// quantile returns the least value that at least q of the sorted values do not
// exceed.
func quantile(sorted []int64, q float64) int64 {
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

// suggest looks for the first gap between the few busiest clients and the rest,
// and puts the limit into it: a half above the busiest of the rest.
func suggest(peaks []int64) (limit int64, why string) {
	n := len(peaks)
	if n < enough {
		return 0, "there are too few clients to tell who asks for too much"
	}
	for i := n - max(n/heavy, 1); i < n; i++ {
		if rest := peaks[i-1]; peaks[i] >= separated*rest {
			return round(rest + (rest+1)/2), "it sets apart the few who ask for at least three times as much as all others"
		}
	}
	return 0, "nobody asks for far more than others do: choose by what the service bears"
}

// round returns the next number from n on that people would choose: one or two
// digits, and zeros.
func round(n int64) int64 {
	unit := int64(1)
	for n/unit >= 100 {
		unit *= 10
	}
	if n/unit >= 20 {
		unit *= 5
	}
	return (n + unit - 1) / unit * unit
}

// steps returns round limits from one number to another, and the suggested one.
func steps(from, to, suggested int64) []int64 {
	var out []int64
	for unit := int64(1); unit <= min(to, 1e17); unit *= 10 {
		for _, m := range [...]int64{1, 2, 3, 5} {
			if v := m * unit; 2*v >= from && v <= to {
				out = append(out, v)
			}
		}
	}
	if suggested > 0 {
		out = append(out, suggested)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
