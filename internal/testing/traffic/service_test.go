package traffic

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/report"
	"github.com/weirlimit/weir/internal/insight/analytics/sqlite"
	"github.com/weirlimit/weir/internal/insight/analytics/verdict"
	"github.com/weirlimit/weir/internal/insight/event"
)

// slice is a source that ends.
type slice []event.Event

// Receive implements event.Source.
func (s slice) Receive(ctx context.Context, take func(context.Context, []event.Event) error) error {
	for from := 0; from < len(s); from += 1000 {
		if err := take(ctx, s[from:min(from+1000, len(s))]); err != nil {
			return err
		}
	}
	return nil
}

// Close implements event.Source.
func (s slice) Close() error { return nil }

// words puts reasons together, without the number of paths, which a service
// estimates.
func words(reasons []string) string {
	return somePaths.ReplaceAllString(strings.Join(reasons, "; "), "paths")
}

var somePaths = regexp.MustCompile(`some \d+ different paths`)

// The service comes, when all is over, to the verdicts that are judged here, for the same reasons
// with the same figures.
func TestServiceJudgesAlike(t *testing.T) {
	for i := range uint64(5) {
		s := Held(5000 + 2*i)
		s.End = s.Start + (30 * time.Minute).Microseconds()
		var table Table
		var events slice
		recorder := Recorder{Sample: 1000, Emit: func(r *event.Record) {
			table.Add(r)
			events = append(events, event.Event{Source: "node/1", Sequence: uint64(len(events) + 1), Time: r.Last, Record: r})
		}}
		if err := recorder.Record(s); err != nil {
			t.Fatal(err)
		}
		from, to := s.Range()
		db, err := sqlite.Open(t.Context(), sqlite.Memory)
		if err != nil {
			t.Fatal(err)
		}
		service, err := analytics.New(db, analytics.Options{Now: func() time.Time { return to.Add(10 * time.Minute) }})
		if err != nil {
			t.Fatal(err)
		}
		if err := service.Run(t.Context(), events); err != nil {
			t.Fatal(err)
		}
		rec := httptest.NewRecorder()
		service.Handler().ServeHTTP(rec, httptest.NewRequest("GET", fmt.Sprintf("/v1/analytics/clients?top=1000&from=%d&to=%d", from.Unix(), to.Unix()), nil))
		var list report.ClientList
		if err := json.Unmarshal(rec.Body.Bytes(), &list); err != nil || rec.Code != 200 {
			t.Fatalf("%d %s: %v", rec.Code, rec.Body, err)
		}
		told := map[string]*verdict.Verdict{}
		for i := range list.Clients {
			c := &list.Clients[i]
			told[c.Rule+" "+c.Key] = c.Verdict
		}
		judged, same := 0, 0
		for _, c := range table.Cases(s) {
			if c.Evidence.Refused == 0 {
				continue
			}
			judged++
			v := verdict.Classify(c.Evidence)
			got := told[c.Rule.Name+" "+c.Key]
			switch {
			case got == nil:
				t.Errorf("%s: the service does not judge %s %s", s.Name, c.Rule.Name, c.Key)
			case got.Class != v.Class || words(got.Reasons) != words(v.Reasons):
				t.Errorf("%s: %s %s %s: the service says %s because %v, not %s because %v", s.Name, c.Rule.Name, c.Who.Actor, c.Key, got.Class, got.Reasons, v.Class, v.Reasons)
			default:
				same++
			}
		}
		if judged < 3 || same != judged {
			t.Errorf("%s: %d of %d verdicts are the same", s.Name, same, judged)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
