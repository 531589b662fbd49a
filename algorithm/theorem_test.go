package algorithm_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/params"
)

// An envelope is a theorem about an algorithm: the most units that any
// half-open interval of length d, in microseconds, can see admitted.
type envelope struct {
	name  string
	limit *weir.Limit
	most  func(l *weir.Limit, d int64) int64
	// reached is the share of the envelope, in thousandths, that the traffic
	// below must fill in one period: an adversary that gets nowhere proves
	// nothing.
	reached int64
}

const theoremPeriod = 600 // microseconds

func envelopes() []envelope {
	const count, period = 100, theoremPeriod * time.Microsecond
	limit := func(a weir.Algorithm, p params.Params) *weir.Limit {
		return &weir.Limit{Algorithm: a, Count: count, Period: period, Params: p}
	}
	periods := func(d int64) int64 { return (d + theoremPeriod - 1) / theoremPeriod }
	once := func(l *weir.Limit, d int64) int64 { return l.Count * periods(d) }
	twice := func(l *weir.Limit, d int64) int64 { return l.Count * (periods(d) + 1) }
	even := func(l *weir.Limit, d int64) int64 { return l.Burst + d*l.Count/theoremPeriod }
	bursty := limit(algorithm.TokenBucket, params.Params{})
	bursty.Burst = 30
	// Let in, not departed: TestTheoremQueueDepartsEvenly is about that.
	queued := func(l *weir.Limit, d int64) int64 { return l.Burst + 1 + l.Free + d*l.Count/theoremPeriod }
	queue := func(free int64) *weir.Limit {
		l := limit(algorithm.LeakyQueue, params.Params{Free: free})
		l.Burst = 30
		return l
	}
	subwindows := func(form params.Form, precision int) *weir.Limit {
		return limit(algorithm.SlidingSubwindows, params.Params{Form: form, Precision: precision})
	}
	few := func(n int64) *weir.Limit {
		return &weir.Limit{Algorithm: algorithm.SlidingWindow, Count: n, Period: period}
	}
	return []envelope{
		{"token_bucket", bursty, even, 990},
		{"leaky_bucket", limit(algorithm.LeakyBucket, params.Params{}), even, 990},
		{"leaky_queue", queue(0), queued, 990},
		{"leaky_queue free", queue(5), queued, 990},
		{"fixed_window", limit(algorithm.FixedWindow, params.Params{}), twice, 1000},
		{"fixed_window phase", limit(algorithm.FixedWindow, params.Params{Phase: 7 * time.Microsecond}), twice, 1000},
		{"fixed_window first_request", limit(algorithm.FixedWindow, params.Params{Anchor: params.AnchorFirst}), twice, 995},
		{"sliding_window", limit(algorithm.SlidingWindow, params.Params{}), once, 1000},
		{"sliding_window few", few(20), once, 1000},
		{"sliding_window one", few(1), once, 1000},
		{"sliding_counter", limit(algorithm.SlidingCounter, params.Params{}), even, 980},
		{"sliding_subwindows", subwindows(params.Strict, 60), once, 1000},
		{"sliding_subwindows 7", subwindows(params.Strict, 7), once, 1000},
		{"sliding_subwindows weighted", subwindows(params.Weighted, 10), twice, 950},
		{"sliding_subwindows lenient", subwindows(params.Lenient, 10), twice, 1000},
		{"sliding_log", limit(algorithm.SlidingLog, params.Params{}), once, 1000},
		{"lockout", limit(algorithm.Lockout, params.Params{}), once, 1000},
	}
}

// admitted is what passed at an instant.
type admitted struct{ at, units int64 }

// mostIn returns the most units in any half-open interval of length d.
func mostIn(all []admitted, d int64) (most int64) {
	var sum int64
	from := 0
	for _, a := range all {
		sum += a.units
		for all[from].at <= a.at-d {
			sum -= all[from].units
			from++
		}
		most = max(most, sum)
	}
	return most
}

// TestTheoremEnvelope sends every algorithm the traffic that defeats the naive
// form of some other one, and checks its theorem on what was admitted, over
// intervals of many lengths.
func TestTheoremEnvelope(t *testing.T) {
	lives := 60
	if os.Getenv("WEIR_SOAK") != "" {
		lives = 2000
	} else if testing.Short() {
		lives = 15
	}
	for _, e := range envelopes() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			l := e.limit
			if err := l.Compile(); err != nil {
				t.Fatal(err)
			}
			if want := e.most(l, theoremPeriod); l.Envelope != want {
				t.Errorf("states an envelope of %d, the theorem says %d", l.Envelope, want)
			}
			var reached int64
			for life := range lives {
				all := attack(l, rand.New(rand.NewPCG(uint64(life), 1)), life%5)
				for _, d := range []int64{1, 7, 60, 299, 300, 599, 600, 601, 1200, 1807, 6000} {
					got, most := mostIn(all, d), e.most(l, d)
					if got > most {
						t.Fatalf("life %d: %d units admitted within %d of a period of %d, the theorem says %d",
							life, got, d, theoremPeriod, most)
					}
				}
				reached = max(reached, mostIn(all, theoremPeriod))
			}
			if want := l.Envelope * e.reached / 1000; reached < want {
				t.Errorf("the attack reached %d of %d in a period, want at least %d", reached, l.Envelope, want)
			}
		})
	}
}

