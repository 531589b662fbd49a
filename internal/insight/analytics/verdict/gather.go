package verdict

import (
	"maps"
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
	// Shadowed is how many of Refused were in shadow mode: the client was not told.
	Shadowed int64
	// Cost is the units that all of them asked for.
	Cost  int64
	Early int64
	// Busiest is the most units asked for in one second. Zero means not known.
	Busiest int64
	// Sampled says that the key belongs to the sample.
	Sampled bool
	// Identified says that a record of the span has an event.About.
	Identified bool
	// Users, Agents, Paths and Addresses are the most different ones that a single
	// record of the span tells of. Zero means not known.
	Users, Agents, Paths, Addresses int64
	// User, Path and Address are those of any request of the span; different ones of
	// different rows are counted. Agent is the class of the client's software. Empty
	// means not known.
	User, Path, Address, Agent string
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
	// lastRefused is since when things are known at all.
	lastRefused time.Time
	// demand of the range and of the week before, by the start of the span in
	// units of its length.
	now, before    map[int64]int64
	span, spanThen time.Duration
	// limited has the spans in which something was refused.
	limited map[int64]struct{}
	classes map[string]int
	// burst is the most that a row says was asked for in less than its span.
	burst int64
	// distinct values of rows, and the most within one.
	users, agents, paths, addresses different
	answers                         Answers
	// until is when it is judged, the zero time if that is no matter.
	until time.Time
}

// NewGatherer begins to gather of a client under a limit of so many units in a
// period, for the range from from to to. told is since when records are kept:
// the zero time means that it is not known, and nobody is then called new.
func NewGatherer(kind Kind, allowance int64, period time.Duration, from, to, lastRefused time.Time) *Gatherer {
	return &Gatherer{
		e:           Evidence{Kind: kind, Allowance: allowance, Period: period, From: from, To: to},
		lastRefused: lastRefused, now: make(map[int64]int64), before: make(map[int64]int64), limited: make(map[int64]struct{}), classes: make(map[string]int),
	}
}

// InProgress says that it is judged at an instant: who is still there then, or was refused
// when the range began, is not judged as if that were all. Of a range that ended well
// before nothing changes.
func (g *Gatherer) InProgress(now time.Time) { g.until = now }

