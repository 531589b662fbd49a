package shed_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/shed"
)

func newShedder(t testing.TB, o shed.Options) *shed.Shedder {
	t.Helper()
	s, err := shed.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func onNode(limit int64, shares ...int) shed.Options {
	o := shed.Options{InFlight: shed.InFlightOptions{Limit: limit}}
	if len(shares) == 4 {
		o.InFlight.Shares = shed.Shares{Critical: shed.Percent(shares[0]), Default: shed.Percent(shares[1]),
			Sheddable: shed.Percent(shares[2]), Background: shed.Percent(shares[3])}
	}
	return o
}

// under returns how many requests are under way, by the state.
func under(s *shed.Shedder) (places, over int64) {
	l := s.State().Limiters[3]
	return *l.InFlight, *l.ShadowInFlight
}

func set(t testing.TB, s *shed.Shedder, pairs ...string) {
	t.Helper()
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	if err := s.Set(m); err != nil {
		t.Fatal(err)
	}
}

// threshold is how many of limit a share is, found by trying.
func threshold(limit int64, share int) int64 {
	if share == 0 {
		return 0
	}
	n := int64(1)
	for (n+1)*100 <= limit*int64(share) {
		n++
	}
	return n
}

// TestThresholds tries every number of requests under way, for every class and
// many limits and shares.
func TestThresholds(t *testing.T) {
	some := []int{0, 1, 33, 50, 75, 90, 100}
	tried := 0
	for limit := int64(1); limit <= 30; limit++ {
		for a, critical := range some {
			for b, normal := range some[:a+1] {
				for c, sheddable := range some[:b+1] {
					for _, background := range some[:c+1] {
						shares := []int{critical, normal, sheddable, background}
						tryThresholds(t, limit, shares)
						tried++
					}
				}
			}
		}
	}
	if tried != 30*210 {
		t.Errorf("%d cases", tried)
	}
}

func tryThresholds(t *testing.T, limit int64, shares []int) {
	t.Helper()
	s := newShedder(t, onNode(limit, shares...))
	var held [30]shed.Slot
	for n := int64(0); ; n++ {
		for class, share := range shares {
			var p shed.Slot
			got, want := s.Enter(&p, shed.Priority(class)), n < threshold(limit, share)
			if got != want {
				t.Fatalf("limit %d shares %d: class %d enters with %d under way: %t, want %t", limit, shares, class, n, got, want)
			}
			p.Leave()
		}
		if n == limit || !s.Enter(&held[n], shed.Critical) {
			return
		}
	}
}

func TestThresholdsOfThePreset(t *testing.T) {
	for _, c := range newShedder(t, onNode(1000)).State().Limiters[3].Classes {
		if want := map[string]int64{"critical": 1000, "default": 900, "sheddable": 750, "background": 500}[c.Class]; *c.Threshold != want {
			t.Errorf("%s: %d, want %d", c.Class, *c.Threshold, want)
		}
	}
	// The largest limit does not overflow.
	if got := *newShedder(t, onNode(1<<20)).State().Limiters[3].Classes[1].Threshold; got != 943718 {
		t.Errorf("got %d", got)
	}
}

// TestInFlightOracle holds random requests against a model that is a list of
// who is inside, through every mode and changed limits.
func TestInFlightOracle(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 50 {
		limit := 1 + rnd.Int64N(40)
		s := newShedder(t, onNode(limit))
		mode, off := "enforce", false
		var inside []*shed.Slot
		counted := map[*shed.Slot]bool{} // those that are not a shadow's excess
		var refused, shadowed, allowed [4]uint64
		for step := range 2000 {
			switch k := rnd.IntN(100); {
			case k == 0:
				mode = []string{"enforce", "shadow", "off"}[rnd.IntN(3)]
				set(t, s, "in_flight", mode)
			case k == 1:
				off = !off
				set(t, s, "off", fmt.Sprint(off))
			case k == 2:
				limit = 1 + rnd.Int64N(40)
				set(t, s, "in_flight.limit", fmt.Sprint(limit))
			case k < 45 && len(inside) > 0:
				i := rnd.IntN(len(inside))
				p := inside[i]
				p.Leave()
				p.Leave()
				delete(counted, p)
				inside = slices.Delete(inside, i, i+1)
			default:
				c := rnd.IntN(4)
				room := int64(len(counted)) < threshold(limit, []int{100, 90, 75, 50}[c])
				p := new(shed.Slot)
				got := s.Enter(p, shed.Priority(c))
				effective := mode
				if off {
					effective = "off"
				}
				if want := room || effective != "enforce"; got != want {
					t.Fatalf("round %d step %d: class %d enters %s with %d of %d: %t", round, step, c, effective, len(counted), limit, got)
				}
				switch {
				case effective == "off":
				case room:
					allowed[c]++
				case effective == "shadow":
					shadowed[c]++
				default:
					refused[c]++
				}
				if got {
					inside = append(inside, p)
					if room || effective == "off" {
						counted[p] = true
					}
				}
			}
			places, over := under(s)
			if int(places) != len(counted) || int(over) != len(inside)-len(counted) {
				t.Fatalf("round %d step %d: %d and %d over are under way, want %d and %d", round, step, places, over, len(counted), len(inside)-len(counted))
			}
		}
		for c, st := range s.State().Limiters[3].Classes {
			if st.Allowed != allowed[c] || st.Refused != refused[c] || st.ShadowRefused != shadowed[c] {
				t.Errorf("%s: %+v, want %d %d %d", st.Class, st, allowed[c], refused[c], shadowed[c])
			}
		}
	}
}

// TestInFlightUnderContention: at no time are more of a class inside than its
// threshold, every answer is counted, and all places come back.
func TestInFlightUnderContention(t *testing.T) {
	const workers, rounds, limit = 64, 3000, 20
	run := func(name string, classOf func(worker int) shed.Priority, most int64) {
		s := newShedder(t, onNode(limit))
		var inside, highest atomic.Int64
		var asked, passed [4]atomic.Uint64
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				c := classOf(w)
				var p shed.Slot
				for range rounds {
					asked[c].Add(1)
					if !s.Enter(&p, c) {
						continue
					}
					passed[c].Add(1)
					n := inside.Add(1)
					for h := highest.Load(); n > h && !highest.CompareAndSwap(h, n); h = highest.Load() {
					}
					runtime.Gosched() // so that others find it inside
					inside.Add(-1)
					// Two leave at once; one of them counts.
					var two sync.WaitGroup
					if w%8 == 0 {
						two.Go(p.Leave)
					}
					p.Leave()
					two.Wait()
				}
			})
		}
		wg.Wait()
		if h := highest.Load(); h > most {
			t.Errorf("%s: %d were inside, %d may be", name, h, most)
		}
		if places, over := under(s); places != 0 || over != 0 {
			t.Errorf("%s: %d and %d places were not given back", name, places, over)
		}
		for c, st := range s.State().Limiters[3].Classes {
			if st.Allowed != passed[c].Load() || st.Allowed+st.Refused != asked[c].Load() {
				t.Errorf("%s: %s: counted %+v, passed %d of %d", name, st.Class, st, passed[c].Load(), asked[c].Load())
			}
		}
	}
	run("mixed", func(w int) shed.Priority { return shed.Priority(w % 4) }, 20)
	run("default", func(int) shed.Priority { return shed.Default }, 18)
	run("background", func(int) shed.Priority { return shed.Background }, 10)
}

