package report

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
)

func reportOverview(r *query.Reader) *Overview {
	o := &Overview{TopRules: []TopRule{}, Totals: Totals{Counts: map[string]int64{}}}
	rules := map[query.Name]*TopRule{}
	trips := map[query.Name]*tripping{}
	degraded := map[int64]bool{}
	grain, first := r.Grain.Seconds(), int64(0)
	r.EachCount(grain, "", func(row query.CountRow) {
		if first == 0 {
			first = row.At
		}
		n := query.LimitName(r.ByID[row.Limit])
		o.Totals.addOutcome(row.Outcome, row.N)
		rule := rows.EnsureEntry(rules, n, func() *TopRule { return &TopRule{Limit: r.FindNewest(n)} })
		rule.addOutcome(row.Outcome, row.N)
		if row.Outcome == "degraded" {
			degraded[row.At] = true
		}
		rows.EnsureEntry(trips, n, func() *tripping { return &tripping{limit: rule.Limit} }).addCount(row, grain)
	})
	o.DegradedS = int64(len(degraded)) * grain
	if o.Requests = readRequests(r, &o.Totals, first); o.Requests != nil {
		o.Totals.RefusedShare = o.Requests.RefusedShare
	}
	o.KeysLimited, o.KeysSeen, o.KeysSeenKnown = r.ReadKeys(r.From, r.To, nil).CountKeys()
	if !r.IsOfClients() && r.Outcomes == nil {
		o.Latency = latencyOf(readTiming(r))
	}
	if r.Nodes != nil || r.Regions != nil {
		r.Missing = append(r.Missing, "clients, paths and what incidents tell of clients are of all nodes: they are not kept by node")
	}
	for _, rule := range slices.SortedFunc(maps.Values(rules), func(a, b *TopRule) int {
		return cmp.Or(compareRefused(&a.Totals, &b.Totals), rows.CompareLimits(a.Limit, b.Limit))
	}) {
		if len(o.TopRules) < r.Top {
			o.TopRules = append(o.TopRules, *rule)
		}
	}
	o.TopKeys, o.TopPaths = readTopKeys(r), readTopWords(r, "path")
	o.Incidents = reportIncidents(r, slices.Collect(maps.Values(trips)))
	o.Coverage = r.ReadCoverage()
	return o
}

// readTopKeys returns the clients that were limited most.
func readTopKeys(r *query.Reader) []TopKey {
	sums := sumClients(r, "refused", true)
	out := []TopKey{}
	for _, s := range sums[:min(len(sums), r.Top)] {
		out = append(out, TopKey{Limit: r.ByID[s.Limit], Key: s.Client, Unhashed: s.unhashed, Limited: s.Limited})
	}
	return out
}

// readTopWords returns the words of a kind with the most limited requests. Words are
// kept by the hour: the range is widened to whole hours.
func readTopWords(r *query.Reader, kind string) []TopWord {
	w := &query.Where{}
	w.AddCondition("at >= ? AND at < ?", rows.FloorTo(r.From, 3600), rows.CeilTo(r.To, 3600))
	r.AddLimits(w, "limit_id")
	w.AddCondition("kind = ?", kind)
	out := []TopWord{}
	r.ReadRows(func(row rows.Row) {
		out = append(out, TopWord{Word: row.Text(0), Allowed: row.Int(1), Limited: Limited{row.Int(2), row.Int(3), row.Int(4)}})
	}, `SELECT word, CAST(SUM(allowed) AS BIGINT), CAST(SUM(refused) AS BIGINT), CAST(SUM(shadow) AS BIGINT), CAST(SUM(delayed) AS BIGINT)
		FROM words`+w.Text+` GROUP BY word ORDER BY SUM(refused) DESC, SUM(delayed) DESC, SUM(shadow) DESC, SUM(allowed) DESC, word LIMIT `+strconv.Itoa(r.Top), w.Args...)
	return out
}

func reportTop(r *query.Reader) *Top {
	r.From, r.To, r.Grain, r.Step = rows.FloorTo(r.From, 3600), rows.CeilTo(r.To, 3600), max(r.Grain, rows.Hour), max(r.Step, 3600)
	c := r.ReadCoverage()
	c.Basis = "records"
	return &Top{Coverage: c, By: r.By, Words: readTopWords(r, r.By)}
}

// maxPause is after how many steps of the grain without a refusal an incident is
// over.
const maxPause = 2

