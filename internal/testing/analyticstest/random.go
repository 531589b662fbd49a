package analyticstest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/event"
)

// filters are what questions are narrowed by.
var filters = []string{"", "&tier=gold", "&path=/a*", "&agent=curl", "&key=k3", "&mode=enforced", "&outcome=refused"}

// random is a database of random records, of which all questions are asked.
type random struct {
	t      *testing.T
	db     rows.Database
	rng    *rand.Rand
	now    time.Time
	source teller
	// every: one question in so many is asked, but in the long form.
	every int
}

func (d *random) service() *analytics.Service {
	d.t.Helper()
	s, err := analytics.New(d.db, retained(func() time.Time { return d.now }, -1))
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

// write counts random records and roll-ups of the time before now.
func (d *random) write(s *analytics.Service, n int, ago time.Duration) {
	local := event.NewLocal(n)
	outcomes := []string{"allowed", "refused", "refused", "soft", "borrowed", "delayed", "shadow_refused", "estimated", "degraded", "new"}
	pick := func(words ...string) string { return words[d.rng.IntN(len(words))] }
	for range n {
		at := d.now.Add(-time.Duration(d.rng.Int64N(int64(ago))))
		p := FilledRef(d.rng.Int64N(3) + 1)
		p.PeriodMS = []int64{1000, 60_000, 7_200_000}[d.rng.IntN(3)]
		var events []event.Event
		for range d.rng.IntN(4) + 1 {
			e := d.source.record(at, p, fmt.Sprint("k", d.rng.IntN(40)), pick(outcomes...), d.rng.Int64N(20))
			r := e.Record
			r.Cost, r.Early, r.Decisive, r.Least = d.rng.Int64N(1<<d.rng.IntN(40)), d.rng.Int64N(3), d.rng.Int64N(2), d.rng.Int64N(100)
			r.Every, r.Watched, r.Unhashed, r.Merged = d.rng.Int64N(3), d.rng.IntN(2) == 0, d.rng.IntN(2) == 0, d.rng.IntN(20) == 0
			r.RetryMS, r.DelayMS, r.Degraded = d.rng.Int64N(3000)-1, d.rng.Int64N(100), d.rng.IntN(5) == 0
			if d.rng.IntN(3) > 0 {
				r.About = &event.About{
					Address: pick("", "192.0.2.1", "192.0.2.2"), Path: pick("", "/a", "/ab", "/b", "/Ä"), User: pick("", "ann", "bob"), Tier: pick("", "gold", "free"),
					Agent: pick("", "curl", "ünï"), Method: "GET", Network: pick("", "192.0.2.0/24"), Host: "h", Users: d.rng.Int64N(3), Paths: d.rng.Int64N(9),
				}
			}
			if d.rng.IntN(3) == 0 {
				r.Answers = &event.Answers{Count: 3, OK: 1, Denied: 1, ServerError: 1, TotalMS: d.rng.Int64N(900), LongestMS: d.rng.Int64N(900)}
			}
			events = append(events, e)
		}
		events = append(events, d.source.rollup(at, p, map[string]uint64{pick("allowed", "refused", "shadow_refused"): d.rng.Uint64N(50)}))
		if err := local.Publish(d.t.Context(), events); err != nil {
			d.t.Error(err)
			return
		}
	}
	if err := errors.Join(local.Close(), s.Run(d.t.Context(), local)); err != nil {
		d.t.Error(err)
	}
}

// answers asks every question of every range with every filter.
func (d *random) answers(s *analytics.Service) map[string]string {
	d.t.Helper()
	out := map[string]string{}
	h, asked := s.Handler(), 0
	sorts := []string{"clients?sort=decisions&top=7", "clients?sort=early", "clients?sort=last&top=3", "clients?sort=units"}
	for _, q := range append(slices.Clone(Questions), sorts...) {
		if !strings.Contains(q, "?") {
			continue
		}
		for _, from := range []string{"-50m", "-3h", "-23h", "-7d", "-30d"} {
			for _, filter := range filters {
				if asked++; !Long() && asked%d.every != 0 { // each filter with some of the questions
					continue
				}
				if strings.Contains(q, "key=") && strings.Contains(filter, "key=") {
					continue
				}
				path := "/v1/analytics/" + q + "&from=" + from + filter
				rec := httptest.NewRecorder()
				h.ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
				if rec.Code != 200 && rec.Code != 400 { // not all take all filters
					d.t.Fatalf("GET %s: %d %s", path, rec.Code, rec.Body)
				}
				out[path] = rec.Body.String()
			}
		}
	}
	return out
}

func count(t testing.TB, db rows.Database, query string) (n int64) {
	t.Helper()
	if err := db.View(t.Context(), func(tx rows.Tx) error {
		return tx.Each(query, [][]any{nil}, func(_ int, r rows.Row) error { n = r.Int(0); return nil })
	}); err != nil {
		t.Fatal(err)
	}
	return n
}
