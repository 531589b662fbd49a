package sketch_test

import (
	"math"
	"testing"

	"github.com/weirlimit/weir/internal/sketch"
)

func TestBloomFalsePositivesAsDesigned(t *testing.T) {
	f := func(keys int64, p float64) {
		t.Helper()
		size, hashes, err := sketch.BloomSize(keys, p)
		if err != nil {
			t.Fatal(err)
		}
		b, err := sketch.NewBloom(size, hashes)
		if err != nil {
			t.Fatal(err)
		}
		known := 0
		for key := range uint64(keys) {
			had := b.Has(hash(key))
			if b.Add(hash(key)) != had {
				t.Fatalf("Add of key %d disagrees with Has", key)
			}
			if had {
				known++
			}
		}
		for key := range uint64(keys) {
			if !b.Has(hash(key)) {
				t.Fatalf("key %d was added and is not known", key)
			}
		}
		const probes = 400_000
		wrong := 0
		for key := range uint64(probes) {
			if b.Has(hash(1<<32 + key)) {
				wrong++
			}
		}
		share := float64(wrong) / probes
		if share < 0.8*p || share > 1.2*p {
			t.Errorf("%d keys: measured %.5f false positives, designed for %v", keys, share, p)
		}
		if e := b.FalsePositives(); e < 0.85*share || e > 1.15*share {
			t.Errorf("%d keys: estimated %.5f false positives, measured %.5f", keys, e, share)
		}
		if fill := b.Fill(); fill < 0.48 || fill > 0.52 {
			t.Errorf("%d keys: fill %.3f at the design size, want about half", keys, fill)
		}
		if float64(known) > p*float64(keys) {
			t.Errorf("%d of %d keys were known before they were added", known, keys)
		}
		b.Reset()
		if b.Has(hash(1)) || b.Fill() != 0 {
			t.Error("Reset left keys behind")
		}
	}
	f(20_000, 0.01)
	f(50_000, 0.03)
	f(10_000, 0.002)
}

func TestBloomSize(t *testing.T) {
	f := func(keys int64, p, bitsPerKey float64, hashes int) {
		t.Helper()
		size, k, err := sketch.BloomSize(keys, p)
		if err != nil || k != hashes || math.Abs(float64(size)/float64(keys)-bitsPerKey) > 0.01 {
			t.Errorf("BloomSize(%d, %v) = %d, %d, %v; want %v bits a key and %d hashes", keys, p, size, k, err, bitsPerKey, hashes)
		}
	}
	f(1_000_000, 0.01, 9.585, 7)
	f(1_000_000, 0.001, 14.378, 10)
	f(1_000_000, 0.9, 0.219, 1)

	refused := func(keys int64, p float64) {
		t.Helper()
		if size, k, err := sketch.BloomSize(keys, p); err == nil {
			t.Errorf("BloomSize(%d, %v) = %d, %d; want an error", keys, p, size, k)
		}
	}
	refused(0, 0.1)
	refused(1, 1e-30)
	refused(math.MaxInt64, 0.01)

	for _, s := range []struct {
		size   int64
		hashes int
	}{{0, 1}, {-5, 1}, {64, 0}, {64, 33}, {math.MaxInt64, 1}} {
		if _, err := sketch.NewBloom(s.size, s.hashes); err == nil {
			t.Errorf("NewBloom(%d, %d) succeeded", s.size, s.hashes)
		}
	}
	b, err := sketch.NewBloom(1000, 3)
	if err != nil || b.Bytes() != 128 {
		t.Errorf("NewBloom(1000, 3): %v, %d bytes", err, b.Bytes())
	}
}
