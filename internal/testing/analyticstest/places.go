package analyticstest

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/advice"
	"github.com/weirlimit/weir/internal/insight/analytics/report"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/event"
)

// regions: two nodes of one name in two regions are told apart, and what was told
// before there were regions is still counted.
func regions(t *testing.T, open func() rows.Database, _ *Traffic) {
	var now atomic.Int64
	now.Store(600)
	s, a := newService(t, open(), &now, rows.Bounds{})
	var batch []event.Event
	for region, n := range map[string]uint64{"eu": 10, "us": 200, "": 3000} {
		source := &teller{source: "edge/" + region + "1"}
		e := source.rollup(start, randomRef(), map[string]uint64{"allowed": n, "refused": 1})
		e.Region = region
		batch = append(batch, e)
	}
	consume(t, s, [][]event.Event{batch})
	for query, want := range map[string]int64{"": 3213, "region=eu": 11, "region=us&region=eu": 212, "region=": 3001, "region=eu&node=edge": 11, "region=asia": 0, "region=eu&node=other": 0} {
		var o report.Overview
		a.get("overview?from=-20m&"+query, &o)
		equal(t, "decisions of "+query, o.Totals.Decisions, want)
		var u report.Upstream
		a.get("upstream?from=-20m&"+query, &u)
		refused := int64(0)
		for _, n := range u.Refused {
			refused += n
		}
		equal(t, "upstream of "+query, refused, map[int64]int64{3213: 3, 11: 1, 212: 2, 3001: 1, 0: 0}[want])
	}
	var by report.Series
	a.get("series?by=region&from=-20m", &by)
	got := map[string]int64{}
	for _, l := range by.Lines {
		got[l.Name] = l.Total
	}
	equal(t, "by region", got, map[string]int64{"": 3001, "us": 201, "eu": 11})
	var w report.Words
	a.get("filters?from=-20m", &w)
	equal(t, "regions to filter by", w.Regions, []string{"eu", "us"})
	var sys report.System
	a.get("system", &sys)
	of := map[string]string{}
	for _, source := range sys.Sources {
		of[source.Source] = source.Region
	}
	equal(t, "regions of sources", of, map[string]string{"edge/eu1": "eu", "edge/us1": "us", "edge/1": ""})
	if rec := a.raw("clients?region=eu"); rec.Code != 400 {
		t.Errorf("clients of a region: %d", rec.Code)
	}
	if rec := a.raw("overview?region=eu&tier=gold"); rec.Code != 400 || !strings.Contains(rec.Body.String(), "clients are not kept by region") {
		t.Errorf("a tier in a region: %d %s", rec.Code, rec.Body)
	}
}

