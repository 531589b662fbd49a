package analytics

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"
)

func reportOverview(r *reader) *Overview {
	o := &Overview{TopRules: []TopRule{}, Totals: Totals{Counts: map[string]int64{}}}
	rules := map[name]*TopRule{}
	trips := map[name]*tripping{}
	degraded := map[int64]bool{}
	grain, first := r.grain.Seconds(), int64(0)
	r.counts(grain, "", func(row countRow) {
		if first == 0 {
			first = row.at
		}
		n := nameOf(r.byID[row.limit])
		o.Totals.add(row.outcome, row.n)
		rule := entry(rules, n, func() *TopRule { return &TopRule{Limit: r.newest(n)} })
		rule.add(row.outcome, row.n)
		if row.outcome == "degraded" {
			degraded[row.at] = true
		}
		entry(trips, n, func() *tripping { return &tripping{limit: rule.Limit} }).add(row, grain)
	})
	o.DegradedS = int64(len(degraded)) * grain
	if o.Requests = readRequests(r, &o.Totals, first); o.Requests != nil {
		o.Totals.RefusedShare = o.Requests.RefusedShare
	}
	o.KeysLimited, o.KeysSeen, o.KeysSeenKnown = r.keysOfAll(r.from, r.to, nil).count()
	if !r.ofClients() && r.outcomes == nil {
		o.Latency = r.timing().latency()
	}
	if r.nodes != nil || r.regions != nil {
		r.missing = append(r.missing, "clients, paths and what incidents tell of clients are of all nodes: they are not kept by node")
	}
	for _, rule := range slices.SortedFunc(maps.Values(rules), func(a, b *TopRule) int {
		return cmp.Or(compareRefused(&a.Totals, &b.Totals), compareLimits(a.Limit, b.Limit))
	}) {
		if len(o.TopRules) < r.top {
			o.TopRules = append(o.TopRules, *rule)
		}
	}
	o.TopKeys, o.TopPaths = readTopKeys(r), readTopWords(r, "path")
	o.Incidents = reportIncidents(r, slices.Collect(maps.Values(trips)))
	o.Coverage = r.coverage()
	return o
}

// readTopKeys returns the clients that were limited most.
func readTopKeys(r *reader) []TopKey {
	sums := r.clientSums("refused", true)
	out := []TopKey{}
	for _, s := range sums[:min(len(sums), r.top)] {
		l := r.byID[s.limit]
		out = append(out, TopKey{Domain: l.Domain, Rule: l.Rule, Limit: l.Limit, Key: s.client, Unhashed: s.unhashed, Refused: s.refused, Shadow: s.shadow, Delayed: s.delayed})
	}
	return out
}

// readTopWords returns the words of a kind with the most limited requests. Words are
// kept by the hour: the range is widened to whole hours.
func readTopWords(r *reader, kind string) []TopWord {
	w := &where{}
	w.and("at >= ? AND at < ?", floor(r.from, 3600), ceil(r.to, 3600))
	r.limitsOf(w, "limit_id")
	w.and("kind = ?", kind)
	out := []TopWord{}
	r.query(func(row Row) {
		out = append(out, TopWord{Word: row.Text(0), Allowed: row.Int(1), Refused: row.Int(2), Shadow: row.Int(3), Delayed: row.Int(4)})
	}, `SELECT word, CAST(SUM(allowed) AS BIGINT), CAST(SUM(refused) AS BIGINT), CAST(SUM(shadow) AS BIGINT), CAST(SUM(delayed) AS BIGINT)
		FROM words`+w.text+` GROUP BY word ORDER BY SUM(refused) DESC, SUM(delayed) DESC, SUM(shadow) DESC, SUM(allowed) DESC, word LIMIT `+strconv.Itoa(r.top), w.args...)
	return out
}

func reportTop(r *reader) *Top {
	r.from, r.to, r.grain, r.step = floor(r.from, 3600), ceil(r.to, 3600), max(r.grain, Hour), max(r.step, 3600)
	c := r.coverage()
	c.Basis = "records"
	return &Top{Coverage: c, By: r.by, Words: readTopWords(r, r.by)}
}

// maxPause is after how many steps of the grain without a refusal an incident is
// over.
const maxPause = 2

