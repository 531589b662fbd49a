package event

import (
	"math"
	"testing"
)

func TestWatchForgets(t *testing.T) {
	var w watch
	const key = 0x1234567890abcdef
	if w.hasHash(key) {
		t.Error("watched before it was limited")
	}
	w.addHash(key)
	for range watchEras - 1 {
		if !w.hasHash(key) || w.hasHash(key+1<<20) {
			t.Fatal("the wrong key is watched")
		}
		w.beginEra()
	}
	w.addHash(key) // limited again
	for range watchEras - 1 {
		w.beginEra()
	}
	if !w.hasHash(key) {
		t.Error("forgotten though it was limited again")
	}
	w.beginEra()
	for range 1000 { // and not remembered when the eras begin anew
		if w.hasHash(key) {
			t.Fatal("watched for ever")
		}
		w.beginEra()
	}
}

// Keys are sampled in the proportion that was asked for, whatever they look like,
// and other keys under another secret.
func TestSampleIsFair(t *testing.T) {
	const n, every = 200_000, 100
	a, b := hasher{1, 2}, hasher{3, 4}
	var sampled, both float64
	key := []byte("user:000000")
	for i := range n {
		for j, v := len(key)-1, i; j >= 5; j, v = j-1, v/10 {
			key[j] = byte('0' + v%10)
		}
		inA := a.hashText(string(key)) < math.MaxUint64/every
		inB := b.hashText(string(key)) < math.MaxUint64/every
		if inA {
			sampled++
		}
		if inA && inB {
			both++
		}
	}
	// Five standard deviations.
	if want := float64(n / every); math.Abs(sampled-want) > 5*math.Sqrt(want) {
		t.Errorf("%v of %d keys sampled, want about %v", sampled, n, want)
	}
	if want := float64(n / every / every); math.Abs(both-want) > 5*math.Sqrt(want) {
		t.Errorf("%v keys in both samples, want about %v", both, want)
	}
}

// Every bit of a key counts, and so does its length.
func TestHashTellsKeysApart(t *testing.T) {
	h := hasher{0x9af1, 0x55e3}
	seen := map[uint64]string{}
	add := func(s string) {
		if other, ok := seen[h.hashText(s)]; ok && other != s {
			t.Errorf("%q and %q have one hash", s, other)
		}
		seen[h.hashText(s)] = s
	}
	for n := range 40 {
		base := make([]byte, n)
		add(string(base))
		for i := range n * 8 {
			base[i/8] ^= 1 << (i % 8)
			add(string(base))
			base[i/8] ^= 1 << (i % 8)
		}
	}
}
