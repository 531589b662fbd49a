package sketch_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/internal/sketch"
)

// The theorem, on random traffic: never more than the limit in any period, never
// an estimate below the truth, and every word of each decision true.
func TestWindowNeverAdmitsMoreThanTheLimit(t *testing.T) {
	f := func(seed uint64, o sketch.WindowOptions, keys uint64, limit, maxStep, maxCost int64) {
		t.Helper()
		w := window(t, o)
		l := newLedger(w, o.Period)
		r := rand.New(rand.NewPCG(seed, 7))
		z := zipf(seed, keys)
		now := int64(1_700_000_000) * second
		refused, reached := 0, false
		for range 20_000 {
			now += r.Int64N(maxStep)
			if r.IntN(500) == 0 {
				now -= r.Int64N(2 * o.Period)
			}
			h := hash(z.Uint64())
			cost := 1 + r.Int64N(maxCost)
			at := l.tick(h, now)
			before := w.Estimate(h, now)
			if used := l.used(h, at); before < used {
				t.Fatalf("seed %d: estimate %d below the %d units of the last period", seed, before, used)
			}
			d := w.Spend(h, now, cost, limit)
			if d.Allowed != (before+cost <= limit) {
				t.Fatalf("seed %d: estimate %d, cost %d, limit %d: allowed %v", seed, before, cost, limit, d.Allowed)
			}
			if d.Allowed {
				l.add(h, now, cost)
			} else {
				refused++
				if after := w.Estimate(h, now); after != before {
					t.Fatalf("seed %d: a refusal moved the estimate from %d to %d", seed, before, after)
				}
			}
			checkDecision(t, w, h, now, cost, limit, d)
		}
		for h := range l.entries {
			most := l.most(h)
			if most > limit {
				t.Fatalf("seed %d: %d units admitted in one period, limit %d", seed, most, limit)
			}
			reached = reached || most == limit
		}
		if refused == 0 || !reached {
			t.Errorf("seed %d: %d refusals, limit reached: %v: the traffic tests nothing", seed, refused, reached)
		}
	}
	for seed := range uint64(4) {
		f(seed, roomy(second, 4), 50, 10, second/40, 1)
		f(seed, roomy(second+3, 7), 50, 30, second/40, 9)
		f(seed, roomy(5, 4), 20, 3, 2, 1) // sub-windows of 2 µs
		f(seed, roomy(2, 8), 10, 3, 2, 2) // of 1 µs: fewer than asked for
		f(seed, roomy(second, 1), 50, 10, second/20, 3)
		f(seed, crowded(second, 4), 60, 40, second/40, 1)
		f(seed, crowded(60*second, 60), 60, 60, second, 5)
	}
}

// Bursts as close as they can be on both sides of every boundary, the traffic
// that passes twice the limit through a fixed window and nearly so through a
// weighted one.
func TestWindowBoundaryAdversary(t *testing.T) {
	const limit, subWindows = 100, 4
	for offset := int64(-3); offset <= 3; offset++ {
		for gap := int64(1); gap <= subWindows+2; gap++ {
			w := window(t, roomy(second, subWindows))
			l := newLedger(w, second)
			h := hash(1)
			for i := range int64(60) {
				boundary := 1000*second + i*gap*second/subWindows
				for _, at := range []int64{boundary - 1, boundary, boundary + offset} {
					for _, cost := range []int64{7, 1} {
						for range limit/cost + 1 {
							if w.Spend(h, at, cost, limit).Allowed {
								l.add(h, at, cost)
							}
						}
					}
				}
			}
			if most := l.most(h); most != limit {
				t.Errorf("gap %d, offset %d: %d units in one period, want the limit of %d and no more", gap, offset, most, limit)
			}
		}
	}
}

