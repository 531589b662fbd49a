package analytics

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/insight/analytics/accuracy"
	"github.com/weirlimit/weir/internal/insight/analytics/verdict"
)

const (
	// maxRateRows is how many clients' rows rates are made of.
	maxRateRows = 500_000
	// maxBuckets is how many buckets there are before neighbours are put together.
	maxBuckets = 1000
	rungs      = 100
)

// rateClient is a client with its windows.
type rateClient struct {
	RateClient
	windows []window
	units   map[int64]int64 // of each window
	limited bool
	every   int64
	tierAt  int64
}

// window is windows of one demand.
type window struct{ units, n int64 }

// reportRates are made of the only limit that is meant.
func reportRates(r *reader) *Rates {
	names := r.names()
	if len(names) > 1 {
		r.fail(&paramError{"limit", "is missing: " + strconv.Itoa(len(names)) + " limits are meant, and rates are of one; give domain, rule and limit"})
		return nil
	}
	if len(names) == 0 {
		// Nothing is known of it: an answer without clients.
		names = []name{{}}
	}
	l := r.newest(names[0])
	out := &Rates{Limit: l, Top: []RateClient{}, Percentiles: []Percentile{}, Buckets: []RateBucket{}, Peaks: []PeakBucket{}, Ladder: []Rung{}}
	grainMS := r.clientGrain().Seconds() * 1000
	out.WindowMS = ceil(max(l.PeriodMS, 1000), 1000)
	if l.PeriodMS >= grainMS {
		out.WindowMS = ceil(l.PeriodMS, grainMS)
	} else if r.clientGrain() == Hour && l.PeriodMS > 60_000 {
		out.WindowMS = grainMS
	}
	clients := readRateClients(r, out.WindowMS)
	if out.WindowMS < grainMS {
		exact := readArrivalWindows(r, out.WindowMS)
		for _, c := range clients {
			if w := exact[c.Key]; w != nil && w.requests >= c.Requests {
				c.windows = windowsOf(w.units)
			} else {
				out.Estimated = true
			}
		}
	}
	out.addTop(clients, r.top)
	out.addVerdicts(r, names[0])
	out.Coverage = r.coverage()
	out.Coverage.Basis = "records"
	return out
}

// readRateClients reads what clients asked for. Clients that were watched, and not
// limited in the range, are left out: they belong to those of whom there is a
// sample.
func readRateClients(r *reader, windowMS int64) []*rateClient {
	g, from := r.clientGrain(), findNewestRows(r, maxRateRows)
	var clients perClient[rateClient]
	var order []*rateClient
	need := clientColumns{
		cells: []int{cAllowed, cRefused, cSoft, cBorrowed, cDelayed, cShadow, cUnits, cEvery, cPeak, cSeconds, cUnhashed},
		words: []int{wUser, wTier},
	}
	r.clientRows(g, from, r.to, need, func(l *clientLine) {
		// A client is the same whatever the numbers of its limit.
		c, first := clients.at(clientKey{client: l.client})
		if first {
			c.Key, c.units = l.client, newCounts()
			order = append(order, c)
		}
		units := l.n[cUnits]
		c.Unhashed = c.Unhashed || l.n[cUnhashed] != 0
		c.Units += units
		c.Requests += l.n[cAllowed] + l.n[cRefused] + l.n[cSoft] + l.n[cBorrowed] + l.n[cDelayed] + l.n[cShadow]
		c.Refused += l.n[cRefused] + l.n[cShadow]
		c.limited = c.limited || l.n[cRefused]+l.n[cShadow] > 0 || l.n[cDelayed] > 0
		c.every = max(c.every, l.n[cEvery])
		c.User = c.User || l.w[wUser] != ""
		if l.w[wTier] != "" && (c.Tier == "" || l.at < c.tierAt || l.at == c.tierAt && l.w[wTier] < c.Tier) {
			c.Tier, c.tierAt = l.w[wTier], l.at
		}
		if windowMS < g.Seconds()*1000 {
			c.windows = append(c.windows, spread(units, l.n[cPeak], l.n[cSeconds], windowMS, g)...)
			return
		}
		c.units[floor(l.at, windowMS/1000)] += units
	})
	return slices.DeleteFunc(order, func(c *rateClient) bool {
		c.windows = append(c.windows, windowsOf(c.units)...)
		c.Weight = 1
		if !c.limited {
			c.Weight = c.every
		}
		return c.Weight == 0 || c.Units == 0
	})
}

// findNewestRows returns since when there are at most so many rows of clients, and says so if
// that is not all of the range.
func findNewestRows(r *reader, most int64) int64 {
	w := r.clientsOf(r.clientGrain(), r.from, r.to)
	w.and("client <> ''")
	rows, from := int64(0), r.to
	r.query(func(row Row) {
		if rows += row.Int(1); rows <= most || from == r.to {
			from = row.Int(0)
		}
	}, `SELECT at, COUNT(*) FROM clients`+r.byClient()+w.text+` GROUP BY at ORDER BY at DESC`, w.args...)
	if rows <= most {
		return r.from
	}
	r.missing = append(r.missing, "rates are of the newest "+strconv.FormatInt(most, 10)+" rows of clients")
	return from
}

// spread estimates the windows in a row that is longer: as many as its busy
// seconds fill, one with its peak, the others even.
func spread(units, peak, seconds, windowMS int64, g Grain) []window {
	if units <= 0 {
		return nil
	}
	n := max(ceilDiv(min(max(seconds, 1), g.Seconds())*1000, windowMS), 1)
	peak = min(max(peak, ceilDiv(units, n)), units)
	out := []window{{peak, 1}}
	rest := units - peak
	if n == 1 || rest == 0 {
		out[0].units += rest
		return out
	}
	each, more := rest/(n-1), rest%(n-1)
	if more > 0 {
		out = append(out, window{each + 1, more})
	}
	if each > 0 {
		out = append(out, window{each, n - 1 - more})
	}
	return out
}

// exactWindows are the windows of a client's single arrivals.
type exactWindows struct {
	units    map[int64]int64
	requests int64
}

// windowsOf returns windows in which so many units were asked for.
func windowsOf(counts map[int64]int64) []window {
	out := make([]window, 0, len(counts))
	for _, units := range counts {
		if units > 0 {
			out = append(out, window{units, 1})
		}
	}
	return out
}

// readArrivalWindows reads the windows of the sampled keys.
func readArrivalWindows(r *reader, windowMS int64) map[string]*exactWindows {
	out := map[string]*exactWindows{}
	r.eachArrivals(func(_ int64, client string, arrivals []accuracy.Arrival, _ bool) {
		w := entry(out, client, func() *exactWindows { return &exactWindows{units: newCounts()} })
		for _, a := range arrivals {
			w.units[floor(a.At, windowMS*1000)] += a.Cost
			w.requests++
		}
	})
	return out
}

// maxClassifiedRates is how many of the clients with the highest rates are judged.
const maxClassifiedRates = 50

// addVerdicts adds the verdicts of clients that were limited.
func (out *Rates) addVerdicts(r *reader, n name) {
	var found []client
	var of []int
	for i, c := range out.Top {
		if c.Refused > 0 && len(found) < maxClassifiedRates {
			found = append(found, client{name: n, key: c.Key})
			of = append(of, i)
		}
	}
	r.load(found)
	since := r.since()
	for i := range found {
		out.Top[of[i]].Verdict = string(verdict.Classify(found[i].evidence(r.ask, since)).Class)
	}
}
