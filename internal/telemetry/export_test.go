package telemetry

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/seeds"
)

// One line says that the collector does not take what it is sent, and one that it does
// again, after how long, however long that is.
func TestFamilyCollectorOutageIsToldOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(seeds.Of(t), 0))
	bubble.Test(t, func(t *testing.T) {
		for range 50 {
			var log bytes.Buffer
			e := newExports("metrics", slog.New(slog.NewTextHandler(&log, nil)))
			lines := func(n int, level, what string) {
				t.Helper()
				got := strings.Split(strings.TrimSpace(log.String()), "\n")
				if len(got) != n || !strings.Contains(got[n-1], "level="+level) || !strings.Contains(got[n-1], what) || !strings.Contains(got[n-1], "signal=metrics") {
					t.Fatalf("want line %d, of level %s with %s:\n%s", n, level, what, log.String())
				}
			}
			failed := uint64(0)
			for outage := range 4 {
				for range 1 + rng.IntN(100) {
					e.noteExport(errors.New("connection refused"))
					failed++
					time.Sleep(time.Duration(1+rng.IntN(10_000)) * time.Millisecond)
				}
				lines(2*outage+1, "ERROR", "decisions are not affected")
				for range 1 + rng.IntN(5) {
					e.noteExport(nil)
				}
				lines(2*outage+2, "INFO", "after=")
				time.Sleep(time.Minute)
			}
			if e.failed.Load() != failed {
				t.Errorf("%d failures are counted, of %d", e.failed.Load(), failed)
			}
		}
	})
}
