package verdict

import (
	"math"
	"slices"
	"time"
)

// Row is what was told of one client under one limit in one span of time: the
// records of a second, a minute, an hour, put together.
type Row struct {
	// At is when the span begins, Span how long it is.
	At   time.Time
	Span time.Duration
	// Allowed is how many decisions let the request pass, softly, delayed or
	// borrowed ones included; Refused how many refused it or would have in shadow
	// mode.
	Allowed, Refused int64
	// Cost is the units that all of them asked for.
	Cost            int64
	Decisive, Early int64
	// Identified says that a record of the span has an event.About.
	Identified bool
	// Users, Agents, Paths and Addresses are the most different ones that a single
	// record of the span tells of. Zero means not known.
	Users, Agents, Paths, Addresses int64
	// User, Agent, Path and Address are those of any request of the span; different
	// ones of different rows are counted. Tier is the last. Empty means not known.
	User, Agent, Path, Address, Tier string
	// Answers is how what passed was answered; a Count of zero means not known.
	Answers Answers
}

// Week is how far before the range a Gatherer looks for what is usual.
const Week = 7 * 24 * time.Hour

// most is how many different users, agents, paths or addresses are told apart.
const most = 256

// Gatherer makes Evidence of rows. It needs memory for each row that had demand:
// a week of minutes is 160 KiB. Not safe for concurrent use.
type Gatherer struct {
	e Evidence
	// told is since when things are known at all.
	told time.Time
	// demand of the range and of the week before, by the start of the span in
	// units of its length.
	now, before    map[int64]int64
	span, spanThen time.Duration
	// distinct values of rows, and the most within one.
	users, agents, paths, addresses different
	answers                         Answers
}

// NewGatherer begins to gather of a client under a limit of so many units in a
// period, for the range from from to to. told is since when records are kept:
// the zero time means that it is not known, and nobody is then called new.
func NewGatherer(kind Kind, allowance int64, period time.Duration, from, to, told time.Time) *Gatherer {
	return &Gatherer{
		e:    Evidence{Kind: kind, Allowance: allowance, Period: period, From: from, To: to},
		told: told, now: make(map[int64]int64), before: make(map[int64]int64),
	}
}

// Add takes in a row: of the range, or of the week before it. Others are left out.
// The rows of the range have spans of one length, those of the week before too;
// spans longer than the period lower what is known of peaks.
func (g *Gatherer) Add(r *Row) {
	e := &g.e
	if r.Span <= 0 || !r.At.Before(e.To) || r.At.Before(e.From.Add(-Week)) {
		return
	}
	if e.FirstSeen.IsZero() || r.At.Before(e.FirstSeen) {
		e.FirstSeen = r.At
	}
	at := r.At.UnixMicro() / r.Span.Microseconds()
	if r.At.Before(e.From) {
		g.spanThen = r.Span
		g.before[at] += r.Cost
		return
	}
	g.span = r.Span
	g.now[at] += r.Cost
	e.Units += r.Cost
	e.Allowed += r.Allowed
	e.Refused += r.Refused
	e.Decisive += r.Decisive
	e.Early += r.Early
	e.Identified = e.Identified || r.Identified
	g.answers.add(&r.Answers)
	g.users.add(r.User, r.Users)
	g.agents.add(r.Agent, r.Agents)
	g.paths.add(r.Path, r.Paths)
	g.addresses.add(r.Address, r.Addresses)
	if r.Tier != "" {
		e.Tier = r.Tier
	}
}

// Evidence returns what was gathered so far.
func (g *Gatherer) Evidence() *Evidence {
	e := g.e
	e.Demand = e.Allowed + e.Refused
	e.Users, e.Agents, e.Paths, e.Addresses = g.users.count(), g.agents.count(), g.paths.count(), g.addresses.count()
	if g.answers.Count > 0 {
		a := g.answers
		e.Answers = &a
	}
	if !g.told.IsZero() {
		e.Before = min(e.From.Sub(g.told), Week)
	}
	if len(g.now) > 0 {
		g.windows(&e)
		g.spread(&e)
	}
	e.History = int64(len(g.before))
	if len(g.before) > 0 {
		e.Usual = percentile(g.before, 0.95) * perPeriod(e.Period, g.spanThen)
	}
	return &e
}

// perPeriod is how a span's demand becomes that of a period. A span that is
// shorter than the period is taken as it is: what a client does in a minute it
// need not do for an hour.
func perPeriod(period, span time.Duration) float64 {
	if span <= period {
		return 1
	}
	return period.Seconds() / span.Seconds()
}

// windows counts the demand of periods. Spans are put together to periods that
// slide by one span for the peak, and stand side by side for counting. A span
// longer than the period tells its mean alone.
func (g *Gatherer) windows(e *Evidence) {
	starts := sorted(g.now)
	if g.span > e.Period {
		share := perPeriod(e.Period, g.span)
		for _, at := range starts {
			units := int64(math.Ceil(float64(g.now[at]) * share))
			e.count(units)
			e.Peak = max(e.Peak, units)
		}
		return
	}
	width := int64(e.Period / g.span)
	var sum, open int64
	window := int64(math.MinInt64)
	first := 0
	for _, at := range starts {
		sum += g.now[at]
		for starts[first] <= at-width {
			sum -= g.now[starts[first]]
			first++
		}
		e.Peak = max(e.Peak, sum)
		if w := at / width; w != window {
			if open > 0 {
				e.count(open)
			}
			window, open = w, 0
		}
		open += g.now[at]
	}
	if open > 0 {
		e.count(open)
	}
}

func (e *Evidence) count(units int64) {
	e.Windows++
	if units > e.Allowance {
		e.Over++
	}
}

// spread computes how even the demand is between the first span and the last. The
// first and the last are left out where there are others: they are cut.
func (g *Gatherer) spread(e *Evidence) {
	starts := sorted(g.now)
	first, last := starts[0], starts[len(starts)-1]
	e.Spans, e.Active = last-first+1, int64(len(starts))
	if e.Spans >= 4 {
		first, last = first+1, last-1
	}
	n := float64(last - first + 1)
	var sum, squares float64
	for at, units := range g.now {
		if at >= first && at <= last {
			sum += float64(units)
			squares += float64(units) * float64(units)
		}
	}
	if mean := sum / n; mean > 0 {
		e.Spread = math.Sqrt(max(squares/n-mean*mean, 0)) / mean
	}
}

// percentile returns the least value that a share q of all do not exceed.
func percentile(m map[int64]int64, q float64) float64 {
	values := make([]int64, 0, len(m))
	for _, v := range m {
		values = append(values, v)
	}
	slices.Sort(values)
	return float64(values[max(int(math.Ceil(q*float64(len(values))))-1, 0)])
}

func sorted(m map[int64]int64) []int64 {
	keys := make([]int64, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// different counts different values, from those that rows tell and from how many
// a row says it had.
type different struct {
	values map[string]struct{}
	within int64
}

func (d *different) add(value string, within int64) {
	d.within = max(d.within, within)
	if value == "" || len(d.values) >= most {
		return
	}
	if d.values == nil {
		d.values = make(map[string]struct{})
	}
	d.values[value] = struct{}{}
}

func (d *different) count() int64 { return max(d.within, int64(len(d.values))) }
