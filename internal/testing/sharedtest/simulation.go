package sharedtest

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/bubble"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/store/memory"
)

var table = flag.String("table", "", "page whose table of simulations is written anew")

// A scenario is a fleet, a limit, and what is offered.
type scenario struct {
	mode      params.ConsistencyMode
	algorithm weir.Algorithm
	regions   int // 0: one store, and no others
	nodes     int
	count     int64
	load      float64 // times the limit
	zipf      bool    // the i-th node gets 1/i of what the first gets
	surge     bool    // fifteenfold for a second
	length    time.Duration
	least     float64 // of what could pass; 0: that of its kind
}

// A result is what came of a scenario.
type result struct {
	scenario
	share, perCall float64
	over, promised int64
}

const simulated = 20 * time.Second // two windows, of scenarios that say nothing else

// How much is simulated.
const (
	briefly = iota
	forTable
	soak
)

func (sc scenario) String() string {
	how := "even"
	if sc.zipf {
		how = "Zipf"
	}
	if sc.surge {
		how += ", surge of 15x"
	}
	return fmt.Sprintf("%s | %s | %d | %d | %d | %gx %s", sc.mode, sc.algorithm.Name(), max(sc.regions, 1), sc.nodes, sc.count, sc.load, how)
}

// build returns the nodes of a scenario, and how many calls they have made. Calls of
// a store take a millisecond, those of another region's forty.
func (sc scenario) build(t *testing.T, newNode New) (*fleet, func() int64) {
	if sc.regions == 0 {
		f := newFleet(t, newNode, sc.nodes, Options{MaxBytes: 1 << 20})
		f.shared.delay.Store(int64(time.Millisecond))
		return f, f.shared.calls.Load
	}
	w := worldOf(t, newNode, sc.regions, sc.nodes, Options{MaxBytes: 1 << 20})
	for _, s := range w.stores {
		s.delay.Store(int64(time.Millisecond))
	}
	w.far(39 * time.Millisecond)
	return w.fleet, func() int64 {
		own, between := w.calls()
		return own + between
	}
}

// simulate runs a scenario in virtual time.
func (sc scenario) simulate(t *testing.T, newNode New) result {
	f, calls := sc.build(t, newNode)
	length := cmp.Or(sc.length, simulated)
	l := &weir.Limit{Algorithm: sc.algorithm, Count: sc.count, Period: 10 * time.Second}
	l.Consistency.Mode = sc.mode
	w := newLoad(f, compiled(t, l, nil))
	w.central = memory.New(memory.Options{MaxBytes: 1 << 20})
	defer w.central.Close()
	r := result{scenario: sc}
	if sc.mode == params.ConsistencyEventual {
		r.promised = l.Overshoot()
	}
	var sum float64
	weights := make([]float64, sc.nodes)
	for i := range weights {
		weights[i] = 1
		if sc.zipf {
			weights[i] = 1 / float64(i+1)
		}
		sum += weights[i]
	}
	var wg sync.WaitGroup
	start := time.Now()
	for i, s := range f.nodes {
		rate := sc.load * float64(sc.count) / 10 * weights[i] / sum
		rng := rand.New(rand.NewPCG(uint64(i), 11))
		wg.Go(func() {
			for {
				at := time.Since(start)
				if at >= length-5*time.Millisecond {
					return
				}
				w.ask(s)
				now := rate
				if sc.surge && at > 3*time.Second && at < 4*time.Second {
					now *= 15
				}
				time.Sleep(time.Duration(rng.ExpFloat64() / now * float64(time.Second)))
			}
		})
	}
	wg.Wait()
	r.share = float64(w.admitted.Load()) / float64(w.strict.Load())
	r.perCall = float64(w.offered.Load()) / float64(calls())
	r.over = w.worst()
	if w.degraded.Load() != 0 {
		t.Errorf("%s: %d degraded", sc, w.degraded.Load())
	}
	return r
}