// A key alone in the sketch gets all that the strict form promises, whatever it
// asks for in excess.
func TestWindowSustainedRate(t *testing.T) {
	f := func(subWindows int, period, step int64) {
		t.Helper()
		const limit, cycles = 60, 40
		w := window(t, roomy(period, subWindows))
		m := int64(subWindows)
		cycle := (m + 1) * ((period + m - 1) / m)
		admitted := int64(0)
		for now := cycle * 1000; now < cycle*(1000+cycles); now += step {
			if w.Spend(hash(1), now, 1, limit).Allowed {
				admitted++
			}
		}
		if admitted != limit*cycles {
			t.Errorf("m %d: %d units in %d cycles of %d µs, want %d", subWindows, admitted, cycles, cycle, limit*cycles)
		}
		if floor := float64(limit) * float64(cycles*cycle) / float64(period) * float64(m) / float64(m+1); period%m == 0 && float64(admitted) < floor {
			t.Errorf("m %d: %d units, below m/(m+1) of the limit, %.0f", subWindows, admitted, floor)
		}
	}
	f(4, second, 2000)
	f(1, second, 2000)
	f(12, second, 2000)
	f(7, second, 1999)
}

func TestWindowClockBack(t *testing.T) {
	w := window(t, roomy(second, 4))
	h := hash(1)
	now := 1000 * second
	w.Spend(h, now, 6, 10)
	d := w.Spend(h, now-500*second, 4, 10)
	if !d.Allowed || d.Remaining != 0 {
		t.Errorf("after the clock went back: %+v, want the 4 that are left and no more", d)
	}
	d = w.Spend(h, 0, 1, 10)
	if d.Allowed || d.RetryAfter != now+second+second/4 {
		t.Errorf("at time 0: %+v, want a refusal until %d", d, now+second+second/4)
	}
	if e := w.Estimate(h, now+second); e != 10 {
		t.Errorf("what was spent on the old clock counts %d on the new, want 10", e)
	}
	if d = w.Spend(h, now+second+second/4, 10, 10); !d.Allowed {
		t.Errorf("after a period: %+v", d)
	}
}

func TestWindowEdges(t *testing.T) {
	const lo, hi = math.MinInt64, math.MaxInt64
	h := hash(5)
	for _, period := range []int64{1, 3, second, 400 * 86400 * second, hi - 1, hi} {
		for _, now := range []int64{lo, lo + 1, -1, 0, 1, 1_700_000_000 * second, hi - 1, hi} {
			for _, limit := range []int64{lo, -1, 0, 1, 100, hi} {
				for _, cost := range []int64{lo, -1, 0, 1, 2, 101, hi} {
					w := window(t, sketch.WindowOptions{Period: period, Width: 16, Shards: 1, BloomBits: 64, SampleEvery: 1})
					d := w.Spend(h, now, cost, limit)
					if want := cost <= 0 || cost <= limit; d.Allowed != want {
						t.Fatalf("period %d, now %d, cost %d, limit %d: %+v", period, now, cost, limit, d)
					}
					if d.Remaining < 0 || d.ResetAfter < 0 || (d.RetryAfter < 0 && d.RetryAfter != sketch.Never) {
						t.Fatalf("period %d, now %d, cost %d, limit %d: %+v", period, now, cost, limit, d)
					}
					e := w.Estimate(h, now)
					if d.Allowed && e < cost || !d.Allowed && e != 0 || cost <= 0 && e != 0 {
						t.Fatalf("period %d, now %d, cost %d, limit %d: estimate %d", period, now, cost, limit, e)
					}
					if d.Allowed && cost > 0 && d.ResetAfter == 0 {
						t.Fatalf("period %d, now %d, cost %d: spent and reset at once", period, now, cost)
					}
					if w.Spend(h, now, 1, cost).Allowed && cost > 0 && d.Allowed {
						t.Fatalf("period %d, now %d: a cost of %d filled a limit of as many, and one more passed", period, now, cost)
					}
					w.Force(h, now, hi, limit)
					w.Force(h, now, hi, limit)
					if w.Spend(h, now, 1, hi).Allowed || w.Estimate(h, now) != hi {
						t.Fatalf("period %d, now %d: a full window admits", period, now)
					}
					w.Stats(now)
					w.Spend(h, lo, 1, hi)
					w.Spend(h, hi, 1, hi)
					w.Stats(lo)
					w.Stats(hi)
				}
			}
		}
	}
}

