package report

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/advice"
	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
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
	r    *query.Reader
	by   map[query.Name]*ruleEntry
	list []*ruleEntry
	// sums are the clients that were limited, those most refused first; sample are those of the sample.
	sums   []*clientSum
	sample []sampledClient
}

type ruleEntry struct {
	name       query.Name
	figures    RuleFigures
	trips      tripping
	usages     []float64 // of sampled clients
	demands    []int64   // of sampled clients, in their busiest period
	classified []advice.Client
	shadow     bool
}

func readRuleBook(r *query.Reader) *ruleBook {
	b := &ruleBook{r: r, by: map[query.Name]*ruleEntry{}}
	for _, n := range r.ListNames() {
		e := &ruleEntry{name: n, figures: RuleFigures{Limit: r.FindNewest(n), Totals: Totals{Counts: map[string]int64{}}}}
		b.by[n] = e
		b.list = append(b.list, e)
	}
	b.readCounts()
	b.readKeys()
	b.readClients()
	b.readSampled()
	b.classifyClients()
	return b
}

// readCounts reads how often the limits were met.
func (b *ruleBook) readCounts() {
	grain := b.r.Grain.Seconds()
	met := map[int64]bool{}
	at := func(sec int64) *time.Time { t := time.Unix(sec, 0).UTC(); return &t }
	b.r.EachCount(grain, "", func(row query.CountRow) {
		e := b.by[query.LimitName(b.r.ByID[row.Limit])]
		if e == nil || row.N == 0 {
			return
		}
		met[row.Limit] = true
		f := &e.figures
		f.addOutcome(row.Outcome, row.N)
		e.trips.addCount(row, grain)
		if f.FirstHit == nil {
			f.FirstHit = at(row.At)
		}
		f.LastHit = at(row.At)
		if row.Outcome == "refused" {
			f.LastRefused = at(row.At)
		}
	})
	for id := range met {
		b.by[query.LimitName(b.r.ByID[id])].figures.Versions++
	}
	for _, e := range b.list {
		e.trips.endStep()
		e.shadow = e.figures.Counts["shadow_refused"] > 0 && e.figures.Counts["refused"] == 0
	}
}

// readKeys reads how many keys there were.
func (b *ruleBook) readKeys() {
	by := query.GroupKeys(b.r, b.r.From, b.r.To, nil, func(limit int64) query.Name { return query.LimitName(b.r.ByID[limit]) })
	for n, k := range by {
		if e := b.by[n]; e != nil {
			e.figures.KeysLimited, e.figures.KeysSeen, e.figures.KeysSeenKnown = k.CountKeys()
		}
	}
}

// readClients reads what clients did, in one go: in how many decisions a limit decided, the
// peaks of sampled keys, and which clients were limited most.
func (b *ruleBook) readClients() {
	var clients perClient[struct {
		clientSum
		sampling
	}]
	r := b.r
	windows := windowsIn(r, r.ClientGrain())
	of := map[int64]*ruleEntry{}
	for id, l := range r.ByID {
		of[id] = b.by[query.LimitName(l)]
	}
	need := rows.ClientColumns{Cells: append(slices.Clone(sampleCells), rows.Decisive, rows.Delayed), Merged: true}
	r.EachClientRow(r.From, r.To, need, func(l *rows.ClientLine) {
		if e := of[l.Limit]; e != nil {
			e.figures.Decisive += l.N[rows.Decisive]
		}
		if l.Client == "" {
			return
		}
		c, first := clients.findClient(l)
		if first {
			c.ClientKey, c.least = clients.last, rows.NoLeast
			b.sums = append(b.sums, &c.clientSum)
			b.sample = append(b.sample, sampledClient{clients.last, &c.sampling})
		}
		c.clientSum.addRow(l, "refused")
		c.sampling.addRow(l, windows[l.Limit])
	})
	b.sample = slices.DeleteFunc(b.sample, func(s sampledClient) bool { return s.every == 0 })
	b.sums = slices.DeleteFunc(b.sums, func(s *clientSum) bool { return !s.isLimited() })
	slices.SortFunc(b.sums, compareSums)
}

