package report

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/insight/analytics/accuracy"
	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
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
func reportRates(r *query.Reader) *Rates {
	names := r.ListNames()
	if len(names) > 1 {
		r.RecordFailure(&query.ParamError{Name: "limit", What: "is missing: " + strconv.Itoa(len(names)) + " limits are meant, and rates are of one; give domain, rule and limit"})
		return nil
	}
	if len(names) == 0 {
		// Nothing is known of it: an answer without clients.
		names = []query.Name{{}}
	}
	l := r.FindNewest(names[0])
	out := &Rates{Limit: l, Top: []RateClient{}, Percentiles: []Percentile{}, Buckets: []RateBucket{}, Peaks: []PeakBucket{}, Ladder: []Rung{}}
	grainMS := r.ClientGrain().Seconds() * 1000
	out.WindowMS = rows.CeilTo(max(l.PeriodMS, 1000), 1000)
	if l.PeriodMS >= grainMS {
		out.WindowMS = rows.CeilTo(l.PeriodMS, grainMS)
	} else if r.ClientGrain() == rows.Hour && l.PeriodMS > 60_000 {
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
	out.addClients(clients, r.Top)
	out.addVerdicts(r, names[0])
	out.Coverage = r.ReadCoverage()
	out.Coverage.Basis = "records"
	return out
}

// readRateClients reads what clients asked for. Clients that were watched, and not
// limited in the range, are left out: they belong to those of whom there is a
// sample.
func readRateClients(r *query.Reader, windowMS int64) []*rateClient {
	g, from := r.ClientGrain(), findNewestRows(r, maxRateRows)
	var clients perClient[rateClient]
	var order []*rateClient
	need := rows.ClientColumns{
		Cells: []int{rows.Allowed, rows.Refused, rows.Soft, rows.Borrowed, rows.Delayed, rows.Shadow, rows.Units, rows.Every, rows.Peak, rows.Seconds, rows.Unhashed},
		Words: []int{rows.User, rows.Tier},
	}
	r.EachClientRow(from, r.To, need, func(l *rows.ClientLine) {
		// A client is the same whatever the numbers of its limit.
		c, first := clients.findKey(rows.ClientKey{Client: l.Client})
		if first {
			c.Key, c.units = l.Client, map[int64]int64{}
			order = append(order, c)
		}
		units := l.N[rows.Units]
		c.Unhashed = c.Unhashed || l.N[rows.Unhashed] != 0
		c.Units += units
		c.Requests += l.N[rows.Allowed] + l.N[rows.Refused] + l.N[rows.Soft] + l.N[rows.Borrowed] + l.N[rows.Delayed] + l.N[rows.Shadow]
		c.Refused += l.N[rows.Refused] + l.N[rows.Shadow]
		c.limited = c.limited || l.N[rows.Refused]+l.N[rows.Shadow] > 0 || l.N[rows.Delayed] > 0
		c.every = max(c.every, l.N[rows.Every])
		c.User = c.User || l.Words[rows.User] != ""
		if l.Words[rows.Tier] != "" && (c.Tier == "" || l.At < c.tierAt || l.At == c.tierAt && l.Words[rows.Tier] < c.Tier) {
			c.Tier, c.tierAt = l.Words[rows.Tier], l.At
		}
		if windowMS < g.Seconds()*1000 {
			c.windows = append(c.windows, spreadUnits(units, l.N[rows.Peak], l.N[rows.Seconds], windowMS, g)...)
			return
		}
		c.units[rows.FloorTo(l.At, windowMS/1000)] += units
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
func findNewestRows(r *query.Reader, most int64) int64 {
	w := r.WhereClients(r.From, r.To)
	w.AddCondition("client <> ''")
	n, from := int64(0), r.To
	r.ReadRows(func(row rows.Row) {
		if n += row.Int(1); n <= most || from == r.To {
			from = row.Int(0)
		}
	}, `SELECT at, COUNT(*) FROM clients`+r.ClientHint()+w.Text+` GROUP BY at ORDER BY at DESC`, w.Args...)
	if n <= most {
		return r.From
	}
	r.Missing = append(r.Missing, "rates are of the newest "+strconv.FormatInt(most, 10)+" rows of clients")
	return from
}

// spreadUnits estimates the windows in a row that is longer: as many as its busy
// seconds fill, one with its peak, the others even.
func spreadUnits(units, peak, seconds, windowMS int64, g rows.Grain) []window {
	if units <= 0 {
		return nil
	}
	n := max(rows.DivideUp(min(max(seconds, 1), g.Seconds())*1000, windowMS), 1)
	peak = min(max(peak, rows.DivideUp(units, n)), units)
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
func readArrivalWindows(r *query.Reader, windowMS int64) map[string]*exactWindows {
	out := map[string]*exactWindows{}
	r.EachArrivals(func(_ int64, client string, arrivals []accuracy.Arrival, _ bool) {
		w := rows.EnsureEntry(out, client, func() *exactWindows { return &exactWindows{units: map[int64]int64{}} })
		for _, a := range arrivals {
			w.units[rows.FloorTo(a.At, windowMS*1000)] += a.Cost
			w.requests++
		}
	})
	return out
}

// maxClassifiedRates is how many of the clients with the highest rates are judged.
const maxClassifiedRates = 50

// addVerdicts adds the verdicts of clients that were limited.
func (out *Rates) addVerdicts(r *query.Reader, n query.Name) {
	var found []client
	var of []int
	for i, c := range out.Top {
		if c.Refused > 0 && len(found) < maxClassifiedRates {
			found = append(found, client{name: n, key: c.Key})
			of = append(of, i)
		}
	}
	loadClients(r, found)
	since := r.ReadSince()
	for i := range found {
		out.Top[of[i]].Verdict = string(verdict.Classify(found[i].evidence(r.Ask, since)).Class)
	}
}
