package stats_test

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/compat/envoy/stats"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// One line says that statsd does not take statistics, and one that it does again, after
// how long, however often it is tried in between.
func TestFamilyStatsdOutageIsToldOnce(t *testing.T) {
	for _, network := range []string{"tcp", "udp"} {
		t.Run(network, func(t *testing.T) {
			var log servertest.Log
			addr := fmt.Sprintf("127.0.0.1:%d", servertest.FreePort(t))
			s := stats.NewStatsd(network, addr, slog.New(slog.NewTextHandler(&log, nil)))
			defer s.Close()
			send := func() {
				s.Counter("requests", 1)
				s.Flush()
			}
			lines := func() []string {
				all := strings.Split(strings.TrimSpace(log.String()), "\n")
				// What is lost once the buffer is full has a line of its own, one a minute.
				return slices.DeleteFunc(all, func(line string) bool { return strings.Contains(line, "statistics dropped") })
			}
			servertest.Await(t, "a line about the outage", func() bool { send(); return log.String() != "" })
			until := time.Now().Add(200 * time.Millisecond)
			servertest.Await(t, "further attempts", func() bool { send(); return time.Now().After(until) })
			if got := lines(); len(got) != 1 || !strings.Contains(got[0], "level=ERROR") || !strings.Contains(got[0], "decisions are not affected") {
				t.Fatalf("while it is away:\n%s", log.String())
			}
			if network == "tcp" {
				ln, err := net.Listen(network, addr)
				if err != nil {
					t.Fatal(err)
				}
				defer ln.Close()
			} else {
				ln, err := net.ListenPacket(network, addr)
				if err != nil {
					t.Fatal(err)
				}
				defer ln.Close()
			}
			servertest.Await(t, "a line about its end", func() bool { send(); return len(lines()) > 1 })
			until = time.Now().Add(200 * time.Millisecond)
			servertest.Await(t, "further lines", func() bool { send(); return time.Now().After(until) })
			if got := lines(); len(got) != 2 || !strings.Contains(got[1], "level=INFO") || !strings.Contains(got[1], "after=") {
				t.Fatalf("after it came back:\n%s", log.String())
			}
		})
	}
}
