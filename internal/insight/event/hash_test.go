package event

import (
	"fmt"
	"math/bits"
	"testing"
)

// Keys that differ in one byte, or are parts of one another, have hashes of their
// own, whatever their length; and of many keys each share of the hashes has its
// share.
func TestHasher(t *testing.T) {
	h := hasher{0x0123456789abcdef, 0xfedcba9876543210}
	seen := map[uint64]string{}
	note := func(s string) {
		t.Helper()
		sum := h.hashText(s)
		if other, ok := seen[sum]; ok && other != s {
			t.Fatalf("%q and %q have one hash", s, other)
		}
		seen[sum] = s
	}
	text := []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	for n := range len(text) {
		note(string(text[:n]))
		for i := range n {
			was := text[i]
			text[i] = '#'
			note(string(text[:n]))
			text[i] = was
		}
		note(string(make([]byte, n)))
	}
	const keys = 64_000
	var shares [64]int
	for i := range keys {
		shares[h.hashText(fmt.Sprintf("203.0.%d.%d", i>>8, i&255))>>58]++
	}
	for i, n := range shares {
		if n < keys/64*3/4 || n > keys/64*5/4 {
			t.Errorf("share %d of 64 has %d of %d keys", i, n, keys)
		}
	}
	// One bit of the secret, and all is different.
	other := hasher{h.a ^ 1, h.b}
	if d := bits.OnesCount64(h.hashText("203.0.113.7") ^ other.hashText("203.0.113.7")); d < 12 {
		t.Errorf("another secret changes %d bits", d)
	}
}
