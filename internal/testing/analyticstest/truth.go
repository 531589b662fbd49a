package analyticstest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/accuracy"
	"github.com/weirlimit/weir/internal/insight/analytics/query"
	"github.com/weirlimit/weir/internal/insight/analytics/report"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/openapitest"
)

// asked is a service that is asked over HTTP.
type asked struct {
	t       *testing.T
	handler http.Handler
	tr      *Traffic
}

// get asks and reads the answer.
func (a *asked) get(path string, into any) {
	a.t.Helper()
	rec := a.raw(path)
	if rec.Code != 200 {
		a.t.Fatalf("GET %s: %d %s", path, rec.Code, rec.Body)
	}
	if err := json.Unmarshal(rec.Body.Bytes(), into); err != nil {
		a.t.Fatalf("GET %s: %v\n%s", path, err, rec.Body)
	}
}

// raw asks, and checks the response against the OpenAPI document.
func (a *asked) raw(path string) *httptest.ResponseRecorder {
	a.t.Helper()
	return a.exchange(httptest.NewRequest("GET", "/v1/analytics/"+path, nil))
}

func (a *asked) exchange(r *http.Request) *httptest.ResponseRecorder {
	a.t.Helper()
	rec := httptest.NewRecorder()
	a.handler.ServeHTTP(rec, r)
	openapitest.Response(a.t, r.Method, r.URL.EscapedPath(), rec.Code, rec.Header(), rec.Body.Bytes())
	return rec
}