// attack returns what one key got admitted. kinds of traffic: 0 saturates, 1
// fires all just before and after every edge of a window, 2 fires all before an
// edge and then every unit as it becomes free, 3 comes back exactly when told,
// 4 mixes all at random.
func attack(l *weir.Limit, r *rand.Rand, kind int) []admitted {
	cells := make([]int64, l.Cells)
	now := int64(1_700_000_000_000_000)
	now -= now % theoremPeriod
	var all []admitted
	take := func(n int64) weir.Decision {
		d := l.Algorithm.Step(cells, l, weir.Ask{Now: now, Cost: n})
		if d.Allowed() && n > 0 {
			all = append(all, admitted{now, n})
		}
		return d
	}
	everything := func() {
		if left := take(0).Remaining; left > 0 {
			take(left)
		}
	}
	// toEdge moves to d before the next multiple of step.
	toEdge := func(step, d int64) {
		now += step - now%step - d
	}
	for n := 0; n < 3000; n++ {
		do := kind
		if kind == 4 {
			do = r.IntN(4)
		}
		switch do {
		case 0:
			now += r.Int64N(3)
			take(1 + r.Int64N(3))
		case 1:
			toEdge(theoremPeriod, 1)
			everything()
			now += r.Int64N(2)
			everything()
			now += theoremPeriod - 2 - r.Int64N(3)
			everything()
		case 2:
			toEdge([]int64{theoremPeriod, theoremPeriod / 10}[n%2], 1)
			everything()
			for range theoremPeriod {
				now++
				everything()
			}
			now += int64(n%3) * theoremPeriod
			n += 100
		case 3:
			d := take(1 + r.Int64N(l.Count))
			now += micros.Of(max(d.RetryAfter, 0))
		}
	}
	return all
}

// TestTheoremSubwindowsSustain shows what the strict form costs: a saturating
// client gets precision/(precision+1) of the limit, and no less.
func TestTheoremSubwindowsSustain(t *testing.T) {
	for _, precision := range []int{2, 12, 60, 240} {
		l := &weir.Limit{Algorithm: algorithm.SlidingSubwindows, Count: 1000, Period: 240 * time.Millisecond,
			Params: params.Params{Precision: precision}}
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		cells := make([]int64, l.Cells)
		var got int64
		const periods = 20
		for now := int64(0); now < periods*240_000; now += 20 {
			if l.Algorithm.Step(cells, l, weir.Ask{Now: now, Cost: 1}).Allowed() {
				got++
			}
		}
		if want := periods * l.Count * int64(precision) / int64(precision+1); got < want || got > (periods+1)*l.Count {
			t.Errorf("precision %d: %d units in %d periods, want at least %d", precision, got, periods, want)
		}
	}
}

// TestTheoremQueueDepartsEvenly checks departures, arrivals plus delay, of a
// queue under random traffic: never closer than the rate, but for Free, and in
// the order of arrival.
func TestTheoremQueueDepartsEvenly(t *testing.T) {
	for _, free := range []int64{0, 5} {
		l := &weir.Limit{Algorithm: algorithm.LeakyQueue, Count: 7, Period: time.Millisecond, Burst: 40,
			Params: params.Params{Free: free}}
		if err := l.Compile(); err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(uint64(free), 2))
		cells := make([]int64, l.Cells)
		var now, refused int64
		var departures []admitted
		for range 20_000 {
			now += r.Int64N(200)
			if r.IntN(400) == 0 {
				now += 20_000
			}
			d := l.Algorithm.Step(cells, l, weir.Ask{Now: now, Cost: 1})
			if !d.Allowed() {
				refused++
				continue
			}
			delay := micros.Of(d.Delay(1))
			if longest := int64(40*1000+6) / 7; delay > longest {
				t.Fatalf("a delay of %d exceeds %d", delay, longest)
			}
			departures = append(departures, admitted{now + delay, 1})
		}
		if refused == 0 {
			t.Error("the queue was never full")
		}
		if !slices.IsSortedFunc(departures, func(a, b admitted) int { return int(a.at - b.at) }) {
			t.Error("departures are not in the order of arrival")
		}
		for _, d := range []int64{1, 142, 143, 1000, 5000, 60_000} {
			// Delays are told in whole microseconds: half an interval may look
			// one longer.
			most := ((d+1)*7+999)/1000 + free
			if got := mostIn(departures, d); got > most {
				t.Errorf("free %d: %d departures within %d, want at most %d", free, got, d, most)
			}
		}
	}
}

// TestTheoremConcurrencyNeverAbove has holders that release, renew, crash and
// come back, and counts who is inside.
func TestTheoremConcurrencyNeverAbove(t *testing.T) {
	l := &weir.Limit{Algorithm: algorithm.Concurrency, Count: 10, Period: time.Millisecond}
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 3))
	cells := make([]int64, l.Cells)
	inside := map[int64]admitted{} // until when, and how many units
	var now, peak int64
	for range 50_000 {
		now += r.Int64N(60)
		a := weir.Ask{Now: now, Cost: 1 + r.Int64N(4), ID: 1 + r.Int64N(30)}
		if r.IntN(3) == 0 {
			a.Verb = weir.Refund
		}
		d := l.Algorithm.Step(cells, l, a)
		switch {
		case a.Verb == weir.Refund:
			delete(inside, a.ID)
		case d.Allowed():
			inside[a.ID] = admitted{now + 1000, a.Cost}
		}
		var units int64
		for _, held := range inside {
			if held.at > now {
				units += held.units
			}
		}
		peak = max(peak, units)
		if units > l.Count || d.Remaining != l.Count-units {
			t.Fatalf("at %d: %d units inside, remaining %d", now, units, d.Remaining)
		}
	}
	if peak < l.Count {
		t.Errorf("never more than %d inside", peak)
	}
}
