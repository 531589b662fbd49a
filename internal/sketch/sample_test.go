package sketch_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/sketch"
)

// With every key sampled, the measured error is the true one.
func TestStatsMeasureTheTrueError(t *testing.T) {
	bits, hashes, _ := sketch.BloomSize(3000, 0.05)
	o := sketch.WindowOptions{Period: second, Depth: 3, Width: 1024, Shards: 4,
		BloomBits: bits, BloomHashes: hashes, SampleEvery: 1, SampleKeys: 1 << 16}
	w := window(t, o)
	z, r := zipf(1, 20_000), rand.New(rand.NewPCG(5, 5))
	type key struct {
		h uint64
		g int64
	}
	exact := map[key]int64{}
	now := 50 * second
	const steps = 40_000
	for i := range int64(steps) {
		now = 50*second + i*2*second/steps // eight generations
		h, cost := hash(z.Uint64()), 1+r.Int64N(2)
		if w.Spend(h, now, cost, 1<<30).Allowed {
			exact[key{h, now / (second / 4)}] += cost
		}
	}
	live := map[uint64]int64{}
	var units int64
	newest := now / (second / 4)
	for k, n := range exact {
		if k.g > newest-5 {
			live[k.h] += n
			units += n
		}
	}
	st := w.Stats(now)
	if st.Sampled != len(live) || st.Units != units || st.SampleShare != 1 {
		t.Fatalf("sampled %d keys (share %v) with %d units, want %d with %d", st.Sampled, st.SampleShare, st.Units, len(live), units)
	}
	var over int
	var sum, most int64
	for h, n := range live {
		e := w.Estimate(h, now) - n
		if e < 0 {
			t.Fatalf("estimate %d below the truth", e)
		}
		if e > 0 {
			over++
		}
		sum += e
		most = max(most, e)
	}
	if st.Overestimated != over || st.MaxError != most || math.Abs(st.MeanError-float64(sum)/float64(len(live))) > 1e-9 {
		t.Errorf("measured %d over, mean %v, max %d; true %d, %v, %d", st.Overestimated, st.MeanError, st.MaxError, over, float64(sum)/float64(len(live)), most)
	}
	if over == 0 || most == 0 {
		t.Error("no error at all: the load tests nothing")
	}
	beyond := 0
	for h, n := range live {
		if float64(w.Estimate(h, now)-n) > st.Bound {
			beyond++
		}
	}
	if share := float64(beyond) / float64(len(live)); share > st.BoundFailure {
		t.Errorf("%.4f of the keys beyond the bound of %.0f, at most %.4f may", share, st.Bound, st.BoundFailure)
	}

	// Three generations on, three of five have left.
	clear(live)
	units = 0
	for k, n := range exact {
		if k.g > newest-2 {
			live[k.h] += n
			units += n
		}
	}
	if later := w.Stats(now + 3*second/4); later.Units != units || later.Sampled != len(live) {
		t.Errorf("three generations later: %d units of %d keys, want %d of %d", later.Units, later.Sampled, units, len(live))
	}
	if gone := w.Stats(now + 5*second); gone.Units != 0 || gone.Sampled != 0 || gone.Bound != 0 {
		t.Errorf("long after: %+v", gone)
	}
}

// The measured share of false positives, the expected one and the design agree
// when each generation holds the keys it was made for.
func TestStatsMeasureFalsePositives(t *testing.T) {
	const keys, design = 20_000, 0.02
	bits, hashes, _ := sketch.BloomSize(keys, design)
	w := window(t, sketch.WindowOptions{Period: second, Depth: 4, Width: 1 << 14, Shards: 4,
		BloomBits: bits, BloomHashes: hashes, SampleEvery: 4, SampleKeys: 1 << 16})
	key := uint64(0)
	for g := range int64(5) {
		for range keys {
			key++
			w.Spend(hash(key), g*second/4, 1, 100)
		}
	}
	st := w.Stats(second)
	if st.BloomTrials < 4*keys {
		t.Fatalf("only %d trials", st.BloomTrials)
	}
	if p := st.FalsePositives(); p < 0.85*design || p > 1.15*design {
		t.Errorf("measured %.4f false positives, designed for %v", p, design)
	}
	if st.BloomExpected < 0.9*design || st.BloomExpected > 1.2*design {
		t.Errorf("expected %.4f false positives, designed for %v", st.BloomExpected, design)
	}
	if want := 1 - math.Exp(-6/8.142); math.Abs(st.BloomFill-want) > 0.02 { // 8.142 bits a key, 6 hashes
		t.Errorf("Bloom fill %.3f, want about %.3f", st.BloomFill, want)
	}
	// Each key is over-estimated by at most one wrong yes in each of 5 generations.
	share := float64(st.Overestimated) / float64(st.Sampled)
	if want := 1 - math.Pow(1-design, 5); share > 1.3*want {
		t.Errorf("%.3f of the keys over-estimated, expected about %.3f", share, want)
	}
}

// A sample too small for its keys tracks fewer, never wrongly, and widens again.
func TestSampleAdapts(t *testing.T) {
	w := window(t, sketch.WindowOptions{Period: second, Depth: 6, Width: 1 << 15, Shards: 1,
		BloomBits: 1 << 21, BloomHashes: 8, SampleEvery: 2, SampleKeys: 32})
	check := func(now int64) sketch.Stats {
		t.Helper()
		st := w.Stats(now)
		if st.Sampled > 32 {
			t.Fatalf("%d keys sampled, room for 32", st.Sampled)
		}
		// With so many cells estimates are exact, so a key whose older units
		// were not tracked would stand out.
		if st.Overestimated > 0 {
			t.Fatalf("at %d: exact estimates measured as wrong: %+v", now, st)
		}
		return st
	}
	now := 10 * second
	for i := range uint64(6000) {
		w.Spend(hash(i%3000), now, 1, 100)
		if i%10 == 0 {
			now += second / 1000
			check(now)
		}
	}
	st := check(now)
	if st.Sampled == 0 || st.SampleShare > 64.0/3000 {
		t.Fatalf("3000 keys: %d sampled at a share of %v", st.Sampled, st.SampleShare)
	}
	for i := range uint64(4000) { // 20 keys, for 16 seconds
		w.Spend(hash(i%20), now, 1, 1000)
		now += second / 250
		check(now)
	}
	if st = check(now); st.SampleShare != 0.5 || st.Sampled < 3 || st.Sampled > 17 {
		t.Errorf("20 keys: %d sampled at a share of %v, want about 10 at one half", st.Sampled, st.SampleShare)
	}
}