// span is the range of the traffic as parameters.
func (a *asked) span() string {
	return fmt.Sprintf("from=%d&to=%d", a.tr.From.Unix(), a.tr.To.Unix())
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

// near reports a figure that is not within a share of what it should be.
func near(t *testing.T, what string, got, want float64, share float64) {
	t.Helper()
	if got < want*(1-share)-1e-9 || got > want*(1+share)+1e-9 {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// of are the decisions that fit.
func (tr *Traffic) of(fits func(*Decision) bool) []*Decision {
	var out []*Decision
	for i := range tr.Decisions {
		if fits(&tr.Decisions[i]) {
			out = append(out, &tr.Decisions[i])
		}
	}
	slices.SortStableFunc(out, func(a, b *Decision) int { return cmp.Compare(a.At, b.At) })
	return out
}

func tally[K comparable](ds []*Decision, by func(*Decision) (K, int64)) map[K]int64 {
	out := map[K]int64{}
	for _, d := range ds {
		k, n := by(d)
		out[k] += n
	}
	return out
}

func all(*Decision) bool                  { return true }
func outcome(d *Decision) (string, int64) { return d.Outcome, 1 }
func (d *Decision) limits() bool {
	return d.Outcome == "refused" || d.Outcome == "shadow_refused" || d.Outcome == "delayed"
}
func (d *Decision) second() int64 { return d.At / 1e6 }
func (d *Decision) minute() int64 { return d.At / 60e6 }

func distinct(ds []*Decision, fits func(*Decision) bool) int64 {
	keys := map[string]bool{}
	for _, d := range ds {
		if fits(d) {
			keys[d.Key] = true
		}
	}
	return int64(len(keys))
}

// recordOf names the record that a decision is in.
type recordOf struct {
	node    string
	rule    int
	key     string
	outcome string
	second  int64
}

func (d *Decision) record() recordOf {
	return recordOf{d.Node, d.Rule, d.Key, d.Outcome, d.second()}
}

// Truth compares every figure of the answers with what is computed from the
// traffic by itself. All keys must be sampled.
func Truth(t *testing.T, handler http.Handler, tr *Traffic) {
	a := &asked{t, handler, tr}
	for _, f := range []struct {
		name string
		f    func(*asked)
	}{
		{"overview", overview}, {"series", series}, {"top", top}, {"rules", rules}, {"rule", rule}, {"clients", clients},
		{"client", oneClient}, {"rates", rates}, {"accuracy", accuracies}, {"replay", replays}, {"upstream", upstream}, {"by hours", byHours}, {"words", words},
	} {
		t.Run(f.name, func(t *testing.T) { f.f(&asked{t, a.handler, a.tr}) })
	}
}

func overview(a *asked) {
	var o report.Overview
	a.get("overview?top=3&"+a.span(), &o)
	ds := a.tr.of(all)
	equal(a.t, "range", [2]time.Time{o.Coverage.From, o.Coverage.To}, [2]time.Time{a.tr.From, a.tr.To})
	equal(a.t, "grain, basis, every", fmt.Sprint(o.Coverage.Grain, o.Coverage.Basis, o.Coverage.Every), "minuterollups1")
	equal(a.t, "loss", o.Coverage.Loss, query.Loss{})
	equal(a.t, "counts", o.Totals.Counts, tally(ds, outcome))
	equal(a.t, "decisions", o.Totals.Decisions, int64(len(ds)))
	requests, refused := map[*request]bool{}, int64(0)
	for _, d := range ds {
		requests[d.Request] = requests[d.Request] || d.Outcome == "refused"
	}
	for _, was := range requests {
		if was {
			refused++
		}
	}
	share := float64(refused) / float64(len(requests))
	near(a.t, "refused share", o.Totals.RefusedShare, share, 1e-5)
	if q := o.Requests; q == nil || q.Requests != int64(len(requests)) || q.Refused != refused || q.Failed != 0 {
		a.t.Errorf("requests: got %+v, want %d of %d refused", q, refused, len(requests))
	}
	var lines report.Series
	a.get("series?by=request&"+a.span(), &lines)
	equal(a.t, "requests over time", tallyLines(lines), map[string]int64{"allowed": int64(len(requests)) - refused, "refused": refused})
	equal(a.t, "keys limited", o.KeysLimited, distinct(ds, (*Decision).limits))
	equal(a.t, "keys seen", o.KeysSeen, distinct(ds, all))
	var rulesMost, keysMost []string
	for _, r := range o.TopRules {
		rulesMost = append(rulesMost, fmt.Sprint(r.Rule, " ", r.Counts["refused"]*real+r.Counts["shadow_refused"]))
	}
	for _, k := range o.TopKeys {
		keysMost = append(keysMost, fmt.Sprint(k.Rule, " ", k.Key, " ", k.Refused*real+k.Shadow))
	}
	limited := a.tr.of((*Decision).limits)
	equal(a.t, "top rules", rulesMost, most(3, tally(limited, func(d *Decision) (string, int64) { return a.tr.Rules[d.Rule].Rule, d.weight() })))
	equal(a.t, "top keys", keysMost, most(3, tally(limited, func(d *Decision) (string, int64) { return a.tr.Rules[d.Rule].Rule + " " + d.Key, d.weight() })))
	var paths []string
	for _, w := range o.TopPaths {
		paths = append(paths, fmt.Sprint(w.Word, " ", w.Refused*real+w.Shadow))
	}
	equal(a.t, "top paths", paths, most(3, tally(limited, a.lastPath())))
	for _, in := range o.Incidents {
		a.incident(in)
	}
	if len(o.Incidents) == 0 {
		a.t.Error("no incidents")
	}
}

// tallyLines are the totals of lines by name.
func tallyLines(s report.Series) map[string]int64 {
	out := map[string]int64{}
	for _, l := range s.Lines {
		out[l.Name] = l.Total
	}
	return out
}

// incident checks one incident: it holds everything that was limited in its time,
// and the steps around it limited nothing.
func (a *asked) incident(in report.Incident) {
	a.t.Helper()
	within := a.tr.of(func(d *Decision) bool {
		return d.limits() && a.tr.Rules[d.Rule].Rule == in.Rule && d.At >= in.From.UnixMicro() && d.At < in.To.UnixMicro()
	})
	equal(a.t, "refused in an incident of "+in.Rule, in.Refused+in.Shadow, int64(len(within)))
	equal(a.t, "keys of an incident of "+in.Rule, in.Keys, distinct(within, all))
	if near := a.tr.of(func(d *Decision) bool {
		return d.limits() && a.tr.Rules[d.Rule].Rule == in.Rule && (d.At >= in.From.Add(-2*time.Minute).UnixMicro() && d.At < in.From.UnixMicro() ||
			d.At >= in.To.UnixMicro() && d.At < in.To.Add(2*time.Minute).UnixMicro())
	}); len(near) > 0 {
		a.t.Errorf("incident of %s from %s to %s is cut: limited at %d", in.Rule, in.From, in.To, near[0].At)
	}
}

// lastPath tells of each decision the path of the last one of its record.
func (a *asked) lastPath() func(*Decision) (string, int64) {
	path := map[recordOf]string{}
	for _, d := range a.tr.of(all) {
		path[d.record()] = d.Request.path
	}
	return func(d *Decision) (string, int64) { return path[d.record()], d.weight() }
}

// real is what a refusal weighs more than one in shadow mode: lists are in order of what
// was refused.
const real = 1_000_000

func (d *Decision) weight() int64 {
	if d.Outcome == "refused" {
		return real
	}
	return 1
}

// most returns the words with the most, the largest first.
func most(n int, of map[string]int64) []string {
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), strings.Compare(a, b)) })
	var out []string
	for _, name := range names[:min(n, len(names))] {
		out = append(out, fmt.Sprint(name, " ", of[name]))
	}
	return out
}

