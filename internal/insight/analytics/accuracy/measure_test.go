package accuracy_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/insight/analytics/accuracy"
)

// naive measures one key by the definitions, in quadratic time and without any of
// the package's code.
type naive struct {
	falseAllowed, falseDenied, worst, across int64
}

// within sums what list has in (from, to].
func within(list [][2]int64, from, to int64) (sum int64) {
	for _, u := range list {
		if u[0] > from && u[0] <= to {
			sum += u[1]
		}
	}
	return sum
}

func measure(l accuracy.Limit, arrivals []accuracy.Arrival) (n naive) {
	var passed [][2]int64
	w := l.Period.Microseconds()
	for _, a := range arrivals {
		fits := within(passed, a.At-w, a.At)+a.Cost <= l.Allowance
		switch {
		case a.Admitted && !fits:
			n.falseAllowed++
		case !a.Admitted && fits:
			n.falseDenied++
		}
		if a.Admitted && a.Cost > 0 {
			passed = append(passed, [2]int64{a.At, a.Cost})
		}
	}
	for _, end := range passed {
		n.worst = max(n.worst, within(passed, end[0]-w, end[0]))
		edge := end[0] / w * w
		tenth := max(w/10, 1)
		if edge > end[0]-tenth && within(passed, end[0]-tenth, edge-1) > 0 {
			n.across = max(n.across, within(passed, end[0]-tenth, end[0]))
		}
	}
	return n
}

// made makes up arrivals of a key, with bursts, pauses and costs, and decisions
// that are often wrong.
func made(rng *rand.Rand, l accuracy.Limit) []accuracy.Arrival {
	at := int64(1_772_000_000_000_000) + rng.Int64N(l.Period.Microseconds())
	out := make([]accuracy.Arrival, 1+rng.IntN(150))
	mean := l.Period.Microseconds() / l.Allowance
	for i := range out {
		switch rng.IntN(6) {
		case 0: // at the same instant
		case 1:
			at += l.Period.Microseconds() / int64(1+rng.IntN(3))
		default:
			at += rng.Int64N(mean + 1)
		}
		out[i] = accuracy.Arrival{At: at, Cost: int64(rng.IntN(4)), Admitted: rng.IntN(3) > 0}
	}
	return out
}

func TestMeasureAgreesWithDefinitions(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 7))
		l := accuracy.Limit{Algorithm: algorithm.FixedWindow.Name(), Allowance: int64(1 + rng.IntN(30)), Period: time.Duration(1+rng.IntN(5000)) * time.Millisecond}
		m, err := accuracy.New(l)
		if err != nil {
			t.Fatal(err)
		}
		var want naive
		var decisions, admitted int64
		for range 3 {
			arrivals := made(rng, l)
			m.AddArrivals(arrivals)
			n := measure(l, arrivals)
			want.falseAllowed += n.falseAllowed
			want.falseDenied += n.falseDenied
			want.worst, want.across = max(want.worst, n.worst), max(want.across, n.across)
			for _, a := range arrivals {
				decisions++
				if a.Admitted {
					admitted++
				}
			}
		}
		r := m.Report()
		got := naive{r.FalseAllowed, r.FalseDenied, r.Worst, int64(math.Round(r.Boundary * float64(l.Allowance)))}
		if got != want || r.Decisions != decisions || r.Admitted != admitted || r.Keys != 3 {
			t.Fatalf("seed %d, limit %+v: got %+v of %d, want %+v of %d", seed, l, got, r.Decisions, want, decisions)
		}
		if over := float64(want.worst) / float64(l.Allowance); r.Overshoot != over {
			t.Fatalf("overshoot %v, want %v", r.Overshoot, over)
		}
	}
}

// surge makes arrivals that a limit of 10 in a second lets pass twice over, where
// windows meet.
func surge() []accuracy.Arrival {
	var out []accuracy.Arrival
	for i := range int64(10) {
		out = append(out, accuracy.Arrival{At: 1_999_999_950_000 + i, Cost: 1, Admitted: true})
	}
	for i := range int64(10) {
		out = append(out, accuracy.Arrival{At: 2_000_000_000_000 + i, Cost: 1, Admitted: true})
	}
	return out
}

