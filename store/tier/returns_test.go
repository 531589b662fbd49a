package tier_test

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/tier"
)

// What could not be given back before it would have flowed back anyway stays spent:
// given back to a bucket that has been full since, it would be there twice.
func TestLateReturnsStaySpent(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f := newFleet(t, 2, tier.Options{})
		l := compiled(t, &weir.Limit{Algorithm: algorithm.TokenBucket, Count: 400, Period: 40 * time.Second}, leased)
		w := newLoad(f, l)
		for range 75 {
			w.ask(f.nodes[0])
		}
		if f.nodes[0].Stats().LeaseUnits <= l.Inflow() {
			t.Fatal("no more is held than is kept back from the burst")
		}
		f.shared.set(down)
		other := compiled(t, weir.PerHour(100, algorithm.SlidingWindow), strict)
		for range 5 {
			f.take(f.nodes[0], "other", other, 1)
		}
		if !f.nodes[0].Stats().Away {
			t.Fatal("the store is not away")
		}
		time.Sleep(100 * time.Second)
		f.shared.set(none)
		for range 30 {
			for range 500 {
				w.ask(f.nodes[1])
			}
			time.Sleep(50 * time.Millisecond)
		}
		if w.over.Load() != 0 {
			t.Errorf("%d too many: %s", w.over.Load(), w)
		}
		if st := f.nodes[0].Stats(); st.Away || st.LeaseUnits != 0 || st.Returned != 0 {
			t.Errorf("what came too late was given back: %+v", st)
		}
	})
}
