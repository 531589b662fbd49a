package load

import "testing"

func TestKeysAreDistinctAndOfOneLength(t *testing.T) {
	for i, want := range map[int]string{
		0: "user:00000000", 7: "user:00000007", 10: "user:00000010", 999_999: "user:00999999",
		10_000_000: "user:10000000", 99_999_999: "user:99999999",
	} {
		if got := Key(i); got != want {
			t.Errorf("key %d is %q, want %q", i, got, want)
		}
	}
}

func TestZipfIsSkewedAndUniformIsNot(t *testing.T) {
	const n = 1000
	top := func(k *Keys) float64 {
		seen := make(map[string]int)
		most := 0
		for i := range k.order {
			seen[k.At(i)]++
			most = max(most, seen[k.At(i)])
		}
		return float64(most) / float64(len(k.order))
	}
	// The harmonic sum over 1,000 ranks is about 7.3.
	if share := top(Zipf(n)); share < 0.12 || share > 0.15 {
		t.Errorf("the most popular of %d Zipf keys has %.3f of the requests, want about 0.137", n, share)
	}
	if share := top(Uniform(n)); share > 0.002 {
		t.Errorf("the most popular of %d uniform keys has %.4f of the requests, want about 0.001", n, share)
	}
}