// What is known of each algorithm shows: a fixed window lets twice as much pass at
// an edge, a sliding log is never wrong, strict sub-windows refuse early alone.
func TestCompare(t *testing.T) {
	l := accuracy.Limit{Algorithm: algorithm.FixedWindow.Name(), Allowance: 10, Period: time.Second}
	rng := rand.New(rand.NewPCG(1, 1))
	keys := [][]accuracy.Arrival{surge()}
	for range 20 {
		var one []accuracy.Arrival
		at := int64(3_000_000_000_000)
		for range 300 {
			at += rng.Int64N(120_000)
			one = append(one, accuracy.Arrival{At: at, Cost: 1})
		}
		keys = append(keys, one)
	}
	alternatives, err := accuracy.Compare(l, keys)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]accuracy.Alternative{}
	for _, a := range alternatives {
		by[a.Algorithm] = a
		if a.Unsupported != "" || a.Decisions != 20*300+20 || a.Admitted+a.Refused != a.Decisions || a.InUse != (a.Algorithm == l.Algorithm) {
			t.Errorf("%s: %+v", a.Algorithm, a)
		}
	}
	for _, a := range algorithm.All {
		name := a.Name()
		_, told := by[name]
		if left := name == algorithm.Concurrency.Name() || name == algorithm.Lockout.Name() || name == algorithm.Approximate.Name(); told == left {
			t.Errorf("%s is told of: %t", name, told)
		}
	}
	fixed, log, strict := by[algorithm.FixedWindow.Name()], by[algorithm.SlidingLog.Name()], by[algorithm.SlidingSubwindows.Name()]
	bucket, queue := by[algorithm.TokenBucket.Name()], by[algorithm.LeakyQueue.Name()]
	if fixed.Overshoot != 2 || fixed.Boundary != 2 || fixed.FalseAllowed == 0 {
		t.Errorf("a fixed window: %+v", fixed)
	}
	if log.FalseAllowed != 0 || log.FalseDenied != 0 || log.Overshoot > 1 {
		t.Errorf("a sliding log: %+v", log)
	}
	if strict.FalseAllowed != 0 || strict.FalseDenied == 0 || strict.Overshoot > 1 {
		t.Errorf("strict sub-windows: %+v", strict)
	}
	if bucket.Overshoot <= 1 || bucket.Overshoot > 2 {
		t.Errorf("a token bucket: %+v", bucket)
	}
	if queue.Delayed == 0 || queue.Overshoot > 1.1 || queue.PeakToMeanAdmitted >= fixed.PeakToMeanAdmitted || queue.LongestDelayMS > 1000 {
		t.Errorf("a leaky queue: %+v", queue)
	}
	if log.BytesPerKey != 8*12 || bucket.BytesPerKey != 8 || log.Operations != 1+float64(log.Admitted)/float64(log.Decisions) {
		t.Errorf("state: log %d, bucket %d bytes, %v operations", log.BytesPerKey, bucket.BytesPerKey, log.Operations)
	}
}

// A limit that is played as it is decides as the same algorithm did that decided
// first: nothing is wrong with the player.
func TestComparePlaysAsDecided(t *testing.T) {
	for _, a := range []weir.Algorithm{algorithm.TokenBucket, algorithm.SlidingWindow, algorithm.SlidingLog, algorithm.FixedWindow} {
		limit := &weir.Limit{Algorithm: a, Count: 7, Period: time.Second, Burst: 7}
		if err := limit.Compile(); err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(3, 3))
		cells := make([]int64, limit.Cells)
		var arrivals []accuracy.Arrival
		at := int64(1_772_000_000_000_000)
		for range 2000 {
			at += rng.Int64N(200_000)
			d := a.Step(cells, limit, weir.Ask{Now: at, Cost: 1})
			arrivals = append(arrivals, accuracy.Arrival{At: at, Cost: 1, Admitted: d.Allowed()})
		}
		l := accuracy.Limit{Algorithm: a.Name(), Allowance: 7, Period: time.Second, Burst: 7}
		m, err := accuracy.New(l)
		if err != nil {
			t.Fatal(err)
		}
		m.AddArrivals(arrivals)
		alternatives, err := accuracy.Compare(l, [][]accuracy.Arrival{arrivals})
		if err != nil {
			t.Fatal(err)
		}
		for _, alt := range alternatives {
			if alt.InUse && alt.Report != m.Report() {
				t.Errorf("%s: played %+v, decided %+v", alt.Algorithm, alt.Report, m.Report())
			}
		}
	}
}

// Peaks are told before and after, over all keys together.
func TestPeaks(t *testing.T) {
	m, err := accuracy.New(accuracy.Limit{Algorithm: algorithm.FixedWindow.Name(), Allowance: 5, Period: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	// Two keys: in the first second 20 and 10 units of which 5 each pass, in the
	// fourth 6 of one, of which 5 do. In between there is nothing.
	one, two := []accuracy.Arrival{}, []accuracy.Arrival{}
	for i := range int64(20) {
		one = append(one, accuracy.Arrival{At: 1e12 + i, Cost: 1, Admitted: i < 5})
		if i < 10 {
			two = append(two, accuracy.Arrival{At: 1e12 + i, Cost: 1, Admitted: i < 5})
		}
	}
	for i := range int64(6) {
		one = append(one, accuracy.Arrival{At: 1e12 + 3e6 + i, Cost: 1, Admitted: i < 5})
	}
	m.AddArrivals(one)
	m.AddArrivals(two)
	r := m.Report()
	if math.Abs(r.PeakToMean-30*4/36.) > 1e-9 || math.Abs(r.PeakToMeanAdmitted-10*4/15.) > 1e-9 {
		t.Errorf("peaks %v and %v", r.PeakToMean, r.PeakToMeanAdmitted)
	}
}

func TestLimitsThatCannotBeMeasured(t *testing.T) {
	for _, l := range []accuracy.Limit{{}, {Allowance: 1}, {Allowance: 1, Period: 20 * weir.MaxPeriod / 10}, {Allowance: -1, Period: time.Second}} {
		if _, err := accuracy.New(l); err == nil {
			t.Errorf("%+v is measured", l)
		}
		if _, err := accuracy.Compare(l, nil); err == nil {
			t.Errorf("%+v is compared", l)
		}
	}
	large := accuracy.Limit{Algorithm: algorithm.SlidingWindow.Name(), Allowance: 50_000, Period: time.Minute}
	alternatives, err := accuracy.Compare(large, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range alternatives {
		if (a.Unsupported != "") != (a.Algorithm == algorithm.SlidingLog.Name()) {
			t.Errorf("%s: unfit %q", a.Algorithm, a.Unsupported)
		}
	}
}
