package sharedtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/linear"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
)

// linearized are the algorithms whose strict decisions are compared with one store's.
var linearized = []weir.Algorithm{
	algorithm.TokenBucket, algorithm.FixedWindow, algorithm.SlidingWindow, algorithm.SlidingCounter, algorithm.SlidingSubwindows, algorithm.SlidingLog,
}

// undated are those of them whose cells do not say when within a window, or in a bucket
// that is not full, a charge was made.
var undated = []weir.Algorithm{algorithm.TokenBucket, algorithm.FixedWindow}

// Whatever nodes ask at once of one key, strict decisions are those of one store that
// made them one after the other, also while its scripts are forgotten.
func testLinear(t *testing.T, newNode New) {
	t.Parallel()
	for _, nodes := range []int{2, 8} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			r := servertest.Redis(t)
			w := newLinearWorld(t, newNode, "redis://"+r.Addr, nodes)
			w.meanwhile = func() { r.Do(t, "SCRIPT", "FLUSH") }
			w.run(t, perSecond)
			if n := w.history.Unknown(); n > 0 {
				t.Errorf("%d of the ops had no answer", n)
			}
		})
	}
}

// The same through Sentinels.
func testLinearSentinel(t *testing.T, newNode New) {
	t.Parallel()
	_, _, sentinels := servertest.RedisSentinels(t)
	var addrs []string
	for _, s := range sentinels {
		addrs = append(addrs, s.Addr)
	}
	newLinearWorld(t, newNode, "redis+sentinel://"+strings.Join(addrs, ",")+"/primary", 4).run(t, perSecond)
}

// The same while connections are cut: what was not answered may have been decided, once.
func testLinearCut(t *testing.T, newNode New) {
	t.Parallel()
	r := servertest.Redis(t)
	w := newLinearWorld(t, newNode, "redis://"+r.Addr, 4)
	w.meanwhile = func() { r.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") }
	w.algorithms = undated
	// A server carries out nothing more of a connection that it has closed.
	w.history.Late = 10 * time.Millisecond
	w.run(t, perDay)
	if w.history.Unknown() == 0 {
		t.Error("nothing was cut")
	}
}

// perSecond and perDay return limits that are used up and come back, and that are not
// turned while a test runs.
func perSecond(a weir.Algorithm) *weir.Limit { return weir.PerSecond(20, a) }
func perDay(a weir.Algorithm) *weir.Limit    { return weir.PerDay(300, a) }

// linearWorld is nodes on one server, and what they are asked.
type linearWorld struct {
	nodes      []Node
	history    linear.History
	algorithms []weir.Algorithm
	meanwhile  func() // is called again and again
	seed       uint64
}

func newLinearWorld(t *testing.T, newNode New, url string, nodes int) *linearWorld {
	w := &linearWorld{algorithms: linearized, seed: seeds.Of(t), meanwhile: func() {}}
	for range nodes {
		w.nodes = append(w.nodes, nodeAt(t, newNode, url, Options{Nodes: nodes, Timeout: 5 * time.Second, RefusalLife: -1}))
	}
	return w
}

// run asks every node by three clients, of one key for each algorithm, and checks the
// answers.
func (w *linearWorld) run(t *testing.T, limit func(weir.Algorithm) *weir.Limit) {
	var limits []*weir.Limit
	for _, a := range w.algorithms {
		l := limit(a)
		l.Name = "linear " + a.Name()
		limits = append(limits, compiled(t, l, func(l *weir.Limit) {
			l.Consistency.Mode, l.Consistency.OnStoreError = params.ConsistencyStrict, params.OnErrorDeny
		}))
	}
	for _, l := range limits {
		// From here on no bucket is full.
		if _, err := w.history.Take(-1, w.nodes[0], weir.Op{Key: "k", Limit: l, Cost: l.Count / 2}); err != nil {
			t.Fatal(err)
		}
	}
	rounds := int(runs(120, 2000))
	var clients sync.WaitGroup
	var asked atomic.Int64
	for i := range 3 * len(w.nodes) {
		rnd := rand.New(rand.NewPCG(w.seed, uint64(i)))
		clients.Go(func() {
			for range rounds {
				node := w.nodes[i%len(w.nodes)]
				// An error is unknown to the history as well.
				_, _ = w.history.Take(i, node, randomOp(rnd, limits))
				asked.Add(1)
				// What is decided without asking would say nothing.
				servertest.Await(t, "the breaker to close", func() bool { return !node.Stats().BreakerOpen })
			}
		})
	}
	done := make(chan struct{})
	go func() {
		clients.Wait()
		close(done)
	}()
	for next := int64(0); ; {
		select {
		case <-done:
			w.history.Check(t)
			return
		default:
		}
		if n := asked.Load(); n >= next {
			w.meanwhile()
			next = n + int64(len(w.nodes)*rounds/3)
		}
		time.Sleep(time.Millisecond)
	}
}

// randomOp asks of one key of a limit.
func randomOp(rnd *rand.Rand, limits []*weir.Limit) weir.Op {
	o := weir.Op{Key: "k", Limit: limits[rnd.IntN(len(limits))], Cost: 1 + rnd.Int64N(3)}
	switch rnd.IntN(10) {
	case 0:
		o.Verb = weir.Peek
	case 1:
		o.Verb, o.Role = weir.Force, weir.Always
	case 2:
		o.Verb, o.Role = weir.Refund, weir.Always
	case 3:
		o.Headroom = rnd.Int64N(5)
	}
	return o
}