func series(a *asked) {
	for _, by := range []struct {
		name string
		of   func(*Decision) string
	}{
		{"outcome", func(d *Decision) string { return d.Outcome }},
		{"rule", func(d *Decision) string { return "api/" + a.tr.Rules[d.Rule].Rule }},
		{"node", func(d *Decision) string { return d.Node }},
		{"domain", func(d *Decision) string { return "api" }},
	} {
		var s report.Series
		a.get("series?step=1m&by="+by.name+"&"+a.span(), &s)
		equal(a.t, "points", len(s.At), minutes)
		got := map[string][]int64{}
		for _, l := range s.Lines {
			got[l.Name] = l.Points
		}
		want := map[string][]int64{}
		for _, d := range a.tr.of(all) {
			if want[by.of(d)] == nil {
				want[by.of(d)] = make([]int64, minutes)
			}
			want[by.of(d)][d.minute()-a.tr.From.Unix()/60]++
		}
		equal(a.t, "series by "+by.name, got, want)
	}
	// One client: made of records.
	var s report.Series
	a.get("series?step=2m&key=192.0.2.1&"+a.span(), &s)
	equal(a.t, "basis", s.Coverage.Basis, "records")
	got := map[string]int64{}
	for _, l := range s.Lines {
		got[l.Name] = l.Total
	}
	equal(a.t, "series of a client", got, tally(a.tr.of(func(d *Decision) bool { return d.Key == "192.0.2.1" }), outcome))
	a.get("series?outcome=refused&by=node&"+a.span(), &s)
	got = map[string]int64{}
	for _, l := range s.Lines {
		got[l.Name] = l.Total
	}
	equal(a.t, "refused by node", got, tally(a.tr.of(func(d *Decision) bool { return d.Outcome == "refused" }), func(d *Decision) (string, int64) { return d.Node, 1 }))
}

func top(a *asked) {
	for by, of := range map[string]func(*request) string{
		"tier": func(q *request) string { return q.tier }, "user": func(q *request) string { return q.user },
		"address": func(q *request) string { return q.address },
	} {
		var answer report.Top
		a.get("top?top=1000&by="+by+"&"+a.span(), &answer)
		last := map[recordOf]string{}
		for _, d := range a.tr.of(all) {
			if w := of(d.Request); w != "" {
				last[d.record()] = w
			}
		}
		want, got := map[string][2]int64{}, map[string][2]int64{}
		for _, d := range a.tr.of(all) {
			w := last[d.record()]
			n := want[w]
			if d.limits() {
				n[1]++
			} else {
				n[0]++
			}
			if w != "" {
				want[w] = n
			}
		}
		for _, w := range answer.Words {
			got[w.Word] = [2]int64{w.Allowed, w.Refused + w.Shadow}
		}
		equal(a.t, "top by "+by, got, want)
	}
}

func rules(a *asked) {
	var list report.RuleList
	a.get("rules?"+a.span(), &list)
	equal(a.t, "rules", len(list.Rules), len(a.tr.Rules))
	for _, r := range list.Rules {
		a.rule(r)
	}
}

// ds returns the decisions of a rule.
func (a *asked) ds(rule string) []*Decision {
	return a.tr.of(func(d *Decision) bool { return a.tr.Rules[d.Rule].Rule == rule })
}

