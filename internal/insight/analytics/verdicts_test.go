package analytics_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/rows"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/report"
	"github.com/weirlimit/weir/internal/insight/analytics/verdict"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/analyticstest"
	"github.com/weirlimit/weir/internal/testing/traffic"
)

// Verdicts on clients of traffic that is known are right for 95 in 100 of them
// when they are asked for over HTTP: what is kept of records bears them.
func TestSoakVerdicts(t *testing.T) {
	if testing.Short() {
		t.Skip("an hour of traffic takes seconds")
	}
	want := map[traffic.Label]verdict.Class{traffic.Legitimate: verdict.Legitimate, traffic.Shared: verdict.Shared,
		traffic.Runaway: verdict.Runaway, traffic.Abusive: verdict.Abusive}
	right, judged, files := 0, 0, uint64(2)
	if os.Getenv("WEIR_SOAK") != "" {
		files = 26
	}
	for seed := range files {
		s := traffic.Held(7000 + seed)
		from, to := s.Range()
		svc := service(t, analytics.Options{Bounds: rows.Bounds{MaxClients: 2000}, Now: func() time.Time { return to.Add(10 * time.Minute) }})
		feed(t, svc, s)
		var list report.ClientList
		analyticstest.Get(t, svc, fmt.Sprintf("clients?top=1000&from=%d&to=%d", from.Unix(), to.Unix()), &list)
		rules := map[string]traffic.Kind{}
		for _, r := range s.Rules {
			rules[r.Name] = r.Kind
		}
		for _, c := range list.Clients {
			if c.Counts["refused"]+c.Counts["shadow_refused"] == 0 {
				continue
			}
			who, known := s.Truth(rules[c.Rule], c.Key)
			if !known {
				continue
			}
			if judged++; string(c.Verdict.Class) == string(want[who.Label]) {
				right++
			} else {
				t.Logf("%s %s under %s is %s (%s), judged %s: %q", s.Name, c.Key, c.Rule, who.Label, who.Actor, c.Verdict.Class, c.Verdict.Reasons)
			}
		}
	}
	t.Logf("%d of %d verdicts are right", right, judged)
	if judged < 20*int(files) || 100*right < 95*judged {
		t.Errorf("%d of %d verdicts are right, want 95 in 100", right, judged)
	}
}

// feed takes in what an observer tells of a scenario.
func feed(t *testing.T, svc *analytics.Service, s *traffic.Scenario) {
	t.Helper()
	local := event.NewLocal(1 << 16)
	sequence := uint64(0)
	var batch []event.Event
	send := func() {
		if err := local.Publish(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		batch = nil
	}
	c := traffic.Recorder{Sample: 4, Emit: func(r *event.Record) {
		sequence++
		told := *r
		batch = append(batch, event.Event{Source: "n/1", Sequence: sequence, Time: r.Last, Record: &told})
		if len(batch) == 1000 {
			send()
		}
	}}
	if err := c.Record(s); err != nil {
		t.Fatal(err)
	}
	send()
	if err := local.Close(); err != nil {
		t.Fatal(err)
	}
	if err := svc.Run(t.Context(), local); err != nil {
		t.Fatal(err)
	}
}
