package tier_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/store/tier"
)

// A key that comes once in a few seconds is lent a few units for as long as a
// hundredth of the period, and so does not ask the shared store each time.
func TestSeldomKeysAreLentAFew(t *testing.T) {
	for i, a := range lending {
		if testing.Short() && i%3 != 0 {
			continue // a bucket and a window
		}
		virtual(t, a.Name(), func(t *testing.T) {
			f := newFleet(t, 2, tier.Options{})
			w := newLoad(f, compiled(t, weir.PerHour(1000, a), leased))
			for range 200 {
				w.ask(f.nodes[0])
				if n := f.nodes[0].Stats().LeaseUnits; n > 16+4 {
					t.Fatalf("%d units are held", n)
				}
				time.Sleep(3 * time.Second)
			}
			if w.admitted.Load() != 200 || f.nodes[0].Stats().Fetched > 200/4 {
				t.Errorf("%s", w)
			}
			time.Sleep(40 * time.Second)
			if st := f.nodes[0].Stats(); st.LeaseUnits != 0 || st.LeaseKeys != 0 || st.Stranded != 0 {
				t.Errorf("after the lease: %+v", st)
			}
		})
	}
}

// A lot that is fetched while the one before has units left does not make them many.
func TestSeldomKeysKeepTwoLots(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		f := newFleet(t, 1, tier.Options{})
		w := newLoad(f, compiled(t, weir.PerDay(1_000_000, algorithm.TokenBucket), leased))
		for range 200 {
			w.ask(f.nodes[0])
			time.Sleep(2 * time.Second)
		}
		if st := f.nodes[0].Stats(); w.admitted.Load() != 200 || st.Fetched > 200/8 || st.Returned != 0 {
			t.Errorf("%s", w)
		}
	})
}

// What is lent to nodes that a key comes to seldom is not missing where the limit is
// reached: it is little, and less as less remains.
func TestSeldomKeysUseTheirLimit(t *testing.T) {
	for _, a := range []weir.Algorithm{algorithm.TokenBucket, algorithm.SlidingWindow} {
		virtual(t, a.Name(), func(t *testing.T) {
			f := newFleet(t, 4, tier.Options{})
			period := 20 * time.Minute
			if testing.Short() {
				period /= 4
			}
			w := newLoad(f, compiled(t, &weir.Limit{Algorithm: a, Count: 300, Period: period}, leased))
			for i := range 1800 {
				w.ask(f.nodes[i%4])
				time.Sleep(period / 1200)
			}
			if n, could := float64(w.admitted.Load()), could(w.limit, period*3/2); n < 0.97*could || w.over.Load() > 0 {
				t.Errorf("of %.0f: %s", could, w)
			}
		})
	}
}

// Many units live no longer than a second beside few that do, and are not hidden by
// them.
func TestManyUnitsAreReturnedSoon(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		f := newFleet(t, 1, tier.Options{})
		s := f.nodes[0]
		l := compiled(t, weir.PerHour(100_000, algorithm.TokenBucket), leased)
		const keys = 1000 // enough that there are some beside any other
		for range 3 {
			for k := range keys {
				f.take(s, fmt.Sprint("seldom", k), l, 1)
			}
			time.Sleep(3 * time.Second)
		}
		few := s.Stats().LeaseUnits
		for range 200 {
			f.take(s, "often", l, 1)
		}
		if n := s.Stats().LeaseUnits; few < keys || few > 16*keys || n < few+100 {
			t.Fatalf("%d units are held, %d of them by keys that come seldom", n, few)
		}
		time.Sleep(1200 * time.Millisecond)
		if st := s.Stats(); st.LeaseUnits != few || st.LeaseKeys != keys {
			t.Errorf("after a second %d units are held of %d keys, want %d of %d", st.LeaseUnits, st.LeaseKeys, few, keys)
		}
	})
}

// What is held under a limit that was changed is not spent for as long as it was lent:
// soon the new limit holds for all.
func TestReloadEndsLongLeases(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		f := newFleet(t, 1, tier.Options{})
		s := f.nodes[0]
		hourly := func(count int64) *weir.Limit {
			return compiled(t, &weir.Limit{Name: "hourly", Algorithm: algorithm.FixedWindow, Count: count, Period: time.Hour}, leased)
		}
		was, is := hourly(1000), hourly(100)
		for range 5 {
			f.take(s, "k", was, 1)
			time.Sleep(3 * time.Second)
		}
		fetched := s.Stats().Fetched
		if n := s.Stats().LeaseUnits; n < 2 {
			t.Fatalf("%d units are held", n)
		}
		f.take(s, "k", is, 1)
		if n := s.Stats().Fetched; n != fetched {
			t.Errorf("%d fetches more at once", n-fetched)
		}
		time.Sleep(1200 * time.Millisecond)
		f.take(s, "k", is, 1)
		if n := s.Stats().Fetched; n != fetched+1 {
			t.Errorf("%d fetches more after a second", n-fetched)
		}
	})
}

// Leases that the rules give a time live for all of it, whatever they hold.
func TestLeaseTTLThatIsSetHolds(t *testing.T) {
	virtual(t, "", func(t *testing.T) {
		f := newFleet(t, 1, tier.Options{})
		l := compiled(t, weir.PerHour(100_000, algorithm.FixedWindow), func(l *weir.Limit) {
			leased(l)
			l.Consistency.LeaseTTL = 10 * time.Second
		})
		for range 200 {
			f.take(f.nodes[0], "k", l, 1)
		}
		held := f.nodes[0].Stats().LeaseUnits
		time.Sleep(9 * time.Second)
		if n := f.nodes[0].Stats().LeaseUnits; held < 100 || n != held {
			t.Errorf("%d of %d units are held after nine seconds", n, held)
		}
		time.Sleep(1200 * time.Millisecond)
		if n := f.nodes[0].Stats().LeaseUnits; n != 0 {
			t.Errorf("%d of %d units are held after ten", n, held)
		}
	})
}
