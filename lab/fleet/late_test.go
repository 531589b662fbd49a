package fleet

import (
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// A node that is stopped for moments, with calls of the store under way, does not take
// it for the store's fault: when it goes on the answers are there.
func TestFamilyNodesThatAreLate(t *testing.T) {
	processes(t)
	redis := servertest.Redis(t)
	c := cell{algorithm: "fixed_window", mode: "strict"}
	n := serve(t, "redis://"+redis.Addr+"?timeout=50ms", rules(t, c.descriptor(1_000_000, "year")))
	stops := 15
	if soak {
		stops = 200
	}
	const clients = 8
	var a asked
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range clients {
		wg.Go(func() {
			for !t.Failed() {
				select {
				case <-stop:
					return
				default:
					a.ask(t, n, c.key(), 1)
				}
			}
		})
	}
	for range stops {
		time.Sleep(60 * time.Millisecond)
		for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
			if err := n.Signal(sig); err != nil {
				t.Error(err)
			}
			time.Sleep(150 * time.Millisecond)
		}
	}
	close(stop)
	wg.Wait()
	late := n.metric(t, "weir_timer_delay_seconds_total")
	t.Logf("%d decisions, %d by policy; the node was late for %g s", a.all(), a.degraded.Load(), late)
	// Whoever is in the way of this machine may stop the store as well.
	if most := int64(stops * clients / 4); a.degraded.Load() > most {
		t.Errorf("%d decisions were made by policy, want at most %d", a.degraded.Load(), most)
	}
	if late < 0.1*float64(stops) {
		t.Errorf("the node was late for %g s, and was stopped %d times for 0.15 s", late, stops)
	}
}