func (a *asked) rule(r report.RuleFigures) {
	a.t.Helper()
	ds := a.ds(r.Rule)
	equal(a.t, r.Rule+": counts", r.Counts, tally(ds, outcome))
	equal(a.t, r.Rule+": keys limited", r.KeysLimited, distinct(ds, (*Decision).limits))
	equal(a.t, r.Rule+": keys seen", r.KeysSeen, distinct(ds, all))
	equal(a.t, r.Rule+": versions", r.Versions, 1)
	equal(a.t, r.Rule+": first hit", r.FirstHit.Unix(), ds[0].minute()*60)
	equal(a.t, r.Rule+": last hit", r.LastHit.Unix(), ds[len(ds)-1].minute()*60)
	equal(a.t, r.Rule+": decisive", r.Decisive, tally(ds, func(d *Decision) (bool, int64) { return d.Decided && d.limits(), 1 })[true])
	usages := a.usages(ds)
	at := func(p int) float64 { return usages[(len(usages)*p+99)/100-1] }
	equal(a.t, r.Rule+": usage of keys", r.Usage.Keys, int64(len(usages)))
	near(a.t, r.Rule+": usage p50", r.Usage.P50, at(50), 1e-5)
	near(a.t, r.Rule+": usage p95", r.Usage.P95, at(95), 1e-5)
	near(a.t, r.Rule+": usage max", r.Usage.Max, at(100), 1e-5)
	if r.KeysLimited > 0 && (r.Classified == nil || r.Classified.Clients != min(r.KeysLimited, 20)) {
		a.t.Errorf("%s: judged %+v of %d limited", r.Rule, r.Classified, r.KeysLimited)
	}
	if len(r.Badges) == 0 && len(r.Advice) == 0 && r.NoAdvice == "" {
		a.t.Errorf("%s: neither advice nor why there is none", r.Rule)
	}
}

// usages are the peaks of what keys used, sorted.
func (a *asked) usages(ds []*Decision) []float64 {
	peak := map[string]float64{}
	for _, d := range ds {
		burst := float64(a.tr.Rules[d.Rule].Limit.Burst)
		used := (burst - float64(d.Remaining)) / burst
		if d.limits() {
			used = max(used, 1)
		}
		peak[d.Key] = max(peak[d.Key], used)
	}
	return slices.Sorted(maps.Values(peak))
}

func rule(a *asked) {
	for _, s := range a.tr.Rules {
		var detail report.RuleDetail
		a.get("rules/api/"+url.PathEscape(s.Rule)+"?step=1m&"+a.span(), &detail)
		equal(a.t, "limits", len(detail.Limits), 1)
		l := detail.Limits[0]
		a.rule(l.RuleFigures)
		ds := a.ds(s.Rule)
		second, minute := make([]int64, minutes), make([]int64, minutes)
		at := func(d *Decision) int64 { return d.minute() - a.tr.From.Unix()/60 }
		type cell struct {
			key string
			at  int64
		}
		first := a.tr.From.Unix() / 60
		for c, n := range tally(ds, func(d *Decision) (cell, int64) { return cell{d.Key, d.second()}, d.Cost }) {
			second[c.at/60-first] = max(second[c.at/60-first], n)
		}
		for c, n := range tally(ds, func(d *Decision) (cell, int64) { return cell{d.Key, at(d)}, d.Cost }) {
			minute[c.at] = max(minute[c.at], n)
		}
		equal(a.t, s.Rule+": busiest second", l.BusiestSecond, second)
		equal(a.t, s.Rule+": busiest minute", l.BusiestMinute, minute)
		histogram := make([]int64, 11)
		for _, u := range a.usages(ds) {
			histogram[min(int(u*10+1e-9), 10)]++
		}
		equal(a.t, s.Rule+": histogram", l.Histogram, histogram)
		equal(a.t, s.Rule+": history", len(l.History), 1)
		equal(a.t, s.Rule+": history counts", l.History[0].Counts, tally(ds, outcome))
	}
}

func clients(a *asked) {
	var list report.ClientList
	a.get("clients?top=1000&"+a.span(), &list)
	type who struct{ rule, key string }
	limited := map[who]bool{}
	for _, d := range a.tr.of((*Decision).limits) {
		limited[who{a.tr.Rules[d.Rule].Rule, d.Key}] = true
	}
	equal(a.t, "clients", len(list.Clients), len(limited))
	equal(a.t, "total", list.Total, int64(len(limited)))
	for _, c := range list.Clients {
		if !limited[who{c.Rule, c.Key}] {
			a.t.Errorf("%s was not limited by %s", c.Key, c.Rule)
		}
		a.client(c)
	}
	var one report.ClientList
	a.get("clients?top=1&sort=overshoot&"+a.span(), &one)
	best := slices.MaxFunc(list.Clients, func(x, y report.Client) int { return cmp.Compare(x.Overshoot, y.Overshoot) })
	equal(a.t, "client with the largest overshoot", one.Clients[0].Key, best.Key)
	if list.Clients[0].Verdict == nil || len(list.Clients[0].Verdict.Reasons) == 0 {
		a.t.Errorf("no verdict on %s", list.Clients[0].Key)
	}
}