// latencies: counts of any nodes and times add up, and percentiles are those of
// the durations themselves, at most an eighth too high.
func latencies(t *testing.T, open func() rows.Database, _ *Traffic) {
	var now atomic.Int64
	now.Store(1200)
	s, a := newService(t, open(), &now, rows.Bounds{})
	var all []time.Duration // in order
	var batches [][]event.Event
	for node := range 2 {
		source := &teller{source: fmt.Sprintf("n%d/1", node)}
		for minute := range 10 {
			e := source.rollup(start.Add(time.Duration(minute)*time.Minute), randomRef(), map[string]uint64{"allowed": 2560})
			e.Region = "eu"
			e.Rollup.Latency = &event.Latency{Every: 256}
			for i := range 10 {
				// From 1 to 200 units of 700 ns, one each.
				took := time.Duration(1+node*100+minute*10+i) * 700
				all = append(all, took)
				bucket := event.LatencyBucket(took)
				counts := &e.Rollup.Latency.Counts
				if n := len(*counts); n > 0 && (*counts)[n-1].Bucket == bucket {
					(*counts)[n-1].Count++
					continue
				}
				*counts = append(*counts, event.LatencyCount{Bucket: bucket, Count: 1})
			}
			batches = append(batches, []event.Event{e}, []event.Event{e})
		}
	}
	consume(t, s, batches)
	check := func(what string, got *report.Latency, of []time.Duration) {
		t.Helper()
		if got == nil {
			t.Fatalf("%s: nothing was timed", what)
		}
		equal(t, what+": measured, every", [2]int64{got.Measured, got.Every}, [2]int64{int64(len(of)), 256})
		for percent, us := range map[int]float64{50: got.P50US, 95: got.P95US, 99: got.P99US, 100: got.MaxUS} {
			exact := float64(of[(len(of)*percent+99)/100-1].Nanoseconds()) / 1000
			if us < exact || us > exact*1.125+0.001 {
				t.Errorf("%s: %d in 100 took at most %v µs, told is %v", what, percent, exact, us)
			}
		}
	}
	var o report.Overview
	a.get("overview?from=-20m", &o)
	check("all", o.Latency, all)
	o = report.Overview{}
	a.get("overview?from=-20m&node=n1&region=eu", &o)
	check("one node", o.Latency, all[100:])
	// Two hours, of which one is whole: other rows, and the same sums.
	now.Store(7200)
	o = report.Overview{}
	a.get("overview?from=-2h", &o)
	check("by the hour", o.Latency, all)
	now.Store(1200)
	for _, none := range []string{"region=us", "rule=other", "outcome=allowed", "tier=gold"} {
		o = report.Overview{}
		a.get("overview?from=-20m&"+none, &o)
		if o.Latency != nil {
			t.Errorf("%s: %+v", none, o.Latency)
		}
	}
	var l report.LatencySeries
	a.get(fmt.Sprintf("latency?node=n0&step=2m&from=%d&to=%d", start.Unix(), start.Unix()+1200), &l)
	check("over time", l.Latency, all[:100])
	equal(t, "steps", [2]int{len(l.At), len(l.Measured)}, [2]int{10, 10})
	for i := range l.At {
		if i >= 5 {
			equal(t, "a step without", fmt.Sprint(l.Measured[i], l.P50US[i], l.P99US[i]), "0 -1 -1")
			continue
		}
		step := all[i*20 : i*20+20]
		exact := float64(step[19].Nanoseconds()) / 1000
		if l.Measured[i] != 20 || l.P99US[i] < exact || l.P99US[i] > exact*1.125+0.001 {
			t.Errorf("step %d: %d, %v µs, want about %v", i, l.Measured[i], l.P99US[i], exact)
		}
	}
}

