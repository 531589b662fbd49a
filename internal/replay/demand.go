package replay

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/figures"
)

// maxDemandKeys is how many keys of a limit are followed; each takes some 64 bytes.
const maxDemandKeys = 1_000_000

// demand counts what keys ask for in windows of a limit's period, aligned to the clock.
// The zero demand with a period is empty.
type demand struct {
	period int64 // µs
	keys   map[uint64]*window
	// windows counts the windows of keys by how much was asked for in them.
	windows map[int64]int64
	left    int64 // requests of keys that there was no room for
}

// window is the one that a key is in, and the most that one of its windows had.
type window struct{ at, count, peak int64 }

// addUnits takes in units that a key asks for. A time before the key's last counts in the
// window of that.
func (d *demand) addUnits(key uint64, now, units int64) {
	w := d.keys[key]
	if w == nil {
		if len(d.keys) >= maxDemandKeys {
			d.left++
			return
		}
		if d.keys == nil {
			d.keys, d.windows = map[uint64]*window{}, map[int64]int64{}
		}
		w = &window{at: now / d.period}
		d.keys[key] = w
	}
	if at := now / d.period; at > w.at {
		d.windows[w.count]++
		w.at, w.count = at, 0
	}
	w.count += units
	w.peak = max(w.peak, w.count)
}

// Demand is how what was asked for is spread over the keys of a limit.
type Demand struct {
	Keys int64 `json:"keys"`
	// P50 to Max are quantiles of what keys ask for in their busiest period: half of
	// them stay at or below P50.
	P50 int64 `json:"p50"`
	P90 int64 `json:"p90"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
	// Trials are a few limits, in windows aligned to the clock.
	Trials []Trial `json:"trials"`
	// Left is how many requests of further keys are left out.
	Left int64 `json:"left_out,omitempty"`
}

// Trial is what a limit of Count in a period would refuse: of how many keys, how many units.
type Trial struct {
	Count int64 `json:"count"`
	Keys  int64 `json:"keys"`
	Units int64 `json:"units"`
}

// mostTrials is how many limits are tried.
const mostTrials = 6

// report returns what was found, nil for nothing. It ends the windows that are open.
func (d *demand) report() *Demand {
	if len(d.keys) == 0 {
		return nil
	}
	peaks := make([]int64, 0, len(d.keys))
	for _, w := range d.keys {
		peaks = append(peaks, w.peak)
		d.windows[w.count]++
		w.count = 0
	}
	slices.Sort(peaks)
	quantile := func(q float64) int64 { return peaks[max(int(math.Ceil(q*float64(len(peaks))))-1, 0)] }
	out := &Demand{Keys: int64(len(peaks)), P50: quantile(0.5), P90: quantile(0.9), P99: quantile(0.99), Max: peaks[len(peaks)-1], Left: d.left}
	for _, count := range roundBetween(out.P50, out.Max) {
		at, _ := slices.BinarySearch(peaks, count+1)
		trial := Trial{Count: count, Keys: int64(len(peaks) - at)}
		for asked, windows := range d.windows {
			trial.Units += max(asked-count, 0) * windows
		}
		out.Trials = append(out.Trials, trial)
	}
	return out
}

// roundBetween returns round numbers from one to another, at most mostTrials, the largest
// of them. Where all keys ask alike it is the one below what they ask for.
func roundBetween(from, to int64) (out []int64) {
	for unit := int64(1); unit <= min(to, 1e17); unit *= 10 {
		for _, m := range [...]int64{1, 2, 5} {
			if n := m * unit; n < to {
				out = append(out, n)
			}
		}
	}
	first, _ := slices.BinarySearch(out, from)
	return out[max(min(first, len(out)-1), len(out)-mostTrials, 0):]
}

// writeText writes the demand of a limit for people; period is that of the limit.
func (d *Demand) writeText(b *strings.Builder, title, period string) {
	fmt.Fprintf(b, "  %s: %s, each in its busiest %s of the clock: 50 %% at most %s, 90 %% %s, 99 %% %s, all %s\n", title, figures.Count(d.Keys, "key"), period,
		figures.Thousands(d.P50), figures.Thousands(d.P90), figures.Thousands(d.P99), figures.Thousands(d.Max))
	for _, t := range d.Trials {
		fmt.Fprintf(b, "    %s/%s fixed_window would refuse %s of %s\n", figures.Thousands(t.Count), period, figures.Count(t.Units, "unit"), figures.Count(t.Keys, "key"))
	}
	if d.Left > 0 {
		fmt.Fprintf(b, "    without %s of further keys\n", figures.Count(d.Left, "request"))
	}
}
