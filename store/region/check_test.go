package region_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/region"
)

// What cannot be counted in several regions says so, and what to do.
func TestCheck(t *testing.T) {
	for want, l := range map[string]*weir.Limit{
		"":                         {Algorithm: algorithm.SlidingWindow, Count: 100},
		"consistency strict":       {Algorithm: algorithm.SlidingWindow, Count: 100, Consistency: params.Consistency{Mode: params.ConsistencyStrict}},
		"consistency leased":       {Algorithm: algorithm.TokenBucket, Count: 100, Consistency: params.Consistency{Mode: params.ConsistencyLeased}},
		"sliding_log cannot":       {Algorithm: algorithm.SlidingLog, Count: 100},
		"concurrency cannot":       {Algorithm: algorithm.Concurrency, Count: 100},
		"first request":            {Algorithm: algorithm.FixedWindow, Count: 100, Params: params.Params{Anchor: params.AnchorFirst}},
		"penalizing":               {Algorithm: algorithm.FixedWindow, Count: 100, Mode: weir.Mode{Penalize: true}},
		"max_overshoot of 1 units": {Algorithm: algorithm.FixedWindow, Count: 10},
		"at least 4":               {Algorithm: algorithm.SlidingWindow, Count: 40},
	} {
		l.Period = time.Minute
		err := region.Check(compiled(t, l, nil), 3)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
		l.Consistency.Mode = params.ConsistencyLocal
		if err := region.Check(l, 3); err != nil {
			t.Errorf("local: %v", err)
		}
	}
}

// Rules with a cost above what a region may admit before the others have heard of it do
// not load.
func TestCheckCost(t *testing.T) {
	for _, a := range []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.TokenBucket} {
		l := compiled(t, weir.PerHour(1000, a), func(l *weir.Limit) {
			l.Consistency.Mode, l.Consistency.MaxOvershoot = params.ConsistencyEventual, 100
		})
		most := int64(50)
		if a != algorithm.FixedWindow {
			most = 25
		}
		for cost := most - 1; cost <= most+2; cost++ {
			if err := region.CheckCost(l, 3, cost); (err == nil) != (cost <= most) {
				t.Errorf("%s: a cost of %d of %d: %v", a.Name(), cost, most, err)
			}
		}
	}
}

func compiled(t testing.TB, l *weir.Limit, change func(*weir.Limit)) *weir.Limit {
	t.Helper()
	if change != nil {
		change(l)
	}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return l
}