// In every simulation the promise holds, and what the limit allows is used.
func testSimulation(t *testing.T, newNode New) {
	var rows []string
	size := briefly
	switch {
	case *table != "":
		size = forTable
	case os.Getenv("WEIR_SOAK") != "":
		size = soak
	}
	for _, sc := range scenarios(size) {
		var r result
		bubble.Test(t, func(t *testing.T) { r = sc.simulate(t, newNode) })
		if r.over > r.promised {
			t.Errorf("%s: %d units too many, promised %d", sc, r.over, r.promised)
		}
		least := 0.9
		if sc.mode != params.ConsistencyStrict && sc.count/int64(sc.nodes) < 32 {
			least = 0.8
		}
		if sc.regions > 0 {
			// Where most come to one region, what need not be reported is used at once.
			least = 0.5
		}
		if r.share < cmp.Or(sc.least, least) {
			t.Errorf("%s: %.3f of what could pass", sc, r.share)
		}
		rows = append(rows, fmt.Sprintf("| %s | %.3f | %.1f | %d of %d |", sc, r.share, r.perCall, r.over, r.promised))
	}
	t.Log("\n" + strings.Join(rows, "\n"))
	if *table == "" {
		return
	}
	page, err := os.ReadFile(*table)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- simulations -->\n", "<!-- end -->"
	before, rest, ok := bytes.Cut(page, []byte(begin))
	_, after, found := bytes.Cut(rest, []byte(end))
	if !ok || !found {
		t.Fatalf("%s has no place for the table", *table)
	}
	text := string(before) + begin +
		"| mode | algorithm | regions | nodes | limit in 10 s | offered | of what one strict node admits | requests to a call | too many |\n|---|---|---|---|---|---|---|---|---|\n" +
		strings.Join(rows, "\n") + "\n" + end + string(after)
	if err := os.WriteFile(*table, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// however many nodes a strict window is leased to, and
// however little each of them uses, they get nearly all of it, period after period.
func testWindowUse(t *testing.T, newNode New) {
	nodes, counts, length, least := []int{64}, []int64{100, 1_000, 10_000}, 40*time.Second, 0.93
	if testing.Short() {
		counts, length, least = counts[2:], 20*time.Second, 0.9
	}
	if os.Getenv("WEIR_SOAK") == "1" {
		nodes, length = []int{2, 16, 64, 200}, 2*time.Minute
	}
	for _, n := range nodes {
		for _, count := range counts {
			sc := scenario{mode: params.ConsistencyLeased, algorithm: algorithm.SlidingWindow, nodes: n, count: count, load: 1.2, zipf: true, length: length}
			var r result
			bubble.Test(t, func(t *testing.T) { r = sc.simulate(t, newNode) })
			t.Logf("%s: %.3f of what could pass, %.1f requests to a call", sc, r.share, r.perCall)
			if r.over > 0 || r.share < least {
				t.Errorf("%s: %.3f of what could pass, %d units too many", sc, r.share, r.over)
			}
		}
	}
}

// scenarios are the rows of the table, a few of them or many more.
func scenarios(size int) []scenario {
	nodes, counts := []int{4, 64}, []int64{[]int64{2_000, 10_000, 10_000}[size]}
	algorithms := []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.TokenBucket}
	if testing.Short() {
		nodes = nodes[:1]
	}
	if size == soak {
		nodes, counts = []int{1, 4, 16, 64}, []int64{1_000, 10_000}
		algorithms = lending
	}
	var out []scenario
	for _, mode := range []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased, params.ConsistencyEventual} {
		for _, a := range algorithms {
			for _, count := range counts {
				for _, n := range nodes {
					sc := scenario{mode: mode, algorithm: a, nodes: n, count: count, load: 1.2, zipf: true}
					out = append(out, sc)
					if size != briefly {
						sc.zipf, sc.load = false, 6
						out = append(out, sc)
					}
					sc.zipf, sc.load, sc.surge = true, 0.7, true
					out = append(out, sc)
				}
			}
			if size != briefly && mode == params.ConsistencyLeased {
				out = append(out, scenario{mode: mode, algorithm: a, nodes: 4, count: 100_000, load: 1.2, zipf: true})
			}
		}
	}
	return append(out, acrossRegions(size)...)
}

// acrossRegions are the rows of the table with several regions.
func acrossRegions(size int) (out []scenario) {
	regions, nodes, counts := []int{3}, []int{6}, []int64{2_000}
	algorithms := []weir.Algorithm{algorithm.FixedWindow, algorithm.TokenBucket}
	if size != briefly {
		regions, nodes, counts = []int{10}, []int{20, 64}, []int64{10_000, 100_000}
		algorithms = []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.TokenBucket}
	}
	if size == soak {
		regions, algorithms = []int{2, 10}, lending
	}
	if size == briefly && !testing.Short() {
		// The nodes of a region must not take from each other what need not be reported.
		out = append(out, scenario{mode: params.ConsistencyEventual, algorithm: algorithm.SlidingWindow, regions: 10, nodes: 20, count: 10_000, load: 1.2, zipf: true, least: 0.985})
		// Nor may they charge what nobody is admitted by: a region has few units that others do not
		// know of.
		out = append(out, scenario{mode: params.ConsistencyEventual, algorithm: algorithm.TokenBucket, regions: 10, nodes: 20, count: 10_000, load: 0.7, zipf: true, surge: true, least: 0.7})
	}
	for _, a := range algorithms {
		for _, r := range regions {
			for _, count := range counts {
				for _, n := range nodes {
					sc := scenario{mode: params.ConsistencyEventual, algorithm: a, regions: r, nodes: n, count: count, load: 1.2, zipf: true}
					out = append(out, sc)
					if count == counts[0] {
						sc.zipf, sc.load = false, 6
						out = append(out, sc)
						sc.zipf, sc.load, sc.surge = true, 0.7, true
						out = append(out, sc)
					}
				}
			}
		}
	}
	return out
}
