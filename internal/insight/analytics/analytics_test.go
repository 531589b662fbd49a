package analytics_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/report"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/analytics/sqlite"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/analyticstest"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/limits"
)

func service(t *testing.T, opt analytics.Options) *analytics.Service {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Memory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := analytics.New(db, opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMetrics(t *testing.T) {
	s := service(t, analytics.Options{})
	local := event.NewLocal(1)
	e, old := analyticstest.Event(time.Now().Add(-2*time.Second)), analyticstest.Event(time.Now().AddDate(-1, 0, 0))
	old.Sequence = 2
	if err := local.Publish(t.Context(), []event.Event{e, e, e, old}); err != nil {
		t.Fatal(err)
	}
	if err := local.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), local); err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(s.Collector())
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[strings.TrimPrefix(name, "weir_analytics_")] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	for name, want := range map[string]float64{"events_total counted": 1, "events_total duplicate": 2, "events_total late": 1, "batches_total": 1,
		"transactions_total": 1, "retries_total": 0, "database_up": 1, "pending_events": 0} {
		if n, ok := got[name]; !ok || n != want {
			t.Errorf("%s: %v, want %v", name, n, want)
		}
	}
	if lag := got["lag_seconds"]; lag < 1.9 || lag > 600 {
		t.Errorf("lag %v", lag)
	}
}

func TestOptions(t *testing.T) {
	db, err := sqlite.Open(t.Context(), sqlite.Memory)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for name, bounds := range map[string]rows.Bounds{
		"too short":             {KeepMinutes: time.Minute},
		"hours before minutes":  {KeepMinutes: 48 * time.Hour, KeepHours: 24 * time.Hour},
		"clients before counts": {KeepMinutes: time.Hour, KeepClientMinutes: 2 * time.Hour},
		"few clients":           {MaxClients: 1},
		"negative arrivals":     {MaxArrivals: -1},
	} {
		if _, err := analytics.New(db, analytics.Options{Bounds: bounds}); err == nil || !strings.HasPrefix(err.Error(), "analytics: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := analytics.New(nil, analytics.Options{}); err == nil {
		t.Error("no database")
	}
}

// Run forgets what is too old by itself.
func TestRunForgets(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db, err := sqlite.Open(t.Context(), sqlite.Memory)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		s, err := analytics.New(db, analytics.Options{Bounds: rows.Bounds{KeepMinutes: time.Hour, KeepClientMinutes: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		local := event.NewLocal(1)
		ended := make(chan error, 1)
		go func() { ended <- s.Run(t.Context(), local) }()
		if err := local.Publish(t.Context(), []event.Event{analyticstest.Event(time.Now())}); err != nil {
			t.Fatal(err)
		}
		minutes := func() int64 {
			for _, x := range analyticstest.System(t, s).Tables {
				if x.Name == "rollups" && x.Grain == "minute" {
					return x.Rows
				}
			}
			return -1
		}
		time.Sleep(time.Minute)
		if n := minutes(); n != 1 {
			t.Errorf("%d rows", n)
		}
		time.Sleep(time.Hour + 5*time.Minute)
		if n := minutes(); n != 0 {
			t.Errorf("%d rows after an hour", n)
		}
		if err := local.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Rows that take too much room go, the oldest first, and counts stay.
func TestTrim(t *testing.T) {
	now := time.Now()
	s := service(t, analytics.Options{Bounds: rows.Bounds{MaxBytes: 2 << 20, MaxClients: 5000}, Now: func() time.Time { return now }})
	rng := rand.New(rand.NewPCG(1, 1))
	sequence := uint64(0)
	local := event.NewLocal(20)
	place := event.LimitRef{Name: limits.Name{Domain: "d", Rule: "r", Limit: "l"}, Algorithm: "fixed_window", Allowance: 1, PeriodMS: 1000, Burst: 1}
	for minute := range 20 {
		at := now.Add(time.Duration(minute-20) * time.Minute)
		var batch []event.Event
		for range 500 {
			sequence++
			batch = append(batch, event.Event{Source: "n/1", Sequence: sequence, Time: at, Record: &event.Record{First: at, Last: at, LimitRef: place,
				Key: strings.Repeat("k", 40) + string(rune('a'+rng.IntN(26))) + time.Duration(sequence).String(), Outcome: "refused", Count: 1, Cost: 1, Every: 1}})
		}
		sequence++
		batch = append(batch, event.Event{Source: "n/1", Sequence: sequence, Time: at, Rollup: &event.Rollup{From: at, To: at, LimitRef: place, Counts: map[string]uint64{"refused": 500}}})
		if err := local.Publish(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	if err := local.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), local); err != nil {
		t.Fatal(err)
	}
	if err := s.Tidy(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	sys := analyticstest.System(t, s)
	if sys.Bytes > 2<<20 {
		t.Errorf("rows take %d bytes", sys.Bytes)
	}
	var o report.Overview
	analyticstest.Get(t, s, "overview?from=-1h", &o)
	if n := o.Totals.Counts["refused"]; n != 20*500 {
		t.Errorf("%d refused", n)
	}
}

// slow is a database that reads for as long as it may.
type slow struct{ rows.Database }

func (slow) View(ctx context.Context, _ func(rows.Tx) error) error {
	<-ctx.Done()
	return errors.New("interrupted")
}

// A report that takes too long says so, and what to ask for.
func TestSlowReport(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db, err := sqlite.Open(t.Context(), sqlite.Memory)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		s, err := analytics.New(slow{db}, analytics.Options{})
		if err != nil {
			t.Fatal(err)
		}
		rec := httptest.NewRecorder()
		s.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/v1/analytics/overview?from=-30d", nil))
		if rec.Code != 503 || !strings.Contains(rec.Body.String(), "has not answered in 30s: give a shorter range") {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	})
}
