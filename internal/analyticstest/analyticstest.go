// Package analyticstest is the conformance suite of databases of package
// analytics: each is held to the same answers.
package analyticstest

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/analytics"
	"github.com/weirlimit/weir/event"
)

// Run runs the suite. make prepares an empty database and returns a function that
// opens it, as often as it is called: each a process of its own as far as
// the database can tell, or all the same one if it cannot be shared.
func Run(t *testing.T, prepare func(t *testing.T) (open func() analytics.Database)) {
	t.Run("counts each event once", func(t *testing.T) {
		db := prepare(t)()
		s, err := analytics.New(db, analytics.Options{})
		if err != nil {
			t.Fatal(err)
		}
		local := event.NewLocal(10)
		now := time.Now().UTC()
		batch := []event.Event{
			{Source: "n/1", Sequence: 1, Time: now, Rollup: &event.Rollup{From: now.Add(-time.Minute), To: now, Place: place(), Counts: map[string]uint64{"allowed": 10, "refused": 3}}},
			{Source: "n/1", Sequence: 2, Time: now, Record: &event.Record{First: now, Last: now, Place: place(), Key: "k", Outcome: "refused", Count: 3, Cost: 3, Decisive: 3, Every: 1, Source: "store"}},
			{Source: "n/1", Sequence: 3, Time: now, Loss: &event.Loss{Dropped: 4}},
		}
		for range 2 {
			if err := local.Publish(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
		local.Close()
		if err := s.Run(t.Context(), local); err != nil {
			t.Fatal(err)
		}
		if err := s.Tidy(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	})
}

func place() event.Place {
	return event.Place{Domain: "d", Rule: "r", Limit: "l", Algorithm: "fixed_window", Allowance: 10, PeriodMS: 60000, Burst: 10}
}
