package main

import (
	"strconv"
	"testing"
)

func TestAmounts(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "5000": 5000, "10k": 10_000, "2.5M": 2_500_000, "100_000,000": 100_000_000, "1G": 1e9, "3B": 3e9, "1e3": 1000,
		"": -1, "k": -1, "1.5": -1, "-1": -1, "1kk": -1, "1e300": -1, "NaN": -1, "Inf": -1, "2000000G": -1, "0.0001k": -1,
	} {
		a := amount(-1)
		if err := a.UnmarshalText([]byte(text)); err == nil && want < 0 || err != nil && want >= 0 || int64(a) != want {
			t.Errorf("%q: %d, %v; want %d", text, a, err, want)
		}
	}
}

// FuzzAmount: what is accepted is in the range that the error names, and its digits mean
// what they mean elsewhere.
func FuzzAmount(f *testing.F) {
	for _, text := range []string{"0", "10k", "2.5M", "100_000,000", "1G", "1e3", "-1", "1kk", "NaN", "0x1p4", "9007199254740993", "1e15"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a := amount(-1)
		if err := a.UnmarshalText([]byte(text)); (err == nil) != (a >= 0) || a > 1e15 {
			t.Errorf("%q: %d, %v", text, a, err)
		}
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n <= 1e15 && int64(a) != n {
			t.Errorf("%q is read as %d", text, a)
		}
	})
}
