package main

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/lab/bench/remote"
)

// The whole part in its shortest form: every limiter decides as it must, and every
// table is filled.
func TestRedisIsMeasured(t *testing.T) {
	text, err := compareRedis(t.Context(), settings{rounds: 1, round: 10 * time.Millisecond, remote: 500})
	if errors.Is(err, remote.ErrNoServer) && os.Getenv("WEIR_REQUIRE_SERVERS") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{remote.Ours, remote.Rate, remote.Throttled, "two limits", "refused hot key", "warm keys", "saved for each", "log of 1000"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	// What does not depend on the machine.
	for _, want := range []string{"≤ 48, met", "≤ 80, met", "≤ 10450, met", "0, met"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestRedisRatios(t *testing.T) {
	r := redisResults{
		remote.Ours:      {{Rate: 100, Client: 4000, Server: 5000}},
		remote.Rate:      {{Rate: 40, Client: 10_000, Server: 8000}},
		remote.Throttled: {{Rate: 50, Client: 20_000, Server: 8000}},
	}
	if best := r.best(rateOf, true); best != remote.Throttled {
		t.Errorf("%s is the fastest other", best)
	}
	if best := r.best(bothOf, false); best != remote.Rate {
		t.Errorf("%s is the cheapest other", best)
	}
	if got := r.ratio(remote.Ours, remote.Rate, bothOf).Median; got != 0.5 {
		t.Errorf("ratio %g, want 0.5", got)
	}
}
