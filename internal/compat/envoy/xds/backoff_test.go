package xds

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestBackoff(t *testing.T) {
	f := func(b Backoff, failed int, least, most time.Duration) {
		t.Helper()
		low, high := time.Duration(1<<62), time.Duration(0)
		for range 1000 {
			d := b.waitAfter(failed)
			low, high = min(low, d), max(high, d)
		}
		if low < least || high > most {
			t.Errorf("%+v after %d: %v to %v, want within %v to %v", b, failed, low, high, least, most)
		}
		if spread := most - least; high-low < spread/2 {
			t.Errorf("%+v after %d: %v to %v, which hardly spreads over %v to %v", b, failed, low, high, least, most)
		}
	}
	s := time.Second
	// The defaults of envoyproxy/ratelimit: the factor is below 1, so nothing grows.
	f(Backoff{Initial: 10 * s, Max: 60 * s, Factor: 0.5}, 0, 10*s, 10*s)
	f(Backoff{Initial: 10 * s, Max: 60 * s, Factor: 0.5}, 9, 10*s, 10*s)
	f(Backoff{Initial: 10 * s, Max: 60 * s, Factor: 2, NoJitter: true}, 0, 10*s, 10*s)
	f(Backoff{Initial: 10 * s, Max: 60 * s, Factor: 2, NoJitter: true}, 2, 40*s, 40*s)
	f(Backoff{Initial: 10 * s, Max: 60 * s, Factor: 2, NoJitter: true}, 3, 60*s, 60*s)
	f(Backoff{Initial: 10 * s, Max: 60 * s, Factor: 2}, 2, 10*s, 40*s)
	f(Backoff{Initial: 10 * s, Max: 60 * s, Factor: 2}, 1<<30, 10*s, 60*s)
	f(Backoff{Initial: 90 * s, Max: 60 * s, Factor: 2}, 0, 60*s, 60*s)
}

func TestAround(t *testing.T) {
	for range 1000 {
		if d := randomAround(time.Second); d < 500*time.Millisecond || d > 1500*time.Millisecond {
			t.Fatalf("half a second to one and a half, got %v", d)
		}
	}
}

func TestReasonIsCut(t *testing.T) {
	for _, s := range []string{
		"short", strings.Repeat("é", maxReason), "x" + strings.Repeat("é", maxReason),
		strings.Repeat("\x80", 2*maxReason), "\xff",
	} {
		got := clipReason(s)
		if len(got) > maxReason || !utf8.ValidString(got) || got == "" {
			t.Errorf("%d bytes became %d", len(s), len(got))
		}
		if len(s) > maxReason && utf8.ValidString(s) && len(got) < maxReason-utf8.UTFMax {
			t.Errorf("%d bytes became only %d", len(s), len(got))
		}
	}
}
