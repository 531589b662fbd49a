package analyticstest

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/insight/analytics/report"
	"github.com/weirlimit/weir/internal/insight/analytics/rows"
	"github.com/weirlimit/weir/internal/insight/event"
	"github.com/weirlimit/weir/internal/testing/seeds"
)

// usualHours: what a client usually does in an hour is of the week before a range, and what
// it does now of the hours in it, whatever the range.
func usualHours(t *testing.T, open func() rows.Database, _ *Traffic) {
	rng := rand.New(rand.NewPCG(seeds.Of(t), 2))
	const days = 20
	at := start.Truncate(time.Hour)
	end := at.Add(days*24*time.Hour + 17*time.Minute)
	var now atomic.Int64
	db := open()
	s, a := newService(t, db, &now, retained(nil, -1).Bounds)
	source := &teller{source: "n/1"}
	units := map[int64]int64{}
	for ; at.Before(end); at = at.Add(time.Hour) {
		if rng.IntN(4) == 0 && end.Sub(at) > 2*time.Hour {
			continue
		}
		n := end.Unix()/3600 - at.Unix()/3600 + 1 // the first hour of a range has most
		units[at.Unix()] = n
		now.Store(int64(at.Sub(start) / time.Second))
		consume(t, s, [][]event.Event{{source.record(at.Add(time.Duration(rng.IntN(17))*time.Minute), randomRef(), "k", "refused", n)}})
	}
	now.Store(int64(end.Sub(start) / time.Second))
	for _, from := range []string{"-1h", "-5h", "-24h", "-7d", "-12d"} {
		var list report.ClientList
		a.get("clients?from="+from, &list)
		if len(list.Clients) != 1 {
			t.Fatalf("%s: %d clients", from, len(list.Clients))
		}
		c := list.Clients[0]
		begins := list.Coverage.From.Truncate(time.Hour)
		var before []int64
		most := int64(0)
		for at, n := range units {
			switch at := time.Unix(at, 0); {
			case !at.Before(begins):
				most = max(most, n)
			case !at.Before(begins.Add(-7 * 24 * time.Hour)):
				before = append(before, n)
			}
		}
		slices.Sort(before)
		equal(t, from+": hours of the week before", c.UsualHours, int64(len(before)))
		equal(t, from+": units in a usual hour", c.Usual, before[(len(before)*95+99)/100-1])
		equal(t, from+": units in an hour now", c.Now, most)
	}
}
