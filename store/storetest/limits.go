package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/params"
)

const bucketName = "token_bucket"

// limits returns compiled limits of every algorithm: of one and several words,
// with small and large counts, short and long periods.
func limits(t testing.TB) []*weir.Limit {
	t.Helper()
	var all []*weir.Limit
	for _, a := range algorithm.All {
		for i, l := range []*weir.Limit{
			{Count: 5, Period: 100 * time.Millisecond},
			{Count: 100, Period: time.Minute, Burst: 20},
			{Count: 7919, Period: 7 * time.Second},
			{Count: 1, Period: time.Hour},
		} {
			all = append(all, named(t, a, fmt.Sprint(i), l))
		}
	}
	for i, p := range []params.Params{
		{Anchor: params.AnchorFirst},
		{Phase: 300 * time.Millisecond},
		{Anchor: params.AnchorCalendar, Calendar: params.CalendarMonth},
	} {
		period := time.Second
		if p.Anchor == params.AnchorCalendar {
			period = 30 * 24 * time.Hour
		}
		all = append(all, named(t, algorithm.FixedWindow, fmt.Sprint("anchor", i), &weir.Limit{Count: 8, Period: period, Params: p}))
	}
	for _, form := range []params.Form{params.Weighted, params.Lenient} {
		all = append(all, named(t, algorithm.SlidingSubwindows, fmt.Sprint("form", form),
			&weir.Limit{Count: 30, Period: time.Second, Params: params.Params{Form: form, Precision: 10}}))
	}
	all = append(all,
		named(t, algorithm.TokenBucket, "two words", &weir.Limit{Count: 1_000_003, Period: time.Second, Burst: 50}),
		named(t, algorithm.SlidingWindow, "two words", &weir.Limit{Count: 20, Period: time.Second}),
		named(t, algorithm.SlidingWindow, "four words", &weir.Limit{Count: 1 << 40, Period: time.Second}),
		named(t, algorithm.SlidingCounter, "three words", &weir.Limit{Count: 1 << 40, Period: time.Second}),
		named(t, algorithm.LeakyQueue, "free", &weir.Limit{Count: 10, Period: time.Second,
			Params: params.Params{Free: 3, MaxDelay: 250 * time.Millisecond}}))
	return all
}

func named(t testing.TB, a weir.Algorithm, suffix string, l *weir.Limit) *weir.Limit {
	t.Helper()
	l.Name = a.Name() + " " + suffix
	l.Algorithm = a
	// Small sketches: the exact size is not what is tested.
	l.Sketch = params.SketchOptions{Width: 1 << 12, Depth: 4, BloomBits: 1 << 16, BloomHashes: 4}
	return compiled(t, l)
}

// perHour returns a limit that does not refill during a test.
func perHour(name, algorithmName string, count int64) *weir.Limit {
	const never = 1000 * time.Hour
	return &weir.Limit{Name: name, Algorithm: algorithm.ByName(algorithmName), Count: count, Period: never,
		Params: params.Params{Sketch: params.SketchOptions{Width: 1 << 12, Depth: 4, BloomBits: 1 << 16, BloomHashes: 4}}}
}

// serves reports whether the store under test can keep l. A store that cannot keep
// every limit says so by its Check.
func (s *suite) serves(l *weir.Limit) bool {
	c, ok := s.store.(interface{ Check(*weir.Limit) error })
	return !ok || c.Check(l) == nil
}

func exact(l *weir.Limit) bool { return l.Traits()&weir.Sketches == 0 }
