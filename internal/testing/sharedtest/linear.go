package sharedtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
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
			w.fault = func() bool { r.Do(t, "SCRIPT", "FLUSH"); return true }
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
	primary, _, sentinels := servertest.RedisSentinels(t)
	w := newLinearWorld(t, newNode, sentinelURL(sentinels), 4)
	w.fault = func() bool { primary.Do(t, "SCRIPT", "FLUSH"); return true }
	w.run(t, perSecond)
	if n := w.history.Unknown(); n > 0 {
		t.Errorf("%d of the ops had no answer", n)
	}
}

func sentinelURL(sentinels []*servertest.RedisServer) string {
	var addrs []string
	for _, s := range sentinels {
		addrs = append(addrs, s.Addr)
	}
	return "redis+sentinel://" + strings.Join(addrs, ",") + "/primary"
}

// The same while connections are cut: what was not answered may have been decided, once.
func testLinearCut(t *testing.T, newNode New) {
	t.Parallel()
	r := servertest.Redis(t)
	w := newLinearWorld(t, newNode, "redis://"+r.Addr, 4)
	w.fault = func() bool { r.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); return true }
	w.algorithms, w.owed = undated, 1
	// A server carries out nothing more of a connection that it has closed.
	w.history.Late = 10 * time.Millisecond
	w.run(t, perDay)
	if w.history.Unknown() == 0 {
		t.Error("nothing was cut")
	}
}

// The same while the keys' slot moves from server to server of a cluster, key by key:
// the server that it leaves answers with ASK, and then with MOVED.
func testLinearMoved(t *testing.T, newNode New) {
	t.Parallel()
	primaries := servertest.RedisCluster(t, 3)[:3]
	w := newLinearWorld(t, newNode, "redis+cluster://"+primaries[0].Addr, 4)
	w.every, w.owed = 20, 0 // whose marks would wait for the end of the move
	var move *servertest.SlotMove
	w.fault = func() (over bool) {
		switch {
		case move == nil:
			from, key := ownerOf(t, primaries)
			slot, ok := primaries[from].Do(t, "CLUSTER", "KEYSLOT", key).(int64)
			if !ok {
				t.Fatal("KEYSLOT gave no number")
			}
			move = servertest.BeginSlotMove(t, primaries, int(slot), from, (from+1)%len(primaries))
		case !move.MoveKey(t):
			move.End(t)
			move, over = nil, true
		}
		return over
	}
	w.run(t, perSecond)
	if n := w.history.Unknown(); n > 0 {
		t.Errorf("%d of the ops had no answer", n)
	}
	for _, redirect := range []string{"errorstat_ASK", "errorstat_MOVED"} {
		if !slices.ContainsFunc(primaries, func(p *servertest.RedisServer) bool { return p.Fact(t, redirect) != "" }) {
			t.Errorf("%s: no op met a slot that moves", redirect)
		}
	}
}

// ownerOf returns which of the primaries has the only keys that there are, and one of them.
func ownerOf(t *testing.T, primaries []*servertest.RedisServer) (at int, key string) {
	t.Helper()
	for i, p := range primaries {
		if key := p.Do(t, "RANDOMKEY"); key != nil {
			return i, fmt.Sprint(key)
		}
	}
	t.Fatal("no primary has a key")
	return 0, ""
}

