package analyticstest

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/report"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/event"
)

// responses is what a node tells of answers that took so many milliseconds each, of
// which the first are server errors.
func responses(ms []int64, errors int) *event.ResponseTotals {
	out := &event.ResponseTotals{OK: uint64(len(ms) - errors), ServerError: uint64(errors)}
	n := map[int]uint64{}
	for _, took := range ms {
		out.TotalUS += uint64(took) * 1000
		out.LongestUS = max(out.LongestUS, uint64(took)*1000)
		n[event.LatencyBucket(time.Duration(took)*time.Millisecond)]++
	}
	for bucket := range event.LatencyBuckets {
		if n[bucket] > 0 {
			out.Times = append(out.Times, event.LatencyCount{Bucket: bucket, Count: n[bucket]})
		}
	}
	return out
}

// answers: what nodes tell of answers is put together over nodes, regions and grains,
// late events and all, and percentiles are those of the durations themselves.
func answers(t *testing.T, open func() rows.Database, _ *Traffic) {
	const spell = 40
	var now atomic.Int64
	now.Store(spell * 60)
	s, a := newService(t, open(), &now, rows.Bounds{})
	type minute struct {
		ms       []int64
		errors   int64
		admitted int64
	}
	minutes := map[string][]minute{}
	var batches [][]event.Event
	for _, region := range []string{"eu", "us"} {
		source := &teller{source: "n/" + region}
		for i := range int64(spell) {
			// Two nodes with as many requests each: 2 in the first minute, 80 in the last.
			// Above 60 the upstream of both is slow.
			m := minute{admitted: 2 + i*2}
			for k := range m.admitted {
				took := 10 + (k*7+i)%13
				if m.admitted > 60 {
					took *= 20
				}
				m.ms = append(m.ms, took)
			}
			if i == 39 {
				m.errors = 5
			}
			minutes[region] = append(minutes[region], m)
			e := source.rollup(start.Add(time.Duration(i)*time.Minute), randomRef(), map[string]uint64{"allowed": uint64(m.admitted), "refused": uint64(i)})
			e.Region = region
			e.Rollup.Responses = responses(m.ms, int(m.errors))
			batches = append(batches, []event.Event{e}, []event.Event{e})
		}
	}
	slices.Reverse(batches) // the last first
	consume(t, s, batches)
	check := func(query string, regions ...string) {
		t.Helper()
		var u report.Upstream
		a.get(fmt.Sprintf("upstream?from=%d&to=%d&step=2m%s", start.Unix(), start.Unix()+spell*60, query), &u)
		var all []int64
		for step := range spell / 2 {
			var ms []int64
			var errors, admitted int64
			for _, region := range regions {
				for _, m := range minutes[region][step*2 : step*2+2] {
					ms = append(ms, m.ms...)
					errors, admitted = errors+m.errors, admitted+m.admitted
				}
			}
			all = append(all, ms...)
			want := event.Answers{Count: int64(len(ms)), OK: int64(len(ms)) - errors, ServerError: errors, LongestMS: slices.Max(ms)}
			for _, x := range ms {
				want.TotalMS += x
			}
			equal(t, fmt.Sprint("step ", step, query), u.Answers[step], want)
			equal(t, "admitted", u.Admitted[step], admitted)
			percentiles(t, fmt.Sprint("step ", step, query), ms, map[int]float64{50: u.P50MS[step], 99: u.P99MS[step]})
		}
		percentiles(t, "all"+query, all, map[int]float64{50: u.Times.P50MS, 95: u.Times.P95MS, 99: u.Times.P99MS})
	}
	check("", "eu", "us")
	check("&region=eu", "eu")
	check("&node=n&region=us", "us")
	// By the hour: one row, of both.
	now.Store(2 * 86400)
	var u report.Upstream
	a.get("upstream?from=-50h&step=1h", &u)
	equal(t, "by hours", [3]int64{u.Total.Count, u.Total.ServerError, u.Times.Measured}, [3]int64{2 * (2 + 80) * spell / 2, 10, 2 * (2 + 80) * spell / 2})
	equal(t, "grain", u.Coverage.Grain, "hour")
}

// answersOfRecords: nodes that tell answers in records alone are still heard, which
// the answer says, and the two are not added up.
func answersOfRecords(t *testing.T, open func() rows.Database, _ *Traffic) {
	var now atomic.Int64
	now.Store(1200)
	s, a := newService(t, open(), &now, rows.Bounds{})
	source := &teller{source: "n/1"}
	r := source.record(start, randomRef(), "k", "allowed", 3)
	r.Record.Answers = &event.Answers{Count: 3, OK: 2, ServerError: 1, TotalMS: 9, LongestMS: 4}
	consume(t, s, [][]event.Event{{r, source.rollup(start, randomRef(), map[string]uint64{"allowed": 30})}})
	get := func(query string) (u report.Upstream) {
		a.get(fmt.Sprintf("upstream?step=1m&from=%d&to=%d%s", start.Unix(), start.Unix()+1200, query), &u)
		return u
	}
	u := get("")
	equal(t, "of records", u.Total, *r.Record.Answers)
	equal(t, "without percentiles", [3]float64{u.P99MS[0], u.Times.P99MS, float64(u.Times.Measured)}, [3]float64{-1, -1, 0})
	if u.MeanMS[0] != 3 || !strings.Contains(strings.Join(u.Coverage.Missing, ";"), "sampled or were limited, without percentiles") {
		t.Errorf("mean %d, missing %q", u.MeanMS[0], u.Coverage.Missing)
	}
	if u := get("&region="); u.Total.Count != 0 {
		t.Errorf("records of all regions in one: %+v", u.Total)
	}
	later := source.rollup(start.Add(10*time.Minute), randomRef(), map[string]uint64{"allowed": 5})
	later.Rollup.Responses = responses([]int64{1, 1, 1, 1, 1}, 0)
	consume(t, s, [][]event.Event{{later}})
	u = get("")
	if u.Total.Count != 5 || u.Answers[0].Count != 0 || !strings.Contains(strings.Join(u.Coverage.Missing, ";"), "before 2026-03-01T12:10:00Z answers were told of clients alone") {
		t.Errorf("%+v, missing %q", u.Total, u.Coverage.Missing)
	}
}
