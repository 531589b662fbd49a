// Package analyticstest is the conformance suite of databases of package
// analytics: each is held to the same answers.
package analyticstest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics"
	"github.com/weirlimit/weir/internal/insight/analytics/report"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/event"
)

// Run runs the suite. prepare makes an empty database and returns a function that
// opens it, as often as it is called: each a process of its own as far as
// the database can tell, or all the same one if it cannot be shared.
func Run(t *testing.T, prepare func(t *testing.T) (open func() rows.Database)) {
	tr := Make(t, 1)
	t.Run("truth", func(t *testing.T) {
		s := Serve(t, prepare(t)(), tr)
		// Each event twice, in any order.
		consume(t, s, Mixed(tr.Events, 2))
		if err := s.Tidy(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		Truth(t, s.Handler(), tr)
		counted(t, s, tr, len(tr.Events))
	})
	for _, f := range []struct {
		name string
		f    func(t *testing.T, open func() rows.Database, tr *Traffic)
	}{
		{"many of one source", manyOfOne}, {"all or nothing", allOrNothing}, {"uncounted", uncounted}, {"two services", twoServices}, {"bounds", bounds}, {"forgets", forgets}, {"back-fill", backFill},
		{"loss", loss}, {"versions", versions}, {"incidents", incidents}, {"regions", regions}, {"latencies", latencies}, {"answers", answers}, {"answers of records", answersOfRecords}, {"migrates rows", migratesRows}, {"never decisive", neverDecisive}, {"answered first", responsesFirst}, {"odd words", oddWords}, {"migrates at once", migratesAtOnce},
		{"refuses what is newer", refusesNewer}, {"ends", ends}, {"questions", questions}, {"every path", everyPath}, {"a sample", sample}, {"usual hours", usualHours},
	} {
		t.Run(f.name, func(t *testing.T) { f.f(t, prepare(t), tr) })
	}
}

// Serve returns a service whose time is the end of the traffic.
func Serve(t *testing.T, db rows.Database, tr *Traffic) *analytics.Service {
	t.Helper()
	s, err := analytics.New(db, analytics.Options{Now: func() time.Time { return tr.To.Add(3 * time.Minute) }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// consume hands batches to a service.
func consume(t *testing.T, s *analytics.Service, batches [][]event.Event) {
	t.Helper()
	local := event.NewLocal(len(batches))
	for _, b := range batches {
		if err := local.Publish(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := local.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), local); err != nil {
		t.Fatal(err)
	}
}

// Mixed returns events so many times each, in batches in a random order. What a
// node told at one instant stays together, as queues keep it.
func Mixed(events []event.Event, times int) [][]event.Event {
	rng := rand.New(rand.NewPCG(3, 4))
	var batches [][]event.Event
	for i := range events {
		e := &events[i]
		if i > 0 && e.Source == events[i-1].Source && e.Time.Equal(events[i-1].Time) {
			batches[len(batches)-1] = append(batches[len(batches)-1], *e)
			continue
		}
		batches = append(batches, []event.Event{*e})
	}
	var all, out [][]event.Event
	for range times {
		all = append(all, batches...)
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for len(all) > 0 {
		var batch []event.Event
		for range min(1+rng.IntN(30), len(all)) {
			batch = append(batch, all[0]...)
			all = all[1:]
		}
		out = append(out, batch)
	}
	return out
}

// counted checks what the service says that it did.
func counted(t *testing.T, s *analytics.Service, tr *Traffic, duplicates int) {
	t.Helper()
	var sys report.System
	(&asked{t, s.Handler(), tr}).get("system", &sys)
	equal(t, "events, duplicates, late", [3]int64{sys.Service.Events, sys.Service.Duplicates, sys.Service.Late}, [3]int64{int64(len(tr.Events)), int64(duplicates), 0})
	events := int64(0)
	for _, source := range sys.Sources {
		events += source.Events
		equal(t, "unheard of "+source.Source, source.Unheard, 0)
	}
	equal(t, "events of all sources", events, int64(len(tr.Events)))
}