// The same while the server crashes and starts again with what it has in its file of
// appended writes: what was answered is there, and what was not was decided once at most.
func testLinearRestart(t *testing.T, newNode New) {
	t.Parallel()
	appends := []string{"--appendonly", "yes", "--appendfsync", "always"}
	for _, kind := range []struct {
		name string
		open func(t *testing.T) (url string, primaries []*servertest.RedisServer)
	}{
		{"server", func(t *testing.T) (string, []*servertest.RedisServer) {
			r := servertest.Redis(t, appends...)
			return "redis://" + r.Addr, []*servertest.RedisServer{r}
		}},
		{"sentinel", func(t *testing.T) (string, []*servertest.RedisServer) {
			primary, _, sentinels := servertest.RedisSentinels(t, appends...)
			for _, s := range sentinels {
				// The primary comes back: the replica, which may lag behind, does not take over.
				s.Do(t, "SENTINEL", "SET", "primary", "down-after-milliseconds", "600000")
			}
			return sentinelURL(sentinels), []*servertest.RedisServer{primary}
		}},
		{"cluster", func(t *testing.T) (string, []*servertest.RedisServer) {
			servers := servertest.RedisCluster(t, 3, appends...)
			for _, s := range servers {
				s.Do(t, "CONFIG", "SET", "cluster-replica-no-failover", "yes")
			}
			return "redis+cluster://" + servers[0].Addr, servers[:3]
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			url, primaries := kind.open(t)
			w := newLinearWorld(t, newNode, url, 4)
			w.algorithms, w.owed = undated, 1
			// A server that was killed carries out nothing more.
			w.history.Late = 10 * time.Millisecond
			w.every, w.least = w.asks()/2, 2
			w.fault = func() bool {
				at, _ := ownerOf(t, primaries)
				primaries[at].Kill(t)
				primaries[at].Restart(t)
				return true
			}
			w.run(t, perDay)
			if w.history.Unknown() == 0 {
				t.Error("no op was under way when the server was killed")
			}
		})
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
	// fault is called after so many ops, every, again and again, and reports whether one is
	// over: at least so many are.
	fault func() (over bool)
	every int
	least int64
	seed  uint64
	// owed is in how many of twenty ops a cost was incurred, and as often units are given
	// back. Such an op without an answer may be carried out at any time, which the check tries.
	owed int
}

// linearRounds is how many ops each client asks.
func linearRounds() int { return int(runs(120, 2000)) }

// asks is how many ops are asked.
func (w *linearWorld) asks() int { return 3 * len(w.nodes) * linearRounds() }

func newLinearWorld(t *testing.T, newNode New, url string, nodes int) *linearWorld {
	w := &linearWorld{algorithms: linearized, seed: seeds.Of(t), least: 3, owed: 2}
	for range nodes {
		w.nodes = append(w.nodes, nodeAt(t, newNode, url, Options{Nodes: nodes, Timeout: 5 * time.Second, RefusalLife: -1}))
	}
	w.every = w.asks() / 9
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
	var clients sync.WaitGroup
	var asked, faults atomic.Int64
	for i := range 3 * len(w.nodes) {
		rnd := rand.New(rand.NewPCG(w.seed, uint64(i)))
		clients.Go(func() {
			for n := 0; n < linearRounds() || faults.Load() < w.least && !t.Failed(); n++ {
				node := w.nodes[i%len(w.nodes)]
				o, err := w.history.Take(i, node, w.randomOp(rnd, limits))
				asked.Add(1)
				if err == nil && !o.Decision.Guarantee().Degraded {
					continue
				}
				// What is decided without the store would say nothing.
				servertest.Await(t, "the store to answer", func() bool {
					peeked := []weir.Op{{Key: o.Key, Limit: o.Limit, Verb: weir.Peek}}
					err := node.Take(t.Context(), peeked)
					return err == nil && !peeked[0].Decision.Guarantee().Degraded
				})
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
			if w.fault() {
				faults.Add(1)
			}
			next = n + int64(w.every)
		}
		time.Sleep(time.Millisecond)
	}
}

// randomOp asks of one key of a limit.
func (w *linearWorld) randomOp(rnd *rand.Rand, limits []*weir.Limit) weir.Op {
	o := weir.Op{Key: "k", Limit: limits[rnd.IntN(len(limits))], Cost: 1 + rnd.Int64N(3)}
	switch n := rnd.IntN(20); {
	case n < w.owed:
		o.Verb, o.Role = weir.Force, weir.Always
	case n < 2*w.owed:
		o.Verb, o.Role = weir.Refund, weir.Always
	case n >= 18:
		o.Verb = weir.Peek
	case n >= 16:
		o.Headroom = rnd.Int64N(5)
	}
	return o
}