// TestRefusedHoldNothing: however many background requests are being refused,
// the places above theirs are there for critical ones.
func TestRefusedHoldNothing(t *testing.T) {
	s := newShedder(t, onNode(16, 100, 50, 50, 50))
	var below [8]shed.Slot
	for i := range below {
		if !s.Enter(&below[i], shed.Background) {
			t.Fatal("refused below the threshold")
		}
	}
	var done atomic.Bool
	var turned atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var p shed.Slot
			for !done.Load() {
				if s.Enter(&p, shed.Background) {
					t.Error("a background request entered above its threshold")
					return
				}
				turned.Add(1)
			}
		})
	}
	var above [8]shed.Slot
	refused := 0
	for round := 0; round < 20_000 || turned.Load() < 1_500_000; round++ {
		for i := range above {
			if !s.Enter(&above[i], shed.Critical) {
				refused++
			}
		}
		for i := range above {
			above[i].Leave()
		}
	}
	done.Store(true)
	wg.Wait()
	if refused > 0 {
		t.Errorf("%d critical requests were refused with room for them", refused)
	}
}

// TestSwitchingUnderContention throws every switch while requests come and go.
func TestSwitchingUnderContention(t *testing.T) {
	s := newShedder(t, onNode(10))
	var done atomic.Bool
	var wg, switches sync.WaitGroup
	switches.Go(func() {
		rnd := rand.New(rand.NewPCG(3, 4))
		for !done.Load() {
			mode := []string{"enforce", "shadow", "off"}[rnd.IntN(3)]
			if err := s.Set(map[string]string{"off": fmt.Sprint(rnd.IntN(3) == 0), "in_flight": mode, "in_flight.limit": fmt.Sprint(1 + rnd.IntN(30))}); err != nil {
				t.Error(err)
				return
			}
			_ = s.State()
		}
	})
	for w := range 64 {
		wg.Go(func() {
			var held [3]shed.Slot
			for i := range 2000 {
				p := &held[i%len(held)]
				p.Leave()
				s.Enter(p, shed.Priority(w%4))
			}
			for i := range held {
				held[i].Leave()
			}
		})
	}
	wg.Wait()
	done.Store(true)
	switches.Wait()
	if places, over := under(s); places != 0 || over != 0 {
		t.Errorf("%d and %d places were not given back", places, over)
	}
}

