package fleet

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Nodes that get next to no processor time, as ten processes for each processor want
// it, do not take that for the failure of a store that has its time: hardly a strict
// decision passes it over, and no breaker opens.
func TestFamilyStarvedNodes(t *testing.T) {
	processes(t)
	burners, lasts := 2*runtime.NumCPU(), time.Second
	if soak {
		burners, lasts = 10*runtime.NumCPU(), 8*time.Second
	}
	for _, kind := range []string{"redis", "memcached"} {
		t.Run(kind, func(t *testing.T) {
			var addr, question string
			if kind == "redis" {
				addr, question = servertest.Redis(t).Addr, "PING\r\n"
			} else {
				addr, _ = servertest.Memcached(t, "")
				question = "version\r\n"
			}
			c := cell{algorithm: "fixed_window", mode: "strict"}
			nodes := serveMany(t, 2, kind+"://"+addr, rules(t, c.descriptor(10_000_000, "day")))
			// The store is well, whatever the nodes are: all others come after it.
			for _, n := range nodes {
				yield(t, n.Process)
			}
			for range burners {
				yield(t, servertest.Start(t, exec.Command("sh", "-c", "while :; do :; done")))
			}
			w := watch(t, addr, question)
			var mu sync.Mutex
			var all []decided
			var wg sync.WaitGroup
			const least = 1000
			for end, i := time.Now().Add(lasts), 0; i < 8; i++ {
				wg.Go(func() {
					for n := 0; (time.Now().Before(end) || n < least) && !t.Failed(); {
						var a asked
						begun := time.Now()
						a.ask(t, nodes[i%2], c.key(), 1)
						mu.Lock()
						all = append(all, decided{span{begun, time.Now()}, a.degraded.Load() > 0})
						n = len(all)
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			late := 0.0
			for _, n := range nodes {
				late += n.metric(t, "weir_timer_delay_seconds_total")
				if l := n.lines(t, "circuit breaker opened"); len(l) > 0 {
					t.Errorf("the breaker opened: %+v", l)
				}
			}
			// Where the machine stands still the store does, and all clients meet that at once.
			stalls, passedOver, excused := w.end(), 0, 0
			for _, d := range all {
				switch meets := slices.ContainsFunc(stalls, d.meets); {
				case d.degraded && meets:
					excused++
				case d.degraded:
					passedOver++
				}
			}
			t.Logf("%d burners: %d decisions, %d by policy, %d more while the store stood still, %d times; the nodes were late for %g s",
				burners, len(all), passedOver, excused, len(stalls), late)
			// Without the allowance for late nodes it was 7 % and more.
			if 100*passedOver > 3*len(all) {
				t.Errorf("%d of %d decisions were made by policy", passedOver, len(all))
			}
		})
	}
}

// A span is some time.
type span struct{ from, to time.Time }

// meets reports whether two spans have an instant in common.
func (s span) meets(o span) bool { return s.from.Before(o.to) && o.from.Before(s.to) }

// decided is a decision that a client waited for.
type decided struct {
	span
	degraded bool
}

// A watcher asks a store all the time, and notes when it stands still.
type watcher struct {
	stop, ended chan struct{}
	stalls      []span
}

// stall is how long a store is silent that stands still: a quarter of what a decision waits.
const stall = 5 * time.Millisecond

// watch watches a store that answers a question in one line.
func watch(t *testing.T, addr, question string) *watcher {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{stop: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		defer conn.Close()
		answers := bufio.NewReader(conn)
		for asked := time.Now(); ; asked = time.Now() {
			_, err := io.WriteString(conn, question)
			if err == nil {
				_, err = answers.ReadString('\n')
			}
			if err != nil {
				t.Error(err)
				return
			}
			if now := time.Now(); now.Sub(asked) > stall {
				w.stalls = append(w.stalls, span{asked, now})
			}
			select {
			case <-w.stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return w
}

// end ends the watch, and returns when the store stood still.
func (w *watcher) end() []span {
	close(w.stop)
	<-w.ended
	return w.stalls
}

// yield gives all threads of a process their time after others.
func yield(t *testing.T, p *servertest.Process) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", p.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	if len(threads) == 0 {
		threads = []string{strconv.Itoa(p.Pid())} // where all threads have one priority
	}
	for _, path := range threads {
		id, err := strconv.Atoi(filepath.Base(path))
		if err == nil {
			err = syscall.Setpriority(syscall.PRIO_PROCESS, id, 19)
		}
		if err != nil && !errors.Is(err, syscall.ESRCH) { // it has ended
			t.Fatal(err)
		}
	}
}
