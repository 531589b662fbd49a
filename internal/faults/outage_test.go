package faults_test

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/faults"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/internal/testing/seeds"
)

// However something fails and answers: it is told first that it is down, once until it is
// told that it is back, and both no more often than every ten seconds.
func TestFamilyOutage(t *testing.T) {
	r := rand.New(rand.NewPCG(seeds.Of(t), 0))
	bubble.Test(t, func(t *testing.T) {
		for range 200 {
			var log bytes.Buffer
			o := faults.NewOutage(slog.New(slog.NewTextHandler(&log, nil)), "it is down", "it is back", "what", "it")
			began, failed, last := time.Now(), false, false
			for range 60 {
				last = r.IntN(3) == 0
				failed = failed || !last
				if last {
					o.Succeeded()
				} else {
					o.Failed(errors.New("refused"))
				}
				time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
			}
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			if !failed && log.Len() > 0 || failed && log.Len() == 0 {
				t.Fatalf("it failed: %v, and the log has %q", failed, log.String())
			}
			if most := 2 * (1 + int(time.Since(began)/(10*time.Second))); len(lines) > most {
				t.Fatalf("%d lines in %s", len(lines), time.Since(began))
			}
			for i, line := range lines {
				want := "level=ERROR msg=\"it is down\" what=it err=refused"
				if i%2 == 1 {
					want = "level=INFO msg=\"it is back\" what=it after="
				}
				if failed && !strings.Contains(line, want) {
					t.Fatalf("line %d: %s", i, line)
				}
			}
			if last && len(lines)%2 == 1 && failed {
				t.Fatalf("it answers, and the last line is %s", lines[len(lines)-1])
			}
		}
	})
}