// client checks all figures of a client.
func (a *asked) client(c report.Client) {
	a.t.Helper()
	ds := a.tr.of(func(d *Decision) bool { return a.tr.Rules[d.Rule].Rule == c.Rule && d.Key == c.Key })
	what := c.Rule + " " + c.Key + ": "
	equal(a.t, what+"counts", c.Counts, tally(ds, outcome))
	equal(a.t, what+"decisive", c.Decisive, tally(ds, func(d *Decision) (bool, int64) { return d.Decided && d.limits(), 1 })[true])
	sum := func(by func(*Decision) (bool, int64)) int64 { return tally(ds, by)[true] }
	equal(a.t, what+"units", c.Units, sum(func(d *Decision) (bool, int64) { return true, d.Cost }))
	equal(a.t, what+"first", c.First.UnixMicro(), ds[0].At)
	equal(a.t, what+"last", c.Last.UnixMicro(), ds[len(ds)-1].At)
	peaks := func(by func(*Decision) int64) int64 {
		return slices.Max(slices.Collect(maps.Values(tally(ds, func(d *Decision) (int64, int64) { return by(d), d.Cost }))))
	}
	equal(a.t, what+"peak second", c.PeakSecond, peaks((*Decision).second))
	equal(a.t, what+"peak minute", c.PeakMinute, peaks((*Decision).minute))
	l := a.tr.Rules[ds[0].Rule].Limit
	through := func(sec float64) float64 {
		return max(float64(l.Count)*sec/l.Period.Seconds(), float64(max(l.Burst, l.Count)))
	}
	near(a.t, what+"overshoot", c.Overshoot, max(float64(c.PeakMinute)/through(60), float64(c.PeakSecond)/through(1)), 1e-5)
	over := map[int64]bool{}
	active := map[int64]bool{}
	early, until := int64(0), int64(0)
	least, retry := ds[0].Remaining, int64(0)
	var answers event.Answers
	paths, users := map[string]bool{}, map[string]bool{}
	for _, d := range ds {
		active[d.minute()] = true
		if d.limits() {
			over[d.minute()] = true
		}
		if d.At < until {
			early++
		}
		if d.Outcome == "refused" {
			until = d.At + d.RetryUS
			retry = max(retry, (d.RetryUS+999)/1000)
		}
		least = min(least, d.Remaining)
		if d.Status > 0 {
			answers.Count++
			answers.TotalMS += d.TookMS
			answers.LongestMS = max(answers.LongestMS, d.TookMS)
			switch d.Status {
			case 200:
				answers.OK++
			case 500:
				answers.ServerError++
			default:
				answers.Denied++
			}
		}
		paths[d.Request.path], users[d.Request.user] = true, true
	}
	equal(a.t, what+"windows", [2]int64{c.Windows, c.WindowsOver}, [2]int64{int64(len(active)), int64(len(over))})
	equal(a.t, what+"early", c.Early, early)
	equal(a.t, what+"least", c.Least, least)
	if !l.Shadow {
		equal(a.t, what+"retry", c.RetryMS, retry)
	}
	if answers.Count > 0 {
		equal(a.t, what+"answers", c.Answers, &answers)
	}
	last := ds[len(ds)-1].Request
	if c.About == nil {
		a.t.Fatalf("%snothing is told of its requests", what)
	}
	equal(a.t, what+"path", c.About.Path, last.path)
	delete(users, "")
	near(a.t, what+"different paths", float64(c.About.Paths), float64(len(paths)), 0.35)
	near(a.t, what+"different users", float64(c.About.Users), float64(len(users)), 0.35)
	equal(a.t, what+"sampled, known, plain", [3]bool{c.Sampled, c.AllowedKnown, c.Unhashed}, [3]bool{true, true, true})
}