// tripping finds the incidents of a limit, from counts in order of time.
type tripping struct {
	limit rows.Limit
	found []Incident
	last  int64
	// met and tripped count steps, trips how often one with refusals came after one
	// without.
	steps, tripped, trips int64
	was                   int64 // the step that is counted
	hit, hitBefore        bool
}

func (t *tripping) addCount(row query.CountRow, grain int64) {
	if row.At != t.was || t.steps == 0 {
		t.endStep()
		t.was, t.steps = row.At, t.steps+1
	}
	if !rows.IsLimiting(row.Outcome) || row.N == 0 {
		return
	}
	t.hit = true
	if len(t.found) == 0 || row.At-t.last > maxPause*grain {
		t.found = append(t.found, Incident{Limit: t.limit, From: time.Unix(row.At, 0).UTC()})
	}
	i := &t.found[len(t.found)-1]
	t.last, i.To = row.At, time.Unix(row.At+grain, 0).UTC()
	switch row.Outcome {
	case "refused":
		i.Refused += row.N
	case "shadow_refused":
		i.Shadow += row.N
	case "delayed":
		i.Delayed += row.N
	}
}

// endStep ends a step.
func (t *tripping) endStep() {
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
func reportIncidents(r *query.Reader, all []*tripping) []Incident {
	out := []Incident{}
	for _, t := range all {
		out = append(out, t.found...)
	}
	slices.SortFunc(out, func(a, b Incident) int {
		return cmp.Or(b.To.Compare(a.To), b.From.Compare(a.From), rows.CompareLimits(a.Limit, b.Limit))
	})
	if len(out) > maxIncidents {
		out = out[:maxIncidents]
		r.Missing = append(r.Missing, "older incidents are left out: "+strconv.Itoa(maxIncidents)+" are told")
	}
	steps := readBusiestSteps(r, out)
	for i := range out {
		in := &out[i]
		in.Open = in.To.Unix() > r.To-maxPause*r.Grain.Seconds() || in.To.Unix() >= rows.FloorTo(r.Now.Unix(), r.Grain.Seconds())
		in.addRecords(r, steps)
	}
	return out
}

type busiest struct{ units, minute, second int64 }

// readBusiestSteps returns what clients did at most in the steps of incidents, of all clients.
func readBusiestSteps(r *query.Reader, all []Incident) map[query.LimitStep]busiest {
	steps := map[query.LimitStep]busiest{}
	if len(all) == 0 {
		return steps
	}
	var limits []int64
	from, to := all[0].From.Unix(), all[0].To.Unix()
	for i := range all {
		from, to = min(from, all[i].From.Unix()), max(to, all[i].To.Unix())
		for _, id := range r.ListVersions(query.LimitName(all[i].Limit)) {
			if !slices.Contains(limits, id) {
				limits = append(limits, id)
			}
		}
	}
	last, kept := query.LimitStep{}, busiest{}
	r.NarrowTo(limits).WithAllClients().EachClientRow(from, to, rows.ClientColumns{Cells: []int{rows.Units, rows.PeakMinute, rows.Peak}}, func(l *rows.ClientLine) {
		if at := (query.LimitStep{Limit: l.Limit, At: l.At}); at != last {
			last, kept = at, steps[at]
		}
		b := busiest{max(kept.units, l.N[rows.Units]), max(kept.minute, l.N[rows.PeakMinute]), max(kept.second, l.N[rows.Peak])}
		if b != kept {
			kept = b
			steps[last] = b
		}
	})
	return steps
}

// addRecords adds what records tell.
func (in *Incident) addRecords(r *query.Reader, steps map[query.LimitStep]busiest) {
	versions := r.ListVersions(query.LimitName(in.Limit))
	in.Keys, _, _ = r.NarrowTo(versions).ReadKeys(in.From.Unix(), in.To.Unix(), []string{rows.SketchLimited}).CountKeys()
	g := r.ClientGrain()
	for _, id := range versions {
		for at := rows.FloorTo(in.From.Unix(), g.Seconds()); at < in.To.Unix(); at += g.Seconds() {
			b := steps[query.LimitStep{Limit: id, At: at}]
			if g == rows.Hour {
				b.units = b.minute
			}
			in.Overshoot = max(in.Overshoot, overshoot(r.ByID[id], b.units, 60, b.second))
		}
	}
}
