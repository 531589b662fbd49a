package backoff

import (
	"testing"
	"time"
)

func TestNext(t *testing.T) {
	const first, most = 100 * time.Millisecond, time.Second
	longest := make([]time.Duration, 8)
	shortest := make([]time.Duration, 8)
	for range 2000 {
		b := Backoff{Min: first, Max: most}
		for i := range longest {
			d := b.Next()
			if bound := min(first<<i, most); d < first || d < bound*3/4 || d > bound {
				t.Fatalf("pause %d is %s, want %s to %s", i, d, max(first, bound*3/4), bound)
			}
			if longest[i] = max(longest[i], d); shortest[i] == 0 || d < shortest[i] {
				shortest[i] = d
			}
		}
		if b.Reset(); b.Tries() != 0 || b.Next() != first {
			t.Fatal("long waits after a reset")
		}
	}
	for i, d := range longest {
		bound := min(first<<i, most)
		if d < bound*9/10 {
			t.Errorf("pause %d was %s at most, want up to %s", i, d, bound)
		}
		if i > 0 && shortest[i] > bound*8/10 {
			t.Errorf("pause %d was %s at least: it is to differ at random", i, shortest[i])
		}
	}
	if b := (Backoff{Min: time.Minute, Max: time.Second}); b.Next() != time.Second {
		t.Error("a first pause beyond the longest is not the longest")
	}
	if b := (Backoff{}); b.Next() != 100*time.Millisecond {
		t.Error("without values the first pause is not 100 ms")
	}
	for _, try := range []int{-1, 0, 1, 8, 63, 64, 1 << 20} {
		if d := After(try); d <= 0 || d > 10*time.Second || try < 2 && d > 100*time.Millisecond || try > 7 && d < 7*time.Second {
			t.Errorf("try %d: %s", try, d)
		}
	}
}

// Only a reset after a failure says that something is back.
func TestBack(t *testing.T) {
	back := 0
	b := Backoff{Back: func() { back++ }}
	b.Reset()
	b.Next()
	b.Reset()
	b.Reset()
	if back != 1 {
		t.Errorf("back %d times", back)
	}
}
