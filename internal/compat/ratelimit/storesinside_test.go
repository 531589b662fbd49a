package ratelimit

import (
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	const first, most = 100 * time.Millisecond, time.Second
	longest := make([]time.Duration, 8)
	for range 2000 {
		wait := backoff(first, most)
		for i := range longest {
			d := wait()
			if bound := min(first<<i, most); d < first || d > bound {
				t.Fatalf("pause %d is %s, want %s to %s", i, d, first, bound)
			}
			longest[i] = max(longest[i], d)
		}
	}
	for i, d := range longest {
		if bound := min(first<<i, most); d < bound*9/10 {
			t.Errorf("pause %d was %s at most, want up to %s", i, d, bound)
		}
	}
	if d := backoff(time.Minute, time.Second)(); d != time.Second {
		t.Errorf("a first pause beyond the longest is %s", d)
	}
	if d := backoff(0, 0)(); d != 100*time.Millisecond {
		t.Errorf("without values the first pause is %s", d)
	}
}

func TestMasked(t *testing.T) {
	for url, want := range map[string]string{
		"redis:6379":                             "redis:6379",
		"main,redis://u:p@a:1,redis://u:p@q@b:2": "main,redis://*****@a:1,redis://*****@b:2",
		"/run/redis.sock":                        "/run/redis.sock",
	} {
		if got := masked(url); got != want {
			t.Errorf("%s becomes %s, want %s", url, got, want)
		}
	}
}
