package analytics

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/advice"
	"github.com/weirlimit/weir/internal/insight/analytics/verdict"
)

const (
	// maxClassifiedPerLimit is how many clients of a limit are judged, maxClassified how many
	// of all limits.
	maxClassifiedPerLimit, maxClassified = 20, 400
	// maxSampled is how many sampled clients headroom is computed of.
	maxSampled = 50_000
)

// ruleBook are the limits of an answer while it is made.
type ruleBook struct {
	r    *reader
	by   map[name]*ruleEntry
	list []*ruleEntry
	// sums are the clients that were limited, those most refused first; sample are those of the sample.
	sums   []*clientSum
	sample []sampledClient
}

type ruleEntry struct {
	name       name
	figures    RuleFigures
	trips      tripping
	usages     []float64 // of sampled clients
	demands    []int64   // of sampled clients, in their busiest period
	classified []advice.Client
	shadow     bool
}

func readRuleBook(r *reader) *ruleBook {
	b := &ruleBook{r: r, by: map[name]*ruleEntry{}}
	for _, n := range r.names() {
		e := &ruleEntry{name: n, figures: RuleFigures{Limit: r.newest(n), Totals: Totals{Counts: map[string]int64{}}}}
		b.by[n] = e
		b.list = append(b.list, e)
	}
	b.count()
	b.keys()
	b.clients()
	b.sampled()
	b.classify()
	return b
}