// Generations at the ends of time still count and still leave.
func TestWindowFarTimes(t *testing.T) {
	f := func(now, later int64, want bool) {
		t.Helper()
		w := window(t, roomy(second, 4))
		if !w.Spend(1, now, 3, 3).Allowed {
			t.Errorf("at %d: the first cost was refused", now)
		}
		if got := w.Spend(1, later, 1, 3).Allowed; got != want {
			t.Errorf("spent at %d: allowed %v at %d", now, got, later)
		}
	}
	f(math.MinInt64, math.MinInt64+second, false)
	f(math.MinInt64, math.MinInt64+2*second, true)
	f(math.MinInt64, math.MaxInt64, true)
	f(-second, -1, false)
	f(-1, 0, false)
	f(-second-1, second/4-1, true)
	f(math.MaxInt64-second, math.MaxInt64, false)
	f(math.MaxInt64-2*second, math.MaxInt64, true)
}

func TestWindowForce(t *testing.T) {
	w := window(t, roomy(second, 4))
	h, now := hash(1), 100*second
	w.Spend(h, now, 10, 10)
	if d := w.Force(h, now, 5, 10); !d.Allowed || d.Remaining != 0 {
		t.Errorf("Force above the limit: %+v", d)
	}
	if e := w.Estimate(h, now); e != 15 {
		t.Errorf("estimate %d after Force, want 15", e)
	}
	w.Force(h, now, -3, 10)
	if e := w.Estimate(h, now); e != 15 {
		t.Errorf("estimate %d after Force of less than nothing, want 15", e)
	}
	w.Force(h, now+second/2, 4, 10)
	if e := w.Estimate(h, now+second/2); e != 19 {
		t.Errorf("estimate %d after Force in a later generation, want 19", e)
	}
	if e := w.Estimate(h, now+second+second/4); e != 4 {
		t.Errorf("estimate %d after the first generation left, want 4", e)
	}
}

// A peek changes nothing: with and without peeks between, the same decisions.
func TestWindowPeekChangesNothing(t *testing.T) {
	a, b := window(t, crowded(second, 4)), window(t, crowded(second, 4))
	r := rand.New(rand.NewPCG(1, 1))
	now := second
	for range 20_000 {
		now += r.Int64N(second / 50)
		h, cost := hash(r.Uint64N(100)), r.Int64N(4)
		for range 3 {
			h, at := hash(r.Uint64N(200)), now+r.Int64N(3*second)
			b.Peek(h, at, r.Int64N(50), 40)
			b.Estimate(h, at)
			b.Spend(h, now, 0, 40)
		}
		peeked := b.Peek(h, now, cost, 40)
		d := a.Spend(h, now, cost, 40)
		if got := b.Spend(h, now, cost, 40); got != d {
			t.Fatalf("with peeks %+v, without %+v", got, d)
		}
		if peeked.Allowed != d.Allowed || !d.Allowed && peeked != d {
			t.Fatalf("peek said %+v, spend %+v", peeked, d)
		}
	}
}

// Keys seen once live in the Bloom filter alone; the first cost of a key is
// exact, whatever its size.
func TestWindowFirstUnitsUseNoCounter(t *testing.T) {
	o := roomy(second, 4)
	w := window(t, o)
	for key := range uint64(2000) {
		w.Spend(hash(key), second, 1, 10)
	}
	st := w.Stats(second)
	if st.Units != 2000 || st.CounterUnits > 2 || st.CounterFill > 0.002 {
		t.Errorf("2000 keys seen once: %d units, of them %d in counters, fill %v", st.Units, st.CounterUnits, st.CounterFill)
	}
	if d := w.Spend(hash(1<<40), second, 7, 10); d.Remaining != 3 {
		t.Errorf("a first cost of 7 of 10: %+v", d)
	}
	if st = w.Stats(second); st.Units != 2007 || st.CounterUnits < 6 || st.CounterUnits > 9 {
		t.Errorf("a first cost of 7: %d units, of them %d in counters", st.Units, st.CounterUnits)
	}
}