// readSampled reads the peaks of sampled keys.
func (b *ruleBook) readSampled() {
	most := map[query.Name]map[string]sampledPeak{}
	n := 0
	eachPeak(b.r, b.sample, func(id int64, key string, p sampledPeak) {
		of := query.LimitName(b.r.ByID[id])
		peaks := rows.EnsureEntry(most, of, func() map[string]sampledPeak { return map[string]sampledPeak{} })
		was := peaks[key]
		peaks[key] = sampledPeak{max(was.usage, p.usage), max(was.demand, p.demand)}
		n++
	})
	if n == maxSampled {
		b.r.Missing = append(b.r.Missing, "headroom is of "+strconv.Itoa(maxSampled)+" sampled clients, of more")
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

// classifyClients judges the clients that the limits limited most.
func (b *ruleBook) classifyClients() {
	since := b.r.ReadSince()
	var limited []*ruleEntry
	for _, e := range b.list {
		if e.figures.countLimited() > 0 || e.figures.KeysLimited > 0 {
			limited = append(limited, e)
		}
	}
	slices.SortStableFunc(limited, func(x, y *ruleEntry) int { return cmp.Compare(y.figures.countLimited(), x.figures.countLimited()) })
	if n := maxClassified / maxClassifiedPerLimit; len(limited) > n {
		limited = limited[:n]
		b.r.Missing = append(b.r.Missing, "clients are judged of the "+strconv.Itoa(n)+" limits that limited most")
	}
	of := map[query.Name][]*clientSum{}
	for _, s := range b.sums {
		n := query.LimitName(b.r.ByID[s.Limit])
		of[n] = append(of[n], s)
	}
	for _, e := range limited {
		one := b.r.NarrowTo(b.r.ListVersions(e.name))
		found := clientsOfSums(one, of[e.name], maxClassifiedPerLimit)
		loadClients(one, found)
		for i := range found {
			e.classified = append(e.classified, found[i].assessClient(one.Ask, since))
		}
		e.figures.Classified = countVerdicts(e.classified)
	}
}

// assessClient returns the client as advice reads it.
func (c *client) assessClient(a *query.Ask, since time.Time) advice.Client {
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
		j.RefusedShares[word] = shareOf(n, all)
	}
	return j
}

// adviseRule adds badges and advice.
func (b *ruleBook) adviseRule(e *ruleEntry, since time.Time) {
	f, r := &e.figures, b.r
	from, to := max(r.From, since.Unix()), min(r.To, r.Now.Unix())
	f.Answer = advice.Advise(&advice.Figures{
		Algorithm: f.Algorithm, Allowance: f.Allowance, Period: time.Duration(f.PeriodMS) * time.Millisecond,
		Burst: f.Burst, Kind: kindOfRule(f.Rule), Shadow: e.shadow, From: time.Unix(from, 0).UTC(), To: time.Unix(to, 0).UTC(),
		Allowed: f.Counts["allowed"] + f.Counts["soft"] + f.Counts["borrowed"] + f.Counts["delayed"], Refused: f.Counts["refused"],
		ShadowRefused: f.Counts["shadow_refused"], Decisive: f.Decisive,
		Sample:  advice.Quantiles{Clients: int64(len(e.demands)), P95: quantileOf(e.demands, 95), Max: quantileOf(e.demands, 100)},
		Clients: e.classified, Minutes: e.trips.steps, Tripped: e.trips.tripped, Trips: e.trips.trips,
	})
}

func reportRules(r *query.Reader) *RuleList {
	b := readRuleBook(r)
	out := &RuleList{Rules: []RuleFigures{}}
	since := r.FindEarliest(r.Now)
	for _, e := range b.list {
		b.adviseRule(e, since)
		out.Rules = append(out.Rules, e.figures)
	}
	slices.SortStableFunc(out.Rules, func(x, y RuleFigures) int {
		switch r.Sort {
		case "decisions":
			return cmp.Compare(y.Decisions, x.Decisions)
		case "share":
			return cmp.Compare(y.RefusedShare, x.RefusedShare)
		case "keys":
			return cmp.Compare(y.KeysLimited, x.KeysLimited)
		}
		return compareRefused(&x.Totals, &y.Totals)
	})
	if len(out.Rules) > r.Top {
		r.Missing = append(r.Missing, strconv.Itoa(len(out.Rules)-r.Top)+" further limits are left out")
		out.Rules = out.Rules[:r.Top]
	}
	out.Coverage = r.ReadCoverage()
	return out
}

// reportRule is one rule in detail.
func reportRule(r *query.Reader) *RuleDetail {
	b := readRuleBook(r)
	out := &RuleDetail{Limits: []RuleLimits{}}
	since := r.FindEarliest(r.Now)
	for _, e := range b.list {
		b.adviseRule(e, since)
		l := RuleLimits{RuleFigures: e.figures, At: r.ListSteps(), Histogram: make([]int64, 11), History: []Version{},
			BusiestSecond: make([]int64, r.CountSteps()), BusiestMinute: make([]int64, r.CountSteps()),
			PerMinute: rows.DivideUp(e.figures.Allowance*60_000, max(e.figures.PeriodMS, 1))}
		for _, u := range e.usages {
			l.Histogram[min(int(u*10), 10)]++
		}
		versions := r.ListVersions(e.name)
		l.addSteps(r.NarrowTo(versions))
		for _, id := range versions {
			l.addVersion(r.NarrowTo([]int64{id}), id, b.sample)
		}
		slices.SortStableFunc(l.History, func(x, y Version) int { return x.From.Compare(y.From) })
		out.Limits = append(out.Limits, l)
	}
	out.Coverage = r.ReadCoverage()
	return out
}

// addSteps adds what a limit did step by step.
func (l *RuleLimits) addSteps(r *query.Reader) {
	lines := newLines(r.Ask, rows.NumCells)
	r.EachCount(r.Step, "", func(row query.CountRow) { lines.addPoint(row.Outcome, row.At, row.N) })
	l.Lines = lines.listLines()
	minute := rows.Units
	if r.ClientGrain() == rows.Hour {
		minute = rows.PeakMinute
	}
	r.EachClientRow(r.From, r.To, rows.ClientColumns{Cells: []int{rows.Peak, minute}}, func(c *rows.ClientLine) {
		p := r.FindStep(c.At)
		l.BusiestSecond[p] = max(l.BusiestSecond[p], c.N[rows.Peak])
		l.BusiestMinute[p] = max(l.BusiestMinute[p], c.N[minute])
	})
}

// addVersion adds what a limit did while it had some numbers, if it was met.
func (l *RuleLimits) addVersion(r *query.Reader, id int64, sample []sampledClient) {
	v := Version{Limit: r.ByID[id], Totals: Totals{Counts: map[string]int64{}}}
	var first, last int64
	r.EachCount(r.Grain.Seconds(), "", func(row query.CountRow) {
		if v.Decisions == 0 {
			first = row.At
		}
		last = row.At
		v.addOutcome(row.Outcome, row.N)
	})
	if len(v.Counts) == 0 {
		return
	}
	v.From, v.To = time.Unix(first, 0).UTC(), time.Unix(last+r.Grain.Seconds(), 0).UTC()
	v.KeysLimited, _, _ = r.ReadKeys(r.From, r.To, nil).CountKeys()
	var usages []float64
	sample = slices.DeleteFunc(slices.Clone(sample), func(s sampledClient) bool { return s.Limit != id })
	eachPeak(r, sample, func(_ int64, _ string, p sampledPeak) { usages = append(usages, p.usage) })
	slices.Sort(usages)
	v.Usage = usageOf(usages)
	l.History = append(l.History, v)
}
