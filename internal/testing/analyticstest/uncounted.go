package analyticstest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/report"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// full is a database whose disk is full: it answers and takes nothing.
type full struct {
	rows.Database
	isFull atomic.Bool
}

var errFull = errors.New("database or disk is full")

func (f *full) Update(ctx context.Context, write func(rows.Tx) error) error {
	if f.isFull.Load() {
		return errFull
	}
	return f.Database.Update(ctx, write)
}

// uncounted: while the database takes no events, answers that reach beyond what is counted
// say so, and only those.
func uncounted(t *testing.T, open func() rows.Database, _ *Traffic) {
	db := &full{Database: open()}
	var now atomic.Int64
	s, a := newService(t, db, &now, rows.Bounds{})
	source := &teller{source: "n/1"}
	batch := func(at time.Duration) []event.Event {
		return []event.Event{source.rollup(start.Add(at), randomRef(), map[string]uint64{"allowed": 1})}
	}
	answer := func(query string) (o report.Overview) {
		a.get("overview"+query, &o)
		return o
	}
	consume(t, s, [][]event.Event{batch(0)})
	if o := answer(""); o.Coverage.Uncounted != nil || s.Uncounted() != nil {
		t.Errorf("all is counted, but %+v waits", o.Coverage.Uncounted)
	}
	db.isFull.Store(true)
	now.Store(3600)
	local := event.NewLocal(1)
	if err := local.Publish(t.Context(), batch(time.Hour)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- s.Run(t.Context(), local) }()
	servertest.Await(t, "the full disk to be met", func() bool { return s.Uncounted() != nil })
	now.Store(3700)
	for query, waits := range map[string]bool{"": true, "?from=-30m": true, "?from=-70m&to=-20m": false} {
		o := answer(query)
		if u := o.Coverage.Uncounted; (u != nil) != waits || waits && (u.Reason != errFull.Error() || !u.Since.Equal(start.Add(time.Hour))) {
			t.Errorf("overview%s: %+v waits, want it told: %v", query, u, waits)
		}
	}
	db.isFull.Store(false)
	if err := local.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if o := answer(""); o.Coverage.Uncounted != nil || o.Totals.Decisions != 1 {
		t.Errorf("after the disk has room again %+v waits, and %d of the last hour are counted", o.Coverage.Uncounted, o.Totals.Decisions)
	}
}
