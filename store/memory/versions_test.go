package memory

import (
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
)

// However often a limit is changed, what is known of it is bounded, and a key keeps what
// it spent under the version before.
func TestVersionsAreBounded(t *testing.T) {
	s := newIdle(Options{MaxBytes: 1 << 20})
	defer s.Close()
	var l *weir.Limit
	for i := range int64(maxVersions + 100) {
		l = compile(t, &weir.Limit{Name: "changed", Algorithm: algorithm.TokenBucket, Count: i + 1, Period: time.Hour, Burst: 10_000})
		if d, err := s.TakeOne(t.Context(), "k", l, 1); err != nil || d.Remaining > 10_000-i-1+2 {
			t.Fatalf("version %d: %v, %v", i, d, err)
		}
	}
	if n := len(s.versions.listWith(l)); n != maxVersions {
		t.Errorf("%d versions are known, want %d", n, maxVersions)
	}
}