func oneClient(a *asked) {
	const key = "192.0.2.1"
	var c report.ClientDetail
	a.get("clients/"+key+"?step=1m&"+a.span(), &c)
	ds := a.tr.of(func(d *Decision) bool { return d.Key == key })
	equal(a.t, "limits", len(c.Limits), 1)
	l := c.Limits[0]
	a.client(l.Client)
	units := make([]int64, minutes)
	for m, n := range tally(ds, func(d *Decision) (int64, int64) { return d.minute() - a.tr.From.Unix()/60, d.Cost }) {
		units[m] = n
	}
	equal(a.t, "units by minute", l.UnitsAt, units)
	got := map[string]int64{}
	for _, line := range l.Lines {
		got[line.Name] = line.Total
	}
	equal(a.t, "lines", got, tally(ds, outcome))
}

func rates(a *asked) {
	for _, s := range a.tr.Rules {
		var r report.Rates
		a.get("rates?top=1000&rule="+url.QueryEscape(s.Rule)+"&"+a.span(), &r)
		ds := a.ds(s.Rule)
		equal(a.t, s.Rule+": window", r.WindowMS, s.Limit.Period.Milliseconds())
		equal(a.t, s.Rule+": estimated", r.Estimated, false)
		equal(a.t, s.Rule+": clients", r.Clients, distinct(ds, all))
		type cell struct {
			key string
			at  int64
		}
		windows := tally(ds, func(d *Decision) (cell, int64) { return cell{d.Key, d.At / s.Limit.Period.Microseconds()}, d.Cost })
		peaks, units := map[string]int64{}, int64(0)
		for c, n := range windows {
			peaks[c.key] = max(peaks[c.key], n)
			units += n
		}
		equal(a.t, s.Rule+": units", r.Units, units)
		got := map[string]int64{}
		for _, c := range r.Top {
			got[c.Key] = c.Peak
		}
		equal(a.t, s.Rule+": peaks", got, peaks)
		if len(r.Ladder) == 0 {
			a.t.Errorf("%s: no ladder", s.Rule)
		}
		for _, rung := range r.Ladder {
			a.caught(s.Rule, rung.Limit, rung.Clients, rung.Units, windows2(windows, func(c cell) string { return c.key }))
		}
		// What the page computes at any line.
		for _, line := range []int64{1, 3, s.Limit.Count, 2 * s.Limit.Count} {
			var n, caught int64
			for _, p := range r.Peaks {
				if p.Peak > line {
					n += p.Clients
				}
			}
			for _, b := range r.Buckets {
				if b.Rate > line {
					caught += b.Units - line*b.Windows
				}
			}
			a.caught(s.Rule+" in the browser", line, n, caught, windows2(windows, func(c cell) string { return c.key }))
		}
		equal(a.t, s.Rule+": highest percentile", r.Percentiles[len(r.Percentiles)-1].Peak, r.Top[0].Peak)
	}
}

type keyedWindow struct {
	key   string
	units int64
}

func windows2[K comparable](of map[K]int64, key func(K) string) []keyedWindow {
	var out []keyedWindow
	for k, n := range of {
		out = append(out, keyedWindow{key(k), n})
	}
	return out
}

// caught checks what a limit would have caught.
func (a *asked) caught(what string, limit, clients, units int64, windows []keyedWindow) {
	a.t.Helper()
	who, n := map[string]bool{}, int64(0)
	for _, w := range windows {
		if w.units > limit {
			who[w.key] = true
			n += w.units - limit
		}
	}
	equal(a.t, fmt.Sprintf("%s: caught at %d", what, limit), [2]int64{clients, units}, [2]int64{int64(len(who)), n})
}