// tripping finds the incidents of a limit, from counts in order of time.
type tripping struct {
	limit Limit
	found []Incident
	last  int64
	// met and tripped count steps, trips how often one with refusals came after one
	// without.
	steps, tripped, trips int64
	was                   int64 // the step that is counted
	hit, hitBefore        bool
}

func (t *tripping) add(row countRow, grain int64) {
	if row.at != t.was || t.steps == 0 {
		t.turn()
		t.was, t.steps = row.at, t.steps+1
	}
	if !limits(row.outcome) || row.n == 0 {
		return
	}
	t.hit = true
	if len(t.found) == 0 || row.at-t.last > maxPause*grain {
		t.found = append(t.found, Incident{Limit: t.limit, From: time.Unix(row.at, 0).UTC()})
	}
	i := &t.found[len(t.found)-1]
	t.last, i.To = row.at, time.Unix(row.at+grain, 0).UTC()
	switch row.outcome {
	case "refused":
		i.Refused += row.n
	case "shadow_refused":
		i.Shadow += row.n
	case "delayed":
		i.Delayed += row.n
	}
}

// turn ends a step.
func (t *tripping) turn() {
	if t.hit {
		t.tripped++
		if !t.hitBefore {
			t.trips++
		}
	}
	t.hit, t.hitBefore = false, t.hit
}

// maxIncidents is how many incidents an answer has.
const maxIncidents = 100

// reportIncidents returns the newest incidents with what records tell of them.
func reportIncidents(r *reader, all []*tripping) []Incident {
	out := []Incident{}
	for _, t := range all {
		out = append(out, t.found...)
	}
	slices.SortFunc(out, func(a, b Incident) int {
		return cmp.Or(b.To.Compare(a.To), b.From.Compare(a.From), compareLimits(a.Limit, b.Limit))
	})
	if len(out) > maxIncidents {
		out = out[:maxIncidents]
		r.missing = append(r.missing, "older incidents are left out: "+strconv.Itoa(maxIncidents)+" are told")
	}
	steps := readBusiestSteps(r, out)
	for i := range out {
		in := &out[i]
		in.Open = in.To.Unix() > r.to-maxPause*r.grain.Seconds() || in.To.Unix() >= floor(r.now.Unix(), r.grain.Seconds())
		in.addRecords(r, steps)
	}
	return out
}

// limitStep is a limit in a minute or an hour, busiest what its clients did at most in it.
type limitStep struct{ limit, at int64 }

type busiest struct{ units, minute, second int64 }

// readBusiestSteps returns what clients did at most in the steps of incidents, of all clients.
func readBusiestSteps(r *reader, all []Incident) map[limitStep]busiest {
	steps := map[limitStep]busiest{}
	if len(all) == 0 {
		return steps
	}
	of := r.only(nil).ofAllClients()
	from, to := all[0].From.Unix(), all[0].To.Unix()
	for i := range all {
		from, to = min(from, all[i].From.Unix()), max(to, all[i].To.Unix())
		for _, id := range r.versions(nameOf(all[i].Limit)) {
			if !slices.Contains(of.chosen, id) {
				of.chosen = append(of.chosen, id)
			}
		}
	}
	last, kept := limitStep{}, busiest{}
	of.clientRows(r.clientGrain(), from, to, clientColumns{cells: []int{cUnits, cPeakMinute, cPeak}}, func(l *clientLine) {
		if at := (limitStep{l.limit, l.at}); at != last {
			last, kept = at, steps[at]
		}
		b := busiest{max(kept.units, l.n[cUnits]), max(kept.minute, l.n[cPeakMinute]), max(kept.second, l.n[cPeak])}
		if b != kept {
			kept = b
			steps[last] = b
		}
	})
	return steps
}

// addRecords adds what records tell.
func (in *Incident) addRecords(r *reader, steps map[limitStep]busiest) {
	one := r.only(r.versions(nameOf(in.Limit)))
	in.Keys, _, _ = one.keysOfAll(in.From.Unix(), in.To.Unix(), []string{sketchLimited}).count()
	g := r.clientGrain()
	for _, id := range one.chosen {
		for at := floor(in.From.Unix(), g.Seconds()); at < in.To.Unix(); at += g.Seconds() {
			b := steps[limitStep{id, at}]
			if g == Hour {
				b.units = b.minute
			}
			in.Overshoot = max(in.Overshoot, overshoot(r.byID[id], b.units, 60, b.second))
		}
	}
}
