package chromium

import (
	"fmt"
	"net/url"
	"time"

	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/limits"
)

// adminToken is the token of the tests that log in.
const adminToken = "a token of the tests, long enough"

// logIn sends the form of the login.
func (b *tab) logIn(token string) {
	b.t.Helper()
	b.until(`document.querySelector("#token")`)
	b.do(`document.querySelector("#fault")?.remove(); document.querySelector("#token").value = ` + quote(token) + `; document.querySelector("form button").click()`)
}

// met is what a client met under a limit: how often each outcome.
type met struct {
	rule, client, path                string
	allowed, refused, delayed, shadow int64
	early                             int64
}

// mets are of an hour. By what was refused their order is another than by what was refused
// and would have been refused together, for clients, rules and paths; and who came too
// early most often is not who came too early by the largest share.
var mets = []met{
	{rule: "client_id", client: "client-a", path: "/refused-most", allowed: 100, refused: 900, early: 20},
	{rule: "client_id", client: "client-b", path: "/shadow-most", allowed: 50, refused: 10, shadow: 4000, early: 5},
	{rule: "remote_address", client: "client-c", path: "/shadow-only", allowed: 900, shadow: 6000},
	{rule: "remote_address", client: "client-d", path: "/second", allowed: 300, refused: 400, shadow: 30, early: 380},
	{rule: "export", client: "client-e", path: "/delayed", allowed: 70, refused: 50, delayed: 2500, early: 50},
}

// limitOf are the numbers of a rule of ruleFile.
func limitOf(rule string) event.LimitRef {
	p := event.LimitRef{Name: limits.Name{Domain: "api", Rule: rule, Limit: rule}, Algorithm: "token_bucket", Allowance: 100, PeriodMS: 86_400_000, Burst: 100}
	switch rule {
	case "remote_address":
		p.Allowance, p.PeriodMS, p.Burst = 60, 3_600_000, 20
	case "export":
		p.Algorithm, p.Allowance, p.PeriodMS, p.Burst = "leaky_bucket", 10, 3_600_000, 10
	}
	return p
}

// seenRequests are the requests of the hour: fewer than the decisions, as a request meets
// several limits.
const seenRequests, refusedRequests = 5000, 1000

// throttled is an hour of traffic until end, with the range as parameters of the address.
func throttled(end time.Time) (events []event.Event, span string) {
	begin := end.Add(-time.Hour)
	add := func(e event.Event) {
		e.Source, e.Sequence, e.Time = "edge-2/1", uint64(len(events)+1), end.Add(-time.Minute)
		events = append(events, e)
	}
	counts := map[string]map[string]uint64{}
	for i, m := range mets {
		at := begin.Add(time.Duration(10+5*i) * time.Minute)
		if counts[m.rule] == nil {
			counts[m.rule] = map[string]uint64{}
		}
		for _, o := range []struct {
			word  string
			count int64
		}{{"allowed", m.allowed}, {"refused", m.refused}, {"delayed", m.delayed}, {"shadow_refused", m.shadow}} {
			if o.count == 0 {
				continue
			}
			counts[m.rule][o.word] += uint64(o.count)
			r := &event.Record{First: at, Last: at.Add(time.Second), LimitRef: limitOf(m.rule), Key: m.client, Unhashed: true, Outcome: o.word, Count: o.count, Cost: o.count,
				Every: 1, Source: "store", About: &event.About{Path: m.path, Method: "GET", Address: fmt.Sprintf("192.0.2.%d", i+1), Agent: "curl", Users: 1, Agents: 1, Paths: 1, Addresses: 1}}
			if o.word == "refused" {
				r.Early, r.RetryMS, r.Decisive = m.early, 60_000, o.count
			}
			add(event.Event{Record: r})
		}
	}
	first := true
	for _, m := range mets {
		if counts[m.rule] == nil {
			continue
		}
		r := &event.Rollup{From: begin.Add(20 * time.Minute), To: begin.Add(21 * time.Minute), LimitRef: limitOf(m.rule), Counts: counts[m.rule]}
		if first {
			r.Requests = map[string]uint64{"allowed": seenRequests - refusedRequests - 7, "refused": refusedRequests, "failed": 7}
		}
		first = false
		delete(counts, m.rule)
		add(event.Event{Rollup: r})
	}
	return events, "&from=" + url.QueryEscape(begin.UTC().Format(time.RFC3339)) + "&to=" + url.QueryEscape(end.UTC().Format(time.RFC3339))
}