func accuracies(a *asked) {
	var list report.AccuracyList
	a.get("accuracy?"+a.span(), &list)
	equal(a.t, "rules", len(list.Rules), len(a.tr.Rules))
	for _, r := range list.Rules {
		ds := a.ds(r.Rule)
		equal(a.t, r.Rule+": compared", [2]int64{r.Keys, r.Decisions}, [2]int64{distinct(ds, all), int64(len(ds))})
		equal(a.t, r.Rule+": cut", r.Cut, false)
		// The most that one key was admitted in any period.
		period := a.tr.Rules[ds[0].Rule].Limit.Period.Microseconds()
		worst := int64(0)
		byKey := map[string][]*Decision{}
		for _, d := range ds {
			if !d.limits() {
				byKey[d.Key] = append(byKey[d.Key], d)
			}
		}
		for _, passed := range byKey {
			for _, d := range passed {
				sum := int64(0)
				for _, e := range passed {
					if e.At > d.At-period && e.At <= d.At {
						sum += e.Cost
					}
				}
				worst = max(worst, sum)
			}
		}
		equal(a.t, r.Rule+": worst", r.Worst, worst)
		if len(r.Compare) < 4 || !slices.ContainsFunc(r.Compare, func(c accuracy.Alternative) bool { return c.InUse }) {
			a.t.Errorf("%s: compared with %+v", r.Rule, r.Compare)
		}
	}
}

// replays: a fixed window is counted here by itself.
func replays(a *asked) {
	ds := a.ds("remote_address")
	type window struct {
		key    string
		minute int64
	}
	refuses := func(limit int64) (by map[*Decision]bool, keys map[string]bool) {
		by, keys, spent := map[*Decision]bool{}, map[string]bool{}, map[window]int64{}
		for _, d := range ds {
			w := window{d.Key, d.minute()}
			if spent[w]+d.Cost > limit {
				by[d], keys[d.Key] = true, true
				continue
			}
			spent[w] += d.Cost
		}
		return by, keys
	}
	own, ownKeys := refuses(60)
	with, withKeys := refuses(25)
	var r report.Replay
	a.get("replay?rule=remote_address&new_allowance=25&step=1m&top=1000&"+a.span(), &r)
	equal(a.t, "numbers", [4]int64{r.Limit.Allowance, r.Limit.Burst, r.Edited.Allowance, r.Edited.Burst}, [4]int64{60, 60, 25, 25})
	equal(a.t, "replayed", [2]int64{r.Keys, r.Decisions}, [2]int64{distinct(ds, all), int64(len(ds))})
	rows := int64(len(a.tr.of(func(d *Decision) bool { return a.tr.Rules[d.Rule].Rule == "remote_address" && d.limits() })))
	equal(a.t, "refused as told, by its own and by the edited limit", [3]int64{r.Recorded.Refused, r.Own.Refused, r.With.Refused}, [3]int64{rows, int64(len(own)), int64(len(with))})
	equal(a.t, "admitted", [2]int64{r.Own.Admitted, r.With.Admitted}, [2]int64{int64(len(ds) - len(own)), int64(len(ds) - len(with))})
	equal(a.t, "keys", [2]int64{r.Own.Keys, r.With.Keys}, [2]int64{int64(len(ownKeys)), int64(len(withKeys))})
	newly, newlyKeys, steps := int64(0), map[string]int64{}, make([]int64, minutes)
	for d := range with {
		steps[(d.At-a.tr.From.UnixMicro())/60e6]++
		newlyKeys[d.Key]++
		if !own[d] {
			newly++
		}
	}
	equal(a.t, "newly refused, newly admitted", [2]int64{r.Refused.Decisions, r.Admitted.Decisions}, [2]int64{newly, 0})
	equal(a.t, "over time", r.WithRefused, steps)
	for _, c := range r.Clients {
		equal(a.t, "client "+c.Key, c.WithRefused, newlyKeys[c.Key])
	}
	if len(own) == 0 || newly == 0 || len(r.Clients) == 0 || r.Cut || r.Unsupported != "" {
		a.t.Errorf("%d refused, %d newly, %d clients, cut %t, unfit %q: that shows nothing", len(own), newly, len(r.Clients), r.Cut, r.Unsupported)
	}
	// A wider limit of another algorithm admits what this one refused.
	var wide report.Replay
	a.get("replay?rule=remote_address&new_allowance=100000&new_period_ms=60000&new_burst=100000&new_algorithm=token_bucket&"+a.span(), &wide)
	equal(a.t, "newly admitted", [4]int64{wide.With.Refused, wide.Admitted.Decisions, wide.Admitted.Keys, wide.Refused.Decisions}, [4]int64{0, int64(len(own)), int64(len(ownKeys)), 0})
}