// migratesRows: a database of the first schema is taken over with all that it has
// counted, and an event that was counted in it is not counted again.
func migratesRows(t *testing.T, open func() rows.Database, _ *Traffic) {
	db := open()
	var now atomic.Int64
	now.Store(600)
	source := &teller{source: "edge/1"}
	old := source.rollup(start, randomRef(), map[string]uint64{"allowed": 40, "refused": 2})
	s, _ := newService(t, db, &now, rows.Bounds{})
	consume(t, s, [][]event.Event{{old}})
	err := db.Update(t.Context(), func(tx rows.Tx) error {
		for _, statement := range []string{
			`CREATE TABLE rollups_1 (grain BIGINT NOT NULL, at BIGINT NOT NULL, limit_id BIGINT NOT NULL, node TEXT NOT NULL, outcome TEXT NOT NULL, n BIGINT NOT NULL,
				PRIMARY KEY (grain, at, limit_id, node, outcome)) ` + db.Dialect().Rows,
			`INSERT INTO rollups_1 (grain, at, limit_id, node, outcome, n) SELECT grain, at, limit_id, node, outcome, n FROM rollups`,
			`CREATE TABLE labels (expires BIGINT NOT NULL)`, `DROP TABLE rollups`, `ALTER TABLE rollups_1 RENAME TO rollups`, `DROP TABLE latencies`, `DROP TABLE answered`, `ALTER TABLE sources DROP COLUMN region`,
			`DELETE FROM weir_schema WHERE version > 1`,
		} {
			if err := tx.Each(statement, [][]any{nil}, nil); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := rows.Migrate(t.Context(), db); err != nil {
			t.Fatal(err)
		}
	}
	s, a := newService(t, db, &now, rows.Bounds{})
	fresh := source.rollup(start, randomRef(), map[string]uint64{"allowed": 3})
	fresh.Region = "eu"
	fresh.Rollup.Latency = &event.Latency{Every: 256, Counts: []event.LatencyCount{{Bucket: 20, Count: 1}}}
	fresh.Rollup.Responses = &event.ResponseTotals{OK: 2, ServerError: 1}
	consume(t, s, [][]event.Event{{old, fresh}})
	var o report.Overview
	a.get("overview?from=-20m", &o)
	equal(t, "counts", o.Totals.Counts, map[string]int64{"allowed": 43, "refused": 2})
	equal(t, "timed", o.Latency.Measured, 1)
	var u report.Upstream
	a.get("upstream?from=-20m", &u)
	equal(t, "answered", u.Total, event.Answers{Count: 3, OK: 2, ServerError: 1})
	var by report.Series
	a.get("series?by=region&from=-20m", &by)
	got := map[string]int64{}
	for _, l := range by.Lines {
		got[l.Name] = l.Total
	}
	equal(t, "by region", got, map[string]int64{"": 42, "eu": 3})
}

// neverDecisive: it is said of the limit that refuses and is never the answer, and of no other.
func neverDecisive(t *testing.T, open func() rows.Database, _ *Traffic) {
	var now atomic.Int64
	s, a := newService(t, open(), &now, rows.Bounds{})
	source := &teller{source: "n/1"}
	lenient, strict := randomRef(), randomRef()
	lenient.Limit, strict.Limit = "lenient", "strict"
	var batch []event.Event
	for minute := range 5 {
		for limit, decisive := range map[event.LimitRef]int64{lenient: 0, strict: 120} {
			e := source.record(start.Add(time.Duration(minute)*time.Minute), limit, "k", "refused", 120)
			e.Record.Decisive = decisive
			batch = append(batch, e)
		}
	}
	batch = append(batch, source.rollup(start, lenient, map[string]uint64{"refused": 600, "allowed": 1000}), source.rollup(start, strict, map[string]uint64{"refused": 600}))
	consume(t, s, [][]event.Event{batch})
	now.Store(600)
	var list report.RuleList
	a.get("rules", &list)
	equal(t, "limits", len(list.Rules), 2)
	for _, r := range list.Rules {
		equal(t, r.Limit.Limit+" never decides", slices.Contains(r.Badges, advice.NeverDecides), r.Limit.Limit == "lenient")
	}
}

// responsesFirst: of two limits the one is told whose requests were answered, though
// the other decided more.
func responsesFirst(t *testing.T, open func() rows.Database, _ *Traffic) {
	var now atomic.Int64
	now.Store(300)
	s, a := newService(t, open(), &now, rows.Bounds{})
	source := &teller{source: "n/1"}
	checked, forwarded := randomRef(), randomRef()
	checked.Limit, forwarded.Limit = "checked", "forwarded"
	r := source.record(start, forwarded, "k", "allowed", 3)
	r.Record.Answers = &event.Answers{Count: 3, OK: 3, TotalMS: 9, LongestMS: 4}
	consume(t, s, [][]event.Event{{r, source.record(start, checked, "k", "allowed", 500),
		source.rollup(start, checked, map[string]uint64{"allowed": 500}), source.rollup(start, forwarded, map[string]uint64{"allowed": 3})}})
	var u report.Upstream
	a.get("upstream?from=-10m", &u)
	equal(t, "limit and answers", fmt.Sprint(u.Of.Limit, u.Total.Count), "forwarded3")
	a.get("upstream?from=-10m&limit=checked", &u)
	equal(t, "limit", u.Of.Limit, "checked")
}
