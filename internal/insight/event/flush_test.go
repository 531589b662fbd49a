package event_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/limits"
)

// What is decided on another clock is told with the times of that clock: a minute that is
// played at once has a record for each of its seconds and a roll-up for each ten.
func TestFlush(t *testing.T) {
	begin := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	var now atomic.Int64
	now.Store(begin.UnixMicro())
	limit := perMinute(40, nil)
	queue := &kept{}
	o, err := event.New(event.Options{
		Queue: queue, Sample: 1, Unhashed: true, RollupEvery: 10 * time.Second, Now: func() time.Time { return time.UnixMicro(now.Load()) },
		Limits: func() []limits.Ref { return []limits.Ref{{Domain: "d", Rule: "r", Limit: limit}} },
	})
	if err != nil {
		t.Fatal(err)
	}
	l := limiterOf(t, o, now.Load, limit)
	if err := o.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for second := range 60 {
		if _, err := l.Take(t.Context(), "someone", 1); err != nil {
			t.Fatal(err)
		}
		now.Store(begin.Add(time.Duration(second+1) * time.Second).UnixMicro())
		if err := o.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	outcome := func(second int) string {
		if second < 40 {
			return weir.Allowed.String()
		}
		return weir.Refused.String()
	}
	records, rollups := 0, 0
	for _, e := range queue.all() {
		switch {
		case e.Record != nil:
			at := begin.Add(time.Duration(records) * time.Second)
			if r := e.Record; !r.First.Equal(at) || r.Count != 1 || r.Outcome != outcome(records) || !e.Time.Equal(at.Add(time.Second)) {
				t.Errorf("record %d, told at %s: %d %s at %s", records, e.Time, r.Count, r.Outcome, r.First)
			}
			records++
		case e.Rollup != nil && e.Rollup.Limit != "": // others count the requests of a domain
			at := begin.Add(time.Duration(10*rollups) * time.Second)
			if r := e.Rollup; !r.From.Equal(at) || !r.To.Equal(at.Add(10*time.Second)) || fmt.Sprint(r.Counts) != fmt.Sprint(map[string]uint64{outcome(rollups * 10): 10}) {
				t.Errorf("roll-up %d: %v from %s to %s", rollups, r.Counts, r.From, r.To)
			}
			rollups++
		}
	}
	if records != 60 || rollups != 6 {
		t.Errorf("%d records and %d roll-ups", records, rollups)
	}

	// A queue that takes nothing is an error, not silence.
	if _, err := l.Take(t.Context(), "someone", 1); err != nil {
		t.Fatal(err)
	}
	now.Add(time.Second.Microseconds())
	queue.refuse.Store(1 << 20)
	if err := o.Flush(t.Context()); !errors.Is(err, errBroken) {
		t.Errorf("a broken queue: %v", err)
	}
}
