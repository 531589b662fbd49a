package analytics

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/analytics/advice"
	"github.com/weirlimit/weir/analytics/verdict"
)

const (
	// judgedPerLimit is how many clients of a limit are judged, judgedAtMost how many
	// of all limits.
	judgedPerLimit, judgedAtMost = 20, 400
	// maxSampled is how many sampled clients headroom is computed of.
	maxSampled = 50_000
)

// ruleBook are the limits of an answer while it is made.
type ruleBook struct {
	r    *reader
	by   map[name]*ruleEntry
	list []*ruleEntry
}

type ruleEntry struct {
	name    name
	figures RuleFigures
	trips   tripping
	usages  []float64 // of sampled clients
	demands []int64   // of sampled clients, in their busiest period
	judged  []advice.Client
	shadow  bool
	// stricter is the limit that decides what this one refuses, nil if that is this
	// one, or is not known.
	stricter *advice.Stricter
}

func (r *reader) ruleBook() (*ruleBook, error) {
	b := &ruleBook{r: r, by: map[name]*ruleEntry{}}
	for _, n := range r.names() {
		e := &ruleEntry{name: n, figures: RuleFigures{Limit: r.newest(n), Totals: Totals{Counts: map[string]int64{}}}}
		b.by[n] = e
		b.list = append(b.list, e)
	}
	for _, step := range []func() error{b.count, b.keys, b.decisive, b.stricter, b.sampled, b.judge} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// count reads how often the limits were met.
func (b *ruleBook) count() error {
	grain := b.r.grain.Seconds()
	met := map[int64]bool{}
	at := func(sec int64) *time.Time { t := time.Unix(sec, 0).UTC(); return &t }
	err := b.r.counts(grain, "", func(row countRow) {
		e := b.by[nameOf(b.r.limits[row.limit])]
		if e == nil || row.n == 0 {
			return
		}
		met[row.limit] = true
		f := &e.figures
		f.add(row.outcome, row.n)
		e.trips.add(row, grain)
		if f.FirstHit == nil {
			f.FirstHit = at(row.at)
		}
		f.LastHit = at(row.at)
		if row.outcome == "refused" {
			f.LastRefused = at(row.at)
		}
	})
	for id := range met {
		b.by[nameOf(b.r.limits[id])].figures.Versions++
	}
	for _, e := range b.list {
		e.trips.turn()
		e.shadow = e.figures.Counts["shadow_refused"] > 0 && e.figures.Counts["refused"] == 0
	}
	return err
}

// keys reads how many keys there were.
func (b *ruleBook) keys() error {
	by := map[name]*keys{}
	err := b.r.sketchRows(b.r.from, b.r.to, nil, func(_, limit int64, kind string, packed []byte) error {
		n := nameOf(b.r.limits[limit])
		if by[n] == nil {
			by[n] = newKeys()
		}
		return by[n].merge(kind, packed)
	})
	for n, k := range by {
		if e := b.by[n]; e != nil {
			e.figures.KeysLimited, e.figures.KeysSeen, e.figures.KeysSeenKnown = k.count()
		}
	}
	return err
}

// decisive reads in how many decisions a limit decided.
func (b *ruleBook) decisive() error {
	w := &where{}
	b.r.clientsOf(w, b.r.clientGrain(), b.r.from, b.r.to)
	return query(b.r.tx, func(row Row) error {
		if e := b.by[nameOf(b.r.limits[row.Int(0)])]; e != nil {
			e.figures.Decisive += row.Int(1)
		}
		return nil
	}, `SELECT limit_id, CAST(SUM(decisive) AS BIGINT) FROM clients`+w.text+` GROUP BY limit_id`, w.args...)
}

// sampled reads the peaks of sampled keys.
func (b *ruleBook) sampled() error {
	most := map[name]map[string]sampledPeak{}
	n := 0
	err := b.r.sampledPeaks(func(id int64, key string, p sampledPeak) {
		of := nameOf(b.r.limits[id])
		if most[of] == nil {
			most[of] = map[string]sampledPeak{}
		}
		was := most[of][key]
		most[of][key] = sampledPeak{max(was.usage, p.usage), max(was.demand, p.demand)}
		n++
	})
	if n == maxSampled {
		b.r.missing = append(b.r.missing, "headroom is of "+strconv.Itoa(maxSampled)+" sampled clients, of more")
	}
	for of, clients := range most {
		e := b.by[of]
		if e == nil {
			continue
		}
		for _, p := range clients {
			e.usages, e.demands = append(e.usages, p.usage), append(e.demands, p.demand)
		}
		slices.Sort(e.usages)
		slices.Sort(e.demands)
		e.figures.Usage = usageOf(e.usages)
	}
	return err
}

// sampledPeak is how near a sampled client came to its limit, as a share of it, and
// the most units that it asked for in a period.
type sampledPeak struct {
	usage  float64
	demand int64
}

// sampledPeaks calls each with the clients of the sample.
func (r *reader) sampledPeaks(each func(limit int64, client string, p sampledPeak)) error {
	g := r.clientGrain()
	w := &where{}
	r.clientsOf(w, g, r.from, r.to)
	w.and("client <> ''")
	// The rows of a period are put together where it is longer than a row.
	window := "at"
	var longer []string
	for _, id := range r.chosen {
		if s := ceil(r.limits[id].PeriodMS, g.Seconds()*1000) / 1000; s > g.Seconds() {
			longer = append(longer, "WHEN "+strconv.FormatInt(id, 10)+" THEN at - at % "+strconv.FormatInt(s, 10))
		}
	}
	if longer != nil {
		window = "CASE limit_id " + strings.Join(longer, " ") + " ELSE at END"
	}
	return query(r.tx, func(row Row) error {
		l := r.limits[row.Int(0)]
		units, second, minute, least, limited := row.Int(2), row.Int(3), row.Int(4), row.Int(5), row.Int(6)
		p := sampledPeak{demand: demandIn(l.PeriodMS, g, units, second, minute)}
		if least != noLeast && l.Burst > 0 {
			p.usage = round(float64(max(l.Burst-least, 0)) / float64(l.Burst))
		}
		if limited > 0 {
			p.usage = max(p.usage, 1)
		}
		each(row.Int(0), row.Text(1), p)
		return nil
	}, `SELECT limit_id, client, MAX(u), MAX(p), MAX(m), MIN(l), CAST(SUM(r) AS BIGINT) FROM (
		SELECT limit_id, client, CAST(SUM(units) AS BIGINT) AS u, MAX(peak) AS p, MAX(peak_minute) AS m, MIN(least) AS l,
			SUM(refused + shadow) AS r, MAX(every) AS e FROM clients`+w.text+` GROUP BY limit_id, client, `+window+`) AS c
		GROUP BY limit_id, client HAVING MAX(e) > 0 ORDER BY limit_id, client LIMIT `+strconv.Itoa(maxSampled), w.args...)
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

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// usageOf returns the percentiles of what is sorted, nil of nothing.
func usageOf(sorted []float64) *Usage {
	if len(sorted) == 0 {
		return nil
	}
	at := func(p int) float64 { return sorted[(len(sorted)*p+99)/100-1] }
	return &Usage{Keys: int64(len(sorted)), P50: at(50), P95: at(95), P99: at(99), Max: sorted[len(sorted)-1]}
}

// judge judges the clients that the limits limited most.
func (b *ruleBook) judge() error {
	labels, err := b.r.labelBook()
	if err != nil {
		return err
	}
	since, err := b.r.since()
	if err != nil {
		return err
	}
	var limited []*ruleEntry
	for _, e := range b.list {
		e.figures.Precision = labels.precision(e.name)
		if e.figures.limited() > 0 || e.figures.KeysLimited > 0 {
			limited = append(limited, e)
		}
	}
	slices.SortStableFunc(limited, func(x, y *ruleEntry) int { return cmp.Compare(y.figures.limited(), x.figures.limited()) })
	if n := judgedAtMost / judgedPerLimit; len(limited) > n {
		limited = limited[:n]
		b.r.missing = append(b.r.missing, "clients are judged of the "+strconv.Itoa(n)+" limits that limited most")
	}
	for _, e := range limited {
		one := *b.r
		one.chosen, one.all = b.r.versions(e.name), false
		found, _, err := one.clientsBy("refused", judgedPerLimit, true)
		if err != nil {
			return err
		}
		if err := one.load(found); err != nil {
			return err
		}
		for i := range found {
			e.judged = append(e.judged, one.judgedClient(&found[i], since, labels))
		}
		e.figures.Judged = judgedOf(e.judged)
	}
	return nil
}

// judgedClient is a client as advice reads it. What an operator said counts.
func (r *reader) judgedClient(c *client, since time.Time, labels labelBook) advice.Client {
	ev := r.evidence(c, since)
	out := advice.Client{Evidence: ev, Verdict: verdict.Judge(ev)}
	if l := labels.of(c.name, c.key); l != nil {
		out.Labelled, out.Verdict.Class = true, verdict.Legitimate
		if l.Label == labelAbusive {
			out.Verdict.Class = verdict.Abusive
		}
	}
	return out
}

func judgedOf(clients []advice.Client) *Judged {
	if len(clients) == 0 {
		return nil
	}
	j := &Judged{Clients: int64(len(clients)), Verdicts: map[string]int64{}, RefusedShares: map[string]float64{}}
	refused, all := map[string]int64{}, int64(0)
	for _, c := range clients {
		word := string(c.Verdict.Class)
		j.Verdicts[word]++
		refused[word] += c.Evidence.Refused
		all += c.Evidence.Refused
	}
	for word, n := range refused {
		j.RefusedShares[word] = ratio(n, all)
	}
	return j
}

// advise adds badges and advice.
func (b *ruleBook) advise(e *ruleEntry, since time.Time) {
	f, r := &e.figures, b.r
	quantile := func(p int) int64 {
		if len(e.demands) == 0 {
			return 0
		}
		return e.demands[(len(e.demands)*p+99)/100-1]
	}
	from := time.Unix(r.from, 0).UTC()
	if since.After(from) {
		from = since
	}
	a := advice.Advise(&advice.Figures{
		Rule: f.Rule, Limit: f.Limit.Limit, Algorithm: f.Algorithm, Allowance: f.Allowance, Period: time.Duration(f.PeriodMS) * time.Millisecond,
		Burst: f.Burst, Kind: kindOf(f.Rule), Shadow: e.shadow, From: from, To: minTime(time.Unix(r.to, 0), r.now).UTC(),
		Allowed: f.Counts["allowed"] + f.Counts["soft"] + f.Counts["borrowed"] + f.Counts["delayed"], Refused: f.Counts["refused"],
		ShadowRefused: f.Counts["shadow_refused"], Decisive: f.Decisive, Stricter: e.stricter,
		Sample:  advice.Quantiles{Clients: int64(len(e.demands)), P50: quantile(50), P95: quantile(95), P99: quantile(99), Max: quantile(100)},
		Clients: e.judged, Limited: f.KeysLimited, Minutes: e.trips.steps, Tripped: e.trips.tripped, Trips: e.trips.trips,
	})
	for _, badge := range a.Badges {
		f.Badges = append(f.Badges, string(badge))
	}
	for _, x := range a.Advice {
		f.Advice = append(f.Advice, Advice{Word: string(x.Kind), Text: x.Text, Allowance: x.Allowance, Burst: x.Burst})
	}
	f.Silent = a.Silent
}

// earliest returns since when anything is told of.
func (r *reader) earliest() time.Time {
	first := r.now.Unix()
	for s := range maps.Values(r.seen) {
		first = min(first, s.first)
	}
	return time.Unix(first, 0).UTC()
}

func (r *reader) ruleList() (*RuleList, error) {
	b, err := r.ruleBook()
	if err != nil {
		return nil, err
	}
	out := &RuleList{Rules: []RuleFigures{}}
	since := r.earliest()
	for _, e := range b.list {
		b.advise(e, since)
		out.Rules = append(out.Rules, e.figures)
	}
	slices.SortStableFunc(out.Rules, func(x, y RuleFigures) int {
		switch r.sort {
		case "decisions":
			return cmp.Compare(y.Decisions, x.Decisions)
		case "share":
			return cmp.Compare(y.RefusedShare, x.RefusedShare)
		case "keys":
			return cmp.Compare(y.KeysLimited, x.KeysLimited)
		}
		return compareRefused(&x.Totals, &y.Totals)
	})
	if len(out.Rules) > r.top {
		r.missing = append(r.missing, strconv.Itoa(len(out.Rules)-r.top)+" further limits are left out")
		out.Rules = out.Rules[:r.top]
	}
	out.Coverage, err = r.coverage()
	return out, err
}

// ruleDetail is one rule in detail.
func (r *reader) ruleDetail() (*RuleDetail, error) {
	b, err := r.ruleBook()
	if err != nil {
		return nil, err
	}
	out := &RuleDetail{Limits: []RuleLimits{}}
	since := r.earliest()
	for _, e := range b.list {
		b.advise(e, since)
		l := RuleLimits{RuleFigures: e.figures, At: r.at(), Histogram: make([]int64, 11), History: []Version{},
			BusiestSecond: make([]int64, r.points()), BusiestMinute: make([]int64, r.points()),
			PerMinute: ceilDiv(e.figures.Allowance*60_000, max(e.figures.PeriodMS, 1))}
		for _, u := range e.usages {
			l.Histogram[min(int(u*10), 10)]++
		}
		one := *r
		one.chosen, one.all = r.versions(e.name), false
		if err := one.overTime(&l); err != nil {
			return nil, err
		}
		for _, id := range one.chosen {
			v := one
			v.chosen = []int64{id}
			if err := v.version(&l, id); err != nil {
				return nil, err
			}
		}
		slices.SortStableFunc(l.History, func(x, y Version) int { return x.From.Compare(y.From) })
		out.Limits = append(out.Limits, l)
	}
	out.Coverage, err = r.coverage()
	return out, err
}

// overTime adds what a limit did step by step.
func (r *reader) overTime(l *RuleLimits) error {
	lines := r.lines(numCells)
	if err := r.counts(r.step, "", func(row countRow) { lines.add(row.outcome, row.at, row.n) }); err != nil {
		return err
	}
	l.Lines = lines.list()
	w := &where{}
	r.clientsOf(w, r.clientGrain(), r.from, r.to)
	w.and("client <> ''")
	minute := "MAX(units)"
	if r.clientGrain() == Hour {
		minute = "MAX(peak_minute)"
	}
	return query(r.tx, func(row Row) error {
		p := r.point(row.Int(0))
		l.BusiestSecond[p] = max(l.BusiestSecond[p], row.Int(1))
		l.BusiestMinute[p] = max(l.BusiestMinute[p], row.Int(2))
		return nil
	}, `SELECT at, MAX(peak), `+minute+` FROM clients`+w.text+` GROUP BY at`, w.args...)
}

// version adds what a limit did while it had some numbers, if it was met.
func (r *reader) version(l *RuleLimits, id int64) error {
	v := Version{Limit: r.limits[id], Totals: Totals{Counts: map[string]int64{}}}
	var first, last int64
	err := r.counts(r.grain.Seconds(), "", func(row countRow) {
		if v.Decisions == 0 {
			first = row.at
		}
		last = row.at
		v.add(row.outcome, row.n)
	})
	if err != nil || len(v.Counts) == 0 {
		return err
	}
	v.From, v.To = time.Unix(first, 0).UTC(), time.Unix(last+r.grain.Seconds(), 0).UTC()
	by, _, err := r.keysByLimit(r.from, r.to)
	if err != nil {
		return err
	}
	if k := by[id]; k != nil {
		v.KeysLimited, _, _ = k.count()
	}
	var usages []float64
	if err := r.sampledPeaks(func(_ int64, _ string, p sampledPeak) { usages = append(usages, p.usage) }); err != nil {
		return err
	}
	slices.Sort(usages)
	v.Usage = usageOf(usages)
	l.History = append(l.History, v)
	return nil
}