// Add takes in a row: of the range, or of the week before it. Others are left out,
// and those with a span below a millisecond.
// The rows of the range have spans of one length, those of the week before too;
// spans longer than the period lower what is known of peaks.
func (g *Gatherer) Add(r *Row) {
	e := &g.e
	if r.Span < time.Millisecond || !r.At.Before(e.To) || r.At.Before(e.From.Add(-Week)) {
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
	if r.Refused > 0 {
		g.limited[at] = struct{}{}
	}
	if r.Busiest > 0 && r.Span > e.Period {
		// A period holds as many busy seconds as fit, and no more than the span had.
		g.burst = max(g.burst, min(r.Busiest*max(int64(e.Period/time.Second), 1), r.Cost))
	}
	e.Sampled = e.Sampled || r.Sampled
	e.Busiest = max(e.Busiest, r.Busiest)
	e.Units += r.Cost
	e.Allowed += r.Allowed
	e.Refused += r.Refused
	e.Shadowed += r.Shadowed
	e.Early += r.Early
	e.Identified = e.Identified || r.Identified
	g.answers.addAnswers(&r.Answers)
	if r.Agent != "" {
		g.classes[r.Agent]++
	}
	g.users.addValue(r.User, r.Users)
	g.agents.addValue("", r.Agents)
	g.paths.addValue(r.Path, r.Paths)
	g.addresses.addValue(r.Address, r.Addresses)
}

// Evidence returns what was gathered so far.
func (g *Gatherer) Evidence() *Evidence {
	e := g.e
	e.Demand = e.Allowed + e.Refused
	e.Users, e.Agents, e.Paths, e.Addresses = g.users.countValues(), g.agents.countValues(), g.paths.countValues(), g.addresses.countValues()
	if e.Paths == 1 {
		e.Path = g.paths.anyValue()
	}
	for class, rows := range g.classes {
		if n := g.classes[e.Agent]; rows > n || rows == n && class < e.Agent {
			e.Agent = class
		}
	}
	if g.answers.Count > 0 {
		a := g.answers
		e.Answers = &a
	}
	if !g.lastRefused.IsZero() {
		e.Before = min(e.From.Sub(g.lastRefused), Week)
	}
	if len(g.now) > 0 {
		e.Peak, e.Burst = g.findPeak(), g.mostAhead()
		if !e.Sampled && e.Refused > 0 && e.Period > g.span {
			e.Unseen = max(e.Allowance-e.Allowed, 0)
			e.Peak += e.Unseen
		}
		g.computeSpread(&e)
		g.computeRun(&e)
	}
	e.History, e.HistorySpan = int64(len(g.before)), g.spanThen
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

// findPeak returns the most units of one period: of as many spans as it has, wherever
// they begin. Of spans longer than the period it is their mean, or what is known
// of their busiest second.
func (g *Gatherer) findPeak() (most int64) {
	starts := sortedKeys(g.now)
	if g.span > g.e.Period {
		share := perPeriod(g.e.Period, g.span)
		for _, units := range g.now {
			most = max(most, int64(math.Ceil(float64(units)*share)))
		}
		return max(most, g.burst)
	}
	width := int64(g.e.Period / g.span)
	var sum int64
	first := 0
	for _, at := range starts {
		sum += g.now[at]
		for starts[first] <= at-width {
			sum -= g.now[starts[first]]
			first++
		}
		most = max(most, sum)
	}
	return most
}

// mostAhead returns the most that the demand was ahead of the limit's rate, if all of a
// span came at once.
func (g *Gatherer) mostAhead() int64 {
	rate := float64(g.e.Allowance) * g.span.Seconds() / g.e.Period.Seconds() // of a span
	var most, level float64
	var last int64
	for i, at := range sortedKeys(g.now) {
		if i > 0 {
			level = max(level-float64(at-last)*rate, 0)
		}
		level += float64(g.now[at])
		most, last = max(most, level), at
	}
	return int64(math.Ceil(most))
}

// computeSpread computes how even the demand is between the first span and the last. The
// first and the last are left out where there are others: they are cut.
func (g *Gatherer) computeSpread(e *Evidence) {
	starts := sortedKeys(g.now)
	first, last := starts[0], starts[len(starts)-1]
	e.Spans, e.Active, e.Span = last-first+1, int64(len(starts)), g.span
	if e.Spans >= 4 {
		first, last = first+1, last-1
	}
	n := float64(last - first + 1)
	var sum, squares float64
	for at, units := range g.now {
		e.SpanPeak = max(e.SpanPeak, units)
		if at >= first && at <= last {
			sum += float64(units)
			squares += float64(units) * float64(units)
		}
	}
	if mean := sum / n; mean > 0 {
		e.Spread = math.Sqrt(max(squares/n-mean*mean, 0)) / mean
	}
}

// pauseSpans returns how many spans without a refusal end an incident.
func pauseSpans(span time.Duration) int64 {
	if span <= time.Minute {
		return briefSpans
	}
	return 1
}

// computeRun finds out whether a client that was refused is still there, and since when it was
// refused.
func (g *Gatherer) computeRun(e *Evidence) {
	limited := slices.Sorted(maps.Keys(g.limited))
	if len(limited) == 0 || g.until.IsZero() {
		return
	}
	end := len(limited) - 1
	first := end
	for first > 0 && limited[first]-limited[first-1] <= pauseSpans(g.span) {
		first--
	}
	last := slices.Max(slices.Collect(maps.Keys(g.now)))
	e.Run = last - limited[first] + 1
	over := time.UnixMicro((last + 1) * g.span.Microseconds())
	near := time.Duration(pauseSpans(g.span)) * g.span
	if g.until.Sub(e.To) >= near {
		return
	}
	e.Ongoing = g.until.Sub(over) < near
	e.Cut = !e.Ongoing && time.UnixMicro(limited[first]*g.span.Microseconds()).Sub(e.From) < near
}

// percentile returns the least value that a share q of all do not exceed.
func percentile(m map[int64]int64, q float64) float64 {
	values := slices.Sorted(maps.Values(m))
	return float64(values[max(int(math.Ceil(q*float64(len(values))))-1, 0)])
}

func sortedKeys(m map[int64]int64) []int64 { return slices.Sorted(maps.Keys(m)) }

// different counts different values, from those that rows tell and from how many
// a row says it had.
type different struct {
	values map[string]struct{}
	within int64
}

func (d *different) addValue(value string, within int64) {
	d.within = max(d.within, within)
	if value == "" || len(d.values) >= most {
		return
	}
	if d.values == nil {
		d.values = make(map[string]struct{})
	}
	d.values[value] = struct{}{}
}

func (d *different) countValues() int64 { return max(d.within, int64(len(d.values))) }

// anyValue returns a value.
func (d *different) anyValue() string {
	for v := range d.values {
		return v
	}
	return ""
}