// count reads how often the limits were met.
func (b *ruleBook) count() {
	grain := b.r.grain.Seconds()
	met := map[int64]bool{}
	at := func(sec int64) *time.Time { t := time.Unix(sec, 0).UTC(); return &t }
	b.r.counts(grain, "", func(row countRow) {
		e := b.by[nameOf(b.r.byID[row.limit])]
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
		b.by[nameOf(b.r.byID[id])].figures.Versions++
	}
	for _, e := range b.list {
		e.trips.turn()
		e.shadow = e.figures.Counts["shadow_refused"] > 0 && e.figures.Counts["refused"] == 0
	}
}

// keys reads how many keys there were.
func (b *ruleBook) keys() {
	by := keysBy(b.r, b.r.from, b.r.to, nil, func(limit int64) name { return nameOf(b.r.byID[limit]) })
	for n, k := range by {
		if e := b.by[n]; e != nil {
			e.figures.KeysLimited, e.figures.KeysSeen, e.figures.KeysSeenKnown = k.count()
		}
	}
}

// clients reads what clients did, in one go: in how many decisions a limit decided, the
// peaks of sampled keys, and which clients were limited most.
func (b *ruleBook) clients() {
	var clients perClient[struct {
		clientSum
		sampling
	}]
	r := b.r
	windows := r.windows(r.clientGrain())
	of := map[int64]*ruleEntry{}
	for id, l := range r.byID {
		of[id] = b.by[nameOf(l)]
	}
	need := clientColumns{cells: append(slices.Clone(sampleCells), cDecisive, cDelayed), merged: true}
	r.clientRows(r.clientGrain(), r.from, r.to, need, func(l *clientLine) {
		if e := of[l.limit]; e != nil {
			e.figures.Decisive += l.n[cDecisive]
		}
		if l.client == "" {
			return
		}
		c, first := clients.of(l)
		if first {
			c.clientKey, c.least = clients.last, noLeast
			b.sums = append(b.sums, &c.clientSum)
			b.sample = append(b.sample, sampledClient{clients.last, &c.sampling})
		}
		c.clientSum.add(l, "refused")
		c.sampling.add(l, windows[l.limit])
	})
	b.sample = slices.DeleteFunc(b.sample, func(s sampledClient) bool { return s.every == 0 })
	b.sums = slices.DeleteFunc(b.sums, func(s *clientSum) bool { return !s.limited() })
	slices.SortFunc(b.sums, compareSums)
}

// sampled reads the peaks of sampled keys.
func (b *ruleBook) sampled() {
	most := map[name]map[string]sampledPeak{}
	n := 0
	eachPeak(b.r, b.sample, func(id int64, key string, p sampledPeak) {
		of := nameOf(b.r.byID[id])
		peaks := entry(most, of, func() map[string]sampledPeak { return map[string]sampledPeak{} })
		was := peaks[key]
		peaks[key] = sampledPeak{max(was.usage, p.usage), max(was.demand, p.demand)}
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
}

// classify judges the clients that the limits limited most.
func (b *ruleBook) classify() {
	since := b.r.since()
	var limited []*ruleEntry
	for _, e := range b.list {
		if e.figures.limited() > 0 || e.figures.KeysLimited > 0 {
			limited = append(limited, e)
		}
	}
	slices.SortStableFunc(limited, func(x, y *ruleEntry) int { return cmp.Compare(y.figures.limited(), x.figures.limited()) })
	if n := maxClassified / maxClassifiedPerLimit; len(limited) > n {
		limited = limited[:n]
		b.r.missing = append(b.r.missing, "clients are judged of the "+strconv.Itoa(n)+" limits that limited most")
	}
	of := map[name][]*clientSum{}
	for _, s := range b.sums {
		n := nameOf(b.r.byID[s.limit])
		of[n] = append(of[n], s)
	}
	for _, e := range limited {
		one := b.r.only(b.r.versions(e.name))
		found := one.clientsOfSums(of[e.name], maxClassifiedPerLimit)
		one.load(found)
		for i := range found {
			e.classified = append(e.classified, found[i].assess(one.ask, since))
		}
		e.figures.Classified = countVerdicts(e.classified)
	}
}

// assess returns the client as advice reads it.
func (c *client) assess(a *ask, since time.Time) advice.Client {
	ev := c.evidence(a, since)
	return advice.Client{Evidence: ev, Verdict: verdict.Classify(ev)}
}

func countVerdicts(clients []advice.Client) *Classified {
	if len(clients) == 0 {
		return nil
	}
	j := &Classified{Clients: int64(len(clients)), Verdicts: map[string]int64{}, RefusedShares: map[string]float64{}}
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
	from := time.Unix(r.from, 0).UTC()
	if since.After(from) {
		from = since
	}
	f.Answer = advice.Advise(&advice.Figures{
		Algorithm: f.Algorithm, Allowance: f.Allowance, Period: time.Duration(f.PeriodMS) * time.Millisecond,
		Burst: f.Burst, Kind: kindOf(f.Rule), Shadow: e.shadow, From: from, To: minTime(time.Unix(r.to, 0), r.now).UTC(),
		Allowed: f.Counts["allowed"] + f.Counts["soft"] + f.Counts["borrowed"] + f.Counts["delayed"], Refused: f.Counts["refused"],
		ShadowRefused: f.Counts["shadow_refused"], Decisive: f.Decisive,
		Sample:  advice.Quantiles{Clients: int64(len(e.demands)), P95: quantile(e.demands, 95), Max: quantile(e.demands, 100)},
		Clients: e.classified, Minutes: e.trips.steps, Tripped: e.trips.tripped, Trips: e.trips.trips,
	})
}

func reportRules(r *reader) *RuleList {
	b := readRuleBook(r)
	out := &RuleList{Rules: []RuleFigures{}}
	since := r.earliest(r.now)
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
	out.Coverage = r.coverage()
	return out
}

// reportRule is one rule in detail.
func reportRule(r *reader) *RuleDetail {
	b := readRuleBook(r)
	out := &RuleDetail{Limits: []RuleLimits{}}
	since := r.earliest(r.now)
	for _, e := range b.list {
		b.advise(e, since)
		l := RuleLimits{RuleFigures: e.figures, At: r.at(), Histogram: make([]int64, 11), History: []Version{},
			BusiestSecond: make([]int64, r.points()), BusiestMinute: make([]int64, r.points()),
			PerMinute: ceilDiv(e.figures.Allowance*60_000, max(e.figures.PeriodMS, 1))}
		for _, u := range e.usages {
			l.Histogram[min(int(u*10), 10)]++
		}
		one := r.only(r.versions(e.name))
		l.addSteps(one)
		for _, id := range one.chosen {
			l.addVersion(r.only([]int64{id}), id, b.sample)
		}
		slices.SortStableFunc(l.History, func(x, y Version) int { return x.From.Compare(y.From) })
		out.Limits = append(out.Limits, l)
	}
	out.Coverage = r.coverage()
	return out
}

// addSteps adds what a limit did step by step.
func (l *RuleLimits) addSteps(r *reader) {
	lines := r.lines(numCells)
	r.counts(r.step, "", func(row countRow) { lines.add(row.outcome, row.at, row.n) })
	l.Lines = lines.list()
	minute := cUnits
	if r.clientGrain() == Hour {
		minute = cPeakMinute
	}
	r.clientRows(r.clientGrain(), r.from, r.to, clientColumns{cells: []int{cPeak, minute}}, func(c *clientLine) {
		p := r.point(c.at)
		l.BusiestSecond[p] = max(l.BusiestSecond[p], c.n[cPeak])
		l.BusiestMinute[p] = max(l.BusiestMinute[p], c.n[minute])
	})
}

// addVersion adds what a limit did while it had some numbers, if it was met.
func (l *RuleLimits) addVersion(r *reader, id int64, sample []sampledClient) {
	v := Version{Limit: r.byID[id], Totals: Totals{Counts: map[string]int64{}}}
	var first, last int64
	r.counts(r.grain.Seconds(), "", func(row countRow) {
		if v.Decisions == 0 {
			first = row.at
		}
		last = row.at
		v.add(row.outcome, row.n)
	})
	if len(v.Counts) == 0 {
		return
	}
	v.From, v.To = time.Unix(first, 0).UTC(), time.Unix(last+r.grain.Seconds(), 0).UTC()
	v.KeysLimited, _, _ = r.keysOfAll(r.from, r.to, nil).count()
	var usages []float64
	sample = slices.DeleteFunc(slices.Clone(sample), func(s sampledClient) bool { return s.limit != id })
	eachPeak(r, sample, func(_ int64, _ string, p sampledPeak) { usages = append(usages, p.usage) })
	slices.Sort(usages)
	v.Usage = usageOf(usages)
	l.History = append(l.History, v)
}
