package fleet

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// cell is an algorithm in a mode, and what it admits.
type cell struct {
	algorithm, mode string
	// least is the part of the limit that passes at least when six times the limit
	// is offered.
	least float64
	// over is the part of the limit that may be admitted above it.
	over float64
	// served is what a queue serves at once, beside what waits in it.
	served float64
}

func (c cell) key() string { return c.mode + "-" + c.algorithm }

// overshoot is max_overshoot of the eventual limits here, as a part of the limit.
const overshoot = 0.1

// cells returns every algorithm in every mode that it can be counted in together.
func cells() []cell {
	var out []cell
	for _, a := range []string{"fixed_window", "sliding_window", "sliding_counter", "sliding_subwindows", "token_bucket", "leaky_bucket"} {
		leased := 0.98
		if a == "token_bucket" || a == "leaky_bucket" {
			leased = 0.9
		}
		out = append(out, cell{algorithm: a, mode: "strict", least: 1}, cell{algorithm: a, mode: "leased", least: leased},
			cell{algorithm: a, mode: "eventual", least: leased, over: overshoot})
	}
	return append(out,
		cell{algorithm: "leaky_queue", mode: "strict", least: 1, served: 1},
		cell{algorithm: "sliding_log", mode: "strict", least: 1},
		cell{algorithm: "lockout", mode: "strict", least: 1},
		cell{algorithm: "concurrency", mode: "strict", least: 1},
		cell{algorithm: "concurrency", mode: "leased", least: 0.98})
}

// descriptor returns the rule of a cell: so many in a period so long that nothing
// flows back meanwhile, or in the period given.
func (c cell) descriptor(count int, period string) string {
	rate := fmt.Sprintf("%d/%s", count, period)
	if c.algorithm == "concurrency" {
		rate = fmt.Sprintf("%d, ttl: 10m", count)
	}
	mode := c.mode
	if mode == "eventual" {
		mode = fmt.Sprintf("{mode: eventual, max_overshoot: %g%%}", 100*overshoot)
	}
	return fmt.Sprintf("{key: %s, limit: %s, algorithm: %s, consistency: %s, on_store_error: deny}", c.key(), rate, c.algorithm, mode)
}

// patient is a budget that a busy machine does not exceed: nothing is to be decided
// by failure policy where nothing fails.
const patient = "?timeout=60s"

// Nodes that share a store and are offered six times the limit admit what the mode
// promises, for every algorithm.
func TestFleetKeepsItsLimits(t *testing.T) {
	processes(t)
	for _, n := range []int{2, 4} {
		keepsLimits(t, n, 120, 10)
	}
}

// The same at length, and with one node and with eight.
func TestSoakFleetKeepsItsLimits(t *testing.T) {
	if !soak {
		t.Skip("takes long: set WEIR_SOAK=1")
	}
	for _, n := range []int{1, 2, 4, 8} {
		keepsLimits(t, n, 10_000, 20)
	}
}

func keepsLimits(t *testing.T, n, limit, checks int) {
	t.Run(fmt.Sprint(n, " nodes"), func(t *testing.T) {
		redis := servertest.Redis(t)
		var descriptors []string
		for _, c := range cells() {
			descriptors = append(descriptors, c.descriptor(limit, "year"))
		}
		nodes := serveMany(t, n, "redis://"+redis.Addr+patient, rules(t, descriptors...))
		for _, c := range cells() {
			a := offer(t, nodes, c.key(), 6*limit, checks)
			could := float64(limit) + c.served
			c.judge(t, a, could, c.least*could, could+c.over*float64(limit))
		}
		for _, n := range nodes {
			if v := n.metric(t, "weir_degraded_decisions_total"); v != 0 {
				t.Errorf("%g decisions were degraded", v)
			}
		}
	})
}

// judge compares what passed with what could.
func (c cell) judge(t *testing.T, a *asked, could, least, most float64) {
	t.Helper()
	passed := float64(a.allowed.Load())
	t.Logf("%s: %.0f of %.0f, %d asked", c.key(), passed, could, a.all())
	if passed > most || passed < least {
		t.Errorf("%s: %.0f of %d passed, want %g to %g", c.key(), passed, a.all(), least, most)
	}
	if a.degraded.Load() != 0 {
		t.Errorf("%s: %d were decided by failure policy", c.key(), a.degraded.Load())
	}
}

// While units flow back the same holds, window after window: over two whole
// windows, and for buckets over the burst and what flowed in.
func TestFleetKeepsItsRate(t *testing.T) {
	processes(t)
	inTime(t, time.Second, func(period time.Duration) bool { return keepsRate(t, 2, 200, period) })
}

// The same at length.
func TestSoakFleetKeepsItsRate(t *testing.T) {
	if !soak {
		t.Skip("takes long: set WEIR_SOAK=1")
	}
	for _, n := range []int{1, 2, 4, 8} {
		inTime(t, 5*time.Second, func(period time.Duration) bool { return keepsRate(t, n, 1000, period) })
	}
}

// keepsRate reports false when the machine was too slow to offer as much as it
// should, or to end in time.
func keepsRate(t *testing.T, n, limit int, period time.Duration) bool {
	redis := servertest.Redis(t)
	var all []cell
	var descriptors []string
	for _, c := range cells() {
		if c.algorithm == "token_bucket" || c.algorithm == "fixed_window" {
			all = append(all, c)
			descriptors = append(descriptors, c.descriptor(limit, fmt.Sprintf("%ds", int(period.Seconds()))))
		}
	}
	nodes := serveMany(t, n, "redis://"+redis.Addr+patient, rules(t, descriptors...))
	// Just after a window has begun, and to just before the next but one.
	edge := period / 20
	waitUntil(time.Now().Truncate(period).Add(period + edge))
	begin := time.Now()
	end := begin.Truncate(period).Add(2*period - edge)
	results := make([]*asked, len(all))
	var offering sync.WaitGroup
	for i, c := range all {
		offering.Go(func() { results[i] = offerFor(t, nodes, c.key(), 6*limit, period, end) })
	}
	offering.Wait()
	took := time.Since(begin)
	for _, a := range results {
		if took > 2*period-edge || a.all() < 6*int64(limit) {
			return false
		}
	}
	for i, c := range all {
		could, windows, least := 2*float64(limit), 2.0, c.least
		if c.algorithm == "token_bucket" {
			could, windows = float64(limit)*(1+took.Seconds()/period.Seconds()), 1
			// What flows in after the last requests nobody asks for.
			least = min(least, 0.95)
		}
		c.judge(t, results[i], could, least*could, could+windows*c.over*float64(limit))
	}
	return true
}

// inTime tries what must be over before a window ends until it was: with a longer
// window each time, and fails when this machine never was fast enough.
func inTime(t *testing.T, period time.Duration, try func(period time.Duration) bool) {
	t.Helper()
	for longest := 32 * period; period <= longest; period *= 2 {
		if try(period) || t.Failed() {
			return
		}
		t.Logf("this machine was not done in a window of %s", period)
	}
	t.Error("this machine was never done before another window began")
}

// offerFor makes rate checks of a key per period until an instant.
func offerFor(t *testing.T, nodes []*node, key string, rate int, period time.Duration, end time.Time) *asked {
	t.Helper()
	sum := new(asked)
	const parts = 20
	for time.Now().Before(end) {
		next := time.Now().Add(period / parts)
		sum.add(offer(t, nodes, key, rate/parts, 5))
		if next.Before(end) {
			waitUntil(next)
		} else {
			waitUntil(end)
		}
	}
	return sum
}
