package sharedtest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/micros"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
)

// A limit that becomes another window or bucket again and again, strict and leased, on nodes
// that share a real Redis, with units held: at most the largest count or burst is admitted,
// and what flows in.
func testForms(t *testing.T, newNode New) {
	r := servertest.Redis(t)
	nodes := make([]Node, 2)
	for i := range nodes {
		nodes[i], _ = redisNode(t, newNode, r, Options{Timeout: 5 * time.Second, Nodes: 2})
	}
	for seed := range drawn(t, 12, 1000) {
		passed, most, in, whole := takeForms(t, nodes, seed, fmt.Sprint("forms ", seed))
		if !whole { // the next ten minutes have just begun
			passed, most, in, _ = takeForms(t, nodes, seed, fmt.Sprint("forms again ", seed))
		}
		if passed > most+in {
			t.Errorf("seed %d: %d passed, the largest limit is %d, and %d flowed in", seed, passed, most, in)
		}
		if passed < 5 {
			t.Errorf("seed %d: only %d passed", seed, passed)
		}
	}
}

// takeForms takes units under a limit of a name in the forms of a seed. It returns how many
// passed, the largest count or burst, and what flowed in; whole: no period ended meanwhile.
func takeForms(t *testing.T, nodes []Node, seed uint64, name string) (passed, most, in int64, whole bool) {
	t.Helper()
	kinds := []weir.Algorithm{algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.SlidingCounter, algorithm.SlidingSubwindows, algorithm.TokenBucket, algorithm.LeakyBucket}
	draw := rand.New(rand.NewPCG(seed, 59))
	var versions []*weir.Limit
	rate := 0.0
	for range 2 + draw.IntN(3) {
		l := &weir.Limit{Name: name, Algorithm: kinds[draw.IntN(len(kinds))],
			Count: []int64{10, 100, 300, 1000}[draw.IntN(4)], Period: []time.Duration{10 * time.Minute, time.Hour, 24 * time.Hour}[draw.IntN(3)]}
		l.Consistency.Mode = []params.ConsistencyMode{params.ConsistencyStrict, params.ConsistencyLeased}[draw.IntN(2)]
		versions = append(versions, compiled(t, l, nil))
		most, rate = max(most, l.Count), max(rate, float64(l.Count)/float64(micros.Of(l.Period)))
	}
	for _, l := range versions {
		for _, s := range nodes { // a node charges versions that it knows
			if _, err := s.TakeOne(t.Context(), "another", l, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	begin := time.Now()
	for range 20 {
		l := versions[draw.IntN(len(versions))]
		for range draw.IntN(120) {
			cost := 1 + draw.Int64N(3)
			d, err := nodes[draw.IntN(len(nodes))].TakeOne(t.Context(), "k", l, cost)
			if err != nil || d.Guarantee().Degraded {
				t.Fatal(d, err)
			}
			if d.Allowed() {
				passed += cost
			}
		}
	}
	took, shortest := time.Since(begin), 10*time.Minute
	return passed, most, 2 + int64(rate*float64(took.Microseconds())), begin.Truncate(shortest).Equal(begin.Add(took).Truncate(shortest))
}
