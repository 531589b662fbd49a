package accuracy_test

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/insight/analytics/accuracy"
	"github.com/weirlimit/weir/store/memory"
)

// A replay decides each arrival as a limiter on the embedded store does that gets
// it at its time.
func TestReplayDecidesAsALimiter(t *testing.T) {
	replayed := 0
	for _, a := range algorithm.All {
		l := accuracy.Limit{Algorithm: a.Name(), Allowance: 20, Period: 10 * time.Second, Burst: 35}
		r, err := accuracy.NewReplay(l)
		if err != nil {
			continue
		}
		replayed++
		limit := &weir.Limit{Algorithm: a, Count: l.Allowance, Period: l.Period}
		if a == algorithm.TokenBucket || a == algorithm.LeakyBucket || a == algorithm.LeakyQueue {
			limit.Burst = l.Burst
		}
		rng := rand.New(rand.NewPCG(1, 2))
		var now atomic.Int64
		now.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMicro())
		store := memory.New(memory.Options{Now: now.Load})
		lim, err := weir.New(store, weir.Limits{limit}, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var arrivals, want []accuracy.Arrival
		for range 2000 {
			at := now.Add(rng.Int64N(700_000))
			one := accuracy.Arrival{At: at, Cost: 1 + rng.Int64N(3), Admitted: rng.IntN(2) == 0}
			arrivals = append(arrivals, one)
			d, err := lim.Take(context.Background(), "key", one.Cost)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, accuracy.Arrival{At: at, Cost: one.Cost, Admitted: d.Allowed(), Delay: d.Delay(one.Cost).Microseconds()})
		}
		refused := 0
		for i, got := range r.DecideKey(nil, arrivals) {
			if got != want[i] {
				t.Errorf("%s, arrival %d: %+v, a limiter says %+v", a.Name(), i, got, want[i])
				break
			}
			if !got.Admitted {
				refused++
			}
		}
		if refused == 0 || refused == len(arrivals) {
			t.Errorf("%s: %d refused, which shows nothing", a.Name(), refused)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if replayed < 6 {
		t.Errorf("%d algorithms can be replayed", replayed)
	}
}

func TestReplayRefuses(t *testing.T) {
	for _, l := range []accuracy.Limit{
		{Algorithm: "concurrency", Allowance: 1, Period: time.Minute}, {Algorithm: "approximate", Allowance: 1, Period: time.Minute},
		{Algorithm: "lockout", Allowance: 1, Period: time.Minute}, {Algorithm: "magic", Allowance: 1, Period: time.Minute},
		{Algorithm: "fixed_window", Period: time.Minute}, {Algorithm: "fixed_window", Allowance: 1},
	} {
		if _, err := accuracy.NewReplay(l); err == nil {
			t.Errorf("%+v is replayed", l)
		}
	}
}