// One counter for all keys makes every sum of the rules visible.
func TestWindowOneCounter(t *testing.T) {
	w := window(t, sketch.WindowOptions{Period: second, Depth: 1, Width: 1, Shards: 1, SampleEvery: 1})
	f := func(h uint64, want int64) {
		t.Helper()
		if got := w.Estimate(h, second); got != want {
			t.Errorf("estimate %d, want %d", got, want)
		}
	}
	a, b, c, d := hash(1), hash(2), hash(3), hash(4)
	w.Force(a, second, 21, 100)
	f(a, 21) // 20 in the counter
	f(b, 0)
	w.Spend(b, second, 1, 100)
	f(b, 21) // its one unit and the counter
	w.Spend(c, second, 5, 100)
	f(c, 21) // the counter holds more than its four already
	w.Spend(c, second, 2, 100)
	f(c, 23) // now its units cannot be told from the others
	w.Force(d, second, 5, 100)
	f(d, 23)

	st := w.Stats(second)
	if st.Units != 21+1+5+2+5 || st.CounterUnits != 20+0+4+2+4 {
		t.Errorf("%d units, %d in the counter, want 34 and 30", st.Units, st.CounterUnits)
	}
	if want := math.E*30 + 1; math.Abs(st.Bound-want) > 1e-9 || math.Abs(st.BoundFailure-1/math.E) > 1e-9 {
		t.Errorf("bound %v missed %v, want %v and 1/e", st.Bound, st.BoundFailure, want)
	}
	// a 23-21, b 23-1, c 23-7, d 23-5
	if st.Sampled != 4 || st.Overestimated != 4 || st.MaxError != 22 || st.MeanError != (2+22+16+18)/4.0 {
		t.Errorf("measured %+v", st)
	}
	w.Force(a, second, 7, 100)
	if st = w.Stats(second); st.Units != 34+7 || st.CounterUnits != 30+7 {
		t.Errorf("forced by 7: %d units, %d in the counter", st.Units, st.CounterUnits)
	}
}

// An idle stretch empties each generation that it passes, and no other.
func TestWindowSkipsGenerations(t *testing.T) {
	for skip := range int64(12) {
		w := window(t, roomy(second, 4))
		for g := range int64(5) {
			w.Spend(hash(1), g*second/4, 10, 1000)
		}
		now := (4 + skip) * second / 4
		want := 10*max(5-skip, 0) + 1
		w.Spend(hash(1), now, 1, 1000)
		if st := w.Stats(now); st.Units != want || w.Estimate(hash(1), now) != want {
			t.Errorf("%d generations on: %d units, estimate %d, want %d", skip, st.Units, w.Estimate(hash(1), now), want)
		}
	}
}

// A key that shares its cells with others does so for one generation only.
func TestWindowChangesPositions(t *testing.T) {
	w := window(t, crowded(second, 4))
	var errors [2][40]int64
	for round := range errors {
		now := int64(round) * 10 * second
		for key := range uint64(40) {
			w.Force(hash(key), now, int64(key)+1, 1)
		}
		for key := range uint64(40) {
			errors[round][key] = w.Estimate(hash(key), now) - int64(key) - 1
		}
	}
	if errors[0] == errors[1] || errors[0] == [40]int64{} {
		t.Errorf("the same traffic erred by %v and, in another generation, by %v", errors[0], errors[1])
	}
}

func TestWindowConcurrent(t *testing.T) {
	const limit, workers, keys = 1000, 8, 4
	w := window(t, roomy(second, 4))
	var admitted [keys]atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range 4 * limit {
				key := i % keys
				if w.Spend(hash(uint64(key)), second, 1, limit).Allowed {
					admitted[key].Add(1)
				}
				if i%100 == 0 {
					w.Stats(second)
				}
			}
		})
	}
	wg.Wait()
	for key := range admitted {
		if n := admitted[key].Load(); n != limit {
			t.Errorf("key %d: %d admitted, want %d", key, n, limit)
		}
	}
}

func TestWindowDoesNotAllocate(t *testing.T) {
	o := crowded(second, 4)
	o.SampleKeys = 16
	w := window(t, o)
	now, key := 100*second, uint64(0)
	f := func(what string, call func()) {
		t.Helper()
		if n := testing.AllocsPerRun(2000, call); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
	step := func() uint64 { now += second / 500; key++; return hash(key % 300) }
	f("Spend", func() { w.Spend(step(), now, 1, 20) })
	f("Peek", func() { w.Peek(step(), now, 1, 20) })
	f("Estimate", func() { w.Estimate(step(), now) })
	f("Force", func() { w.Force(step(), now, 1, 20) })
	f("Stats", func() { w.Stats(now) })
}
