package shared

// The simulator runs a fleet of nodes in one goroutine at a time, by a seed, over one server,
// several that divide the keys, or one in each of several regions: the store runs as it is,
// and only time, waiting, names and the servers are replaced.
//
//	clients ---> Store ---> transport.Queue ---> driver ---> server
//	               |  Env: Now, Go, Park, Rand    faults      rows
//	               v
//	       scheduler: true time, tasks, the seed
//
// All that waits does so with Park. Of the tasks that can go on the seed chooses the next when
// one parks or ends, and when none can, time jumps to the next that will.
// Nothing goes by a map's order, a hash of the process or the real time, so a seed is one
// run: its events have one hash, and a seed that fails prints them.
//
// The oracles know all that was admitted, by the true time: see truth.

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

var (
	oneSeed = flag.Uint64("seed", 0, "the seed that is run alone, and whose last events are printed")
	runFor  = flag.Duration("for", 0, "for how long seeds are run, in time of a CPU")
	from    = flag.Uint64("from", 1, "the seed that -for begins with, of those that are not new")
)

// In whatever order things happen, and whatever fails, what is promised holds, and each
// seed is one run.
func TestSimulation(t *testing.T) {
	if *oneSeed != 0 {
		report(t, *oneSeed)
		return
	}
	last := 20 * time.Second
	switch {
	case *runFor > 0:
		last = *runFor
	case os.Getenv("WEIR_SOAK") == "1":
		last = time.Hour
	case testing.Short():
		last = 5 * time.Second
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // one goroutine runs at a time
	defer debug.SetGCPercent(debug.SetGCPercent(3000))
	start, before := time.Now(), cpuTime()
	// New seeds find new faults, and are for whoever looks for them; other runs repeat.
	fresh, seeds := uint64(start.UnixNano()), uint64(240)
	looking := *runFor > 0 || os.Getenv("WEIR_SOAK") == "1"
	var sum result
	for i := uint64(1); looking && cpuTime()-before < last || !looking && i <= seeds && time.Since(start) < last; i++ {
		seed := i
		if looking {
			if seed = *from + (i-1)/2; i%2 == 0 {
				seed += fresh
			}
		}
		r := simulate(t, seed, false)
		if r.broken != "" {
			report(t, seed)
			t.Fatalf("seed %d: %s", seed, r.broken)
		}
		if i%100 == 1 {
			if again := simulate(t, seed, false); again.hash != r.hash || again.events != r.events {
				t.Fatalf("seed %d: one run has %d events, another %d", seed, r.events, again.events)
			}
		}
		sum.seconds += r.seconds
		sum.decisions += r.decisions
		sum.events += r.events
		sum.degraded += r.degraded
		sum.call += r.call
		for i, n := range r.admitted {
			sum.admitted[i] += n
		}
	}
	took := cpuTime() - before
	t.Logf("%.0f node-hours, %d decisions, %d calls, %d without the store, %d events, %v admitted: %.0f node-hours a minute of CPU",
		sum.seconds/3600, sum.decisions, sum.call, sum.degraded, sum.events, sum.admitted, sum.seconds/3600/took.Minutes())
	for i, n := range sum.admitted {
		if n < sum.decisions/100 {
			t.Errorf("the %d. limit admits %d of %d decisions: nothing is tested", i, n, sum.decisions)
		}
	}
}

// A seed that fails fails again in the same way, after the same events.
func TestFailuresReplay(t *testing.T) {
	fail := func() (*fleet, uint64) {
		f := newFleet(t, 4, false)
		defer f.stopAll()
		f.truths[atWindow].limit = f.compile(&weir.Limit{Name: "window", Algorithm: f.limits[atWindow].Algorithm, Count: 8, Period: f.limits[atWindow].Period})
		f.run(length * 1_000_000)
		return f, f.hash
	}
	f, hash := fail()
	again, hashAgain := fail()
	if f.broken == "" || f.broken != again.broken || hash != hashAgain || f.count != again.count {
		t.Errorf("%q after %d events, hash %x; again %q after %d, hash %x", f.broken, f.count, hash, again.broken, again.count, hashAgain)
	}
}

// cpuTime returns how long this process has used a CPU.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// report runs a seed again and prints its last events.
func report(t *testing.T, seed uint64) {
	r := simulate(t, seed, true)
	lines := strings.Split(r.trace, "\n")
	t.Logf("%s\n%s", r.how, strings.Join(lines[max(len(lines)-60, 0):], "\n"))
	if r.broken != "" {
		t.Errorf("seed %d: %s", seed, r.broken)
	}
}