func upstream(a *asked) {
	var u report.Upstream
	a.get("upstream?step=1m&rule=remote_address&"+a.span(), &u)
	ds := a.ds("remote_address")
	admitted, refused := make([]int64, minutes), make([]int64, minutes)
	answers := make([]event.Answers, minutes)
	took := make([][]int64, minutes)
	for _, d := range ds {
		at := d.minute() - a.tr.From.Unix()/60
		if d.Outcome == "refused" {
			refused[at]++
		} else {
			admitted[at]++
		}
		if d.Status == 0 {
			continue
		}
		x := &answers[at]
		x.Count++
		x.TotalMS += d.TookMS
		x.LongestMS = max(x.LongestMS, d.TookMS)
		took[at] = append(took[at], d.TookMS)
		switch d.Status {
		case 200:
			x.OK++
		case 500:
			x.ServerError++
		default:
			x.Denied++
		}
	}
	equal(a.t, "admitted", u.Admitted, admitted)
	equal(a.t, "refused", u.Refused, refused)
	equal(a.t, "answers", u.Answers, answers)
	for i, ms := range took {
		percentiles(a.t, fmt.Sprint("minute ", i), ms, map[int]float64{50: u.P50MS[i], 99: u.P99MS[i]})
	}
	percentiles(a.t, "all", slices.Concat(took...), map[int]float64{50: u.Times.P50MS, 95: u.Times.P95MS, 99: u.Times.P99MS})
	equal(a.t, "timed", u.Times.Measured, int64(len(slices.Concat(took...))))
	equal(a.t, "nothing is missing", u.Coverage.Missing, nil)
	var busiest report.Upstream
	a.get("upstream?"+a.span(), &busiest)
	equal(a.t, "the limit that decided most", busiest.Of.Rule, "remote_address")
}

// percentiles checks percentiles of durations in milliseconds: never too low, and at
// most an eighth too high.
func percentiles(t *testing.T, what string, ms []int64, got map[int]float64) {
	t.Helper()
	ms = slices.Sorted(slices.Values(ms))
	for percent, p := range got {
		if len(ms) == 0 {
			equal(t, what, p, -1)
			continue
		}
		exact := float64(ms[(len(ms)*percent+99)/100-1])
		if p < exact || p > exact*1.125+1e-6 {
			t.Errorf("%s: %d in 100 answers took at most %v ms, told is %v", what, percent, exact, p)
		}
	}
}

// byHours asks for more than a day, which hours answer.
func byHours(a *asked) {
	long := fmt.Sprintf("from=%d&to=%d", a.tr.To.Add(-36*time.Hour).Unix(), a.tr.To.Unix())
	var o report.Overview
	a.get("overview?"+long, &o)
	ds := a.tr.of(all)
	equal(a.t, "grain", o.Coverage.Grain, "hour")
	equal(a.t, "counts", o.Totals.Counts, tally(ds, outcome))
	equal(a.t, "keys", [2]int64{o.KeysLimited, o.KeysSeen}, [2]int64{distinct(ds, (*Decision).limits), distinct(ds, all)})
	var by, minutes report.ClientList
	a.get("clients?top=1000&"+long, &by)
	a.get("clients?top=1000&"+a.span(), &minutes)
	equal(a.t, "clients", len(by.Clients), len(minutes.Clients))
	for i, c := range by.Clients {
		m := minutes.Clients[i]
		equal(a.t, "client by hours "+c.Key, []any{c.Key, c.Counts, c.Units, c.PeakSecond, c.PeakMinute, c.Overshoot, c.Early, c.First, c.Last, c.Answers},
			[]any{m.Key, m.Counts, m.Units, m.PeakSecond, m.PeakMinute, m.Overshoot, m.Early, m.First, m.Last, m.Answers})
		equal(a.t, "windows", [2]int64{c.Windows, c.WindowsOver}, [2]int64{1, 1})
	}
	for i, in := range o.Incidents {
		if in.Refused+in.Shadow == 0 || in.Keys == 0 || in.Overshoot == 0 {
			a.t.Errorf("incident %d by hours: %+v", i, in)
		}
	}
}

func words(a *asked) {
	var w report.Words
	a.get("filters?"+a.span(), &w)
	equal(a.t, "nodes", w.Nodes, []string{"east", "west"})
	equal(a.t, "domains", w.Domains, []string{"api"})
	equal(a.t, "rules", w.Rules, []string{"path_/login", "remote_address", "user"})
	equal(a.t, "outcomes", w.Outcomes, slices.Sorted(maps.Keys(tally(a.tr.of(all), outcome))))
}
