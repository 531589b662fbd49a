package memcached_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memcached"
)

// TestFamilyRestarts: a limit whose count begins anew is told, and none else.
func TestFamilyRestarts(t *testing.T) {
	rng := rand.New(rand.NewPCG(seeds.Of(t), 0))
	// No two windows end together at this time.
	const now = 1_773_500_966_535_897
	s := open(t, memcached.Options{Servers: []string{server(t)}, Now: func() int64 { return now }})
	draw := func() *weir.Limit {
		period := []time.Duration{time.Minute, 7 * time.Minute, time.Hour, 24 * time.Hour}[rng.IntN(4)]
		p := params.Params{}
		switch rng.IntN(4) {
		case 0:
			p.Phase = time.Duration(1+rng.IntN(2)) * 10 * time.Second
		case 1:
			p.Anchor, period = params.AnchorCalendar, 24*time.Hour
			p.Location = []*time.Location{nil, time.FixedZone("east", 7200)}[rng.IntN(2)]
		}
		return fixed(t, "rule", 2+rng.Int64N(20), period, p)
	}
	for i := range 200 {
		key, old, l := fmt.Sprint(i), draw(), draw()
		if _, err := s.TakeOne(t.Context(), key, old, 1); err != nil {
			t.Fatal(err)
		}
		d, err := s.TakeOne(t.Context(), key, l, 0)
		if err != nil {
			t.Fatal(err)
		}
		why, anew := memcached.Restarts(l, old), d.Remaining == l.Count
		if anew && why == "" {
			t.Errorf("%s %v after %s %v begins anew", l.Period, l.Params, old.Period, old.Params)
		}
		if !anew && l.Period == old.Period && l.Params == old.Params && why != "" {
			t.Errorf("%s %v goes on, but is told to begin anew: %s", l.Period, l.Params, why)
		}
	}
}
