package simulator

import (
	"flag"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	oneSeed = flag.Uint64("seed", 0, "the seed that is run alone, and whose last events are printed")
	budget  = flag.Duration("for", 0, "for how long seeds are run")
)

// length is how long a fleet runs, in seconds.
const length = 120

// In whatever order things happen, and whatever fails, what is promised holds, and each
// seed is one run.
func TestSimulation(t *testing.T) {
	if *oneSeed != 0 {
		report(t, *oneSeed)
		return
	}
	last := 20 * time.Second
	switch {
	case *budget > 0:
		last = *budget
	case os.Getenv("WEIR_SOAK") == "1":
		last = time.Hour
	case testing.Short():
		last = 5 * time.Second
	}
	start, before := time.Now(), cpuTime()
	// New seeds find new faults, and are for whoever looks for them; other runs repeat.
	fresh, seeds := uint64(start.UnixNano()), uint64(60)
	looking := *budget > 0 || os.Getenv("WEIR_SOAK") == "1"
	var sum result
	for i := uint64(1); time.Since(start) < last && (looking || i <= seeds); i++ {
		seed := i
		if looking && i%2 == 0 {
			seed = fresh + i
		}
		r := simulate(t, seed, length, false)
		if r.broken != "" {
			report(t, seed)
			t.Fatalf("seed %d: %s", seed, r.broken)
		}
		if i%100 == 1 {
			if again := simulate(t, seed, length, false); again.hash != r.hash || again.events != r.events {
				t.Fatalf("seed %d: one run has %d events, another %d", seed, r.events, again.events)
			}
		}
		sum.seconds += r.seconds
		sum.decisions += r.decisions
		sum.events += r.events
		for i, n := range r.admitted {
			sum.admitted[i] += n
		}
	}
	took := cpuTime() - before
	t.Logf("%.0f node-hours, %d decisions, %d events, %v admitted: %.0f node-hours a minute of CPU",
		sum.seconds/3600, sum.decisions, sum.events, sum.admitted, sum.seconds/3600/took.Minutes())
	for i, n := range sum.admitted {
		if n < sum.decisions/100 {
			t.Errorf("the %d. limit admits %d of %d decisions: nothing is tested", i, n, sum.decisions)
		}
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
	r := simulate(t, seed, length, true)
	lines := strings.Split(r.trace, "\n")
	t.Logf("%s\n%s", r.how, strings.Join(lines[max(len(lines)-60, 0):], "\n"))
	if r.broken != "" {
		t.Errorf("seed %d: %s", seed, r.broken)
	}
}