// TestShadowCountsWhatEnforcingRefuses plays the same arrivals to both.
func TestShadowCountsWhatEnforcingRefuses(t *testing.T) {
	play := func(mode shed.Mode) (out [4][2]uint64) {
		o := onNode(20)
		o.InFlight.Mode = mode
		s := newShedder(t, o)
		rnd := rand.New(rand.NewPCG(5, 6))
		ends := map[int][]*shed.Slot{}
		for now := range 20_000 {
			for _, p := range ends[now] {
				p.Leave()
			}
			for range rnd.IntN(3) {
				c, takes := rnd.IntN(4), 1+rnd.IntN(40)
				p := new(shed.Slot)
				if s.Enter(p, shed.Priority(c)) {
					ends[now+takes] = append(ends[now+takes], p)
				} else if mode == shed.Shadow {
					t.Fatal("a shadow refused")
				}
			}
		}
		for c, st := range s.State().Limiters[3].Classes {
			out[c] = [2]uint64{st.Allowed, st.Refused + st.ShadowRefused}
			if mode == shed.Shadow && st.Refused > 0 || mode == shed.Enforce && st.ShadowRefused > 0 {
				t.Errorf("%s: %+v", mode, st)
			}
		}
		return out
	}
	enforced, shadowed := play(shed.Enforce), play(shed.Shadow)
	if enforced != shadowed || enforced[0][1] == 0 || enforced[3][1] < 2*enforced[0][1] {
		t.Errorf("enforced: %v, shadowed: %v", enforced, shadowed)
	}
}

func TestEnterTwiceTakesOnePlace(t *testing.T) {
	s := newShedder(t, onNode(1))
	var p, q shed.Slot
	q.Leave() // never entered
	for range 2 {
		if !s.Enter(&p, shed.Critical) {
			t.Error("a held place is not kept")
		}
	}
	if s.Enter(&q, shed.Critical) {
		t.Error("the one place is taken twice")
	}
	p.Leave()
	if !s.Enter(&q, shed.Critical) {
		t.Error("the place was not given back")
	}
	p.Leave()
	if places, _ := under(s); places != 1 {
		t.Errorf("%d under way, want 1", places)
	}
}

func TestPriorityOutOfRange(t *testing.T) {
	s := newShedder(t, onNode(10, 100, 50, 50, 0))
	var p, q shed.Slot
	if !s.Enter(&p, -5) || s.Enter(&q, 1000) {
		t.Error("below 0 is critical, above 3 is background")
	}
}

func TestEnterDoesNotAllocate(t *testing.T) {
	for _, mode := range []shed.Mode{shed.Enforce, shed.Shadow, shed.Off} {
		o := onNode(1)
		o.InFlight.Mode = mode
		s := newShedder(t, o)
		var p, q shed.Slot
		if n := testing.AllocsPerRun(1000, func() {
			s.Enter(&p, shed.Critical)
			s.Enter(&q, shed.Background)
			q.Leave()
			p.Leave()
		}); n != 0 {
			t.Errorf("%s: %v allocations", mode, n)
		}
	}
}
