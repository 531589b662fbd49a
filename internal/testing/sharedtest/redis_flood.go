package sharedtest

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/store/redis"
)

// flooded is how many keys go through the nodes, and in parts of how many.
func flooded() (keys, part int) {
	switch {
	case os.Getenv("WEIR_SOAK") != "":
		return 5_000_000, 500_000
	case testing.Short():
		return 20_000, 10_000
	}
	return 100_000, 50_000
}

// spentOf is how often a key of the flood is asked for.
func spentOf(key int) int64 {
	if key%8 == 0 {
		return 7
	}
	return 1
}

// heap returns what is in use after a collection.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Far more keys than two nodes have room for, on a real Redis: their memory is
// bounded, no request is refused, and of every key the server has counted what was
// admitted, what the nodes say that they hold, and what they say is stranded.
func testFlood(t *testing.T, newNode New) {
	keys, part := flooded()
	r := servertest.Redis(t)
	var nodes []Node
	var server *redis.Store
	for range 2 {
		s, shared := redisNode(t, newNode, r, Options{Nodes: 2, Timeout: 10 * time.Second, MaxInFlight: 64})
		nodes, server = append(nodes, s), shared
	}
	l := compiled(t, &weir.Limit{Algorithm: algorithm.FixedWindow, Count: 400, Period: 365 * 24 * time.Hour}, func(l *weir.Limit) {
		leased(l)
		l.Consistency.LeaseTTL = time.Second
	})
	before := heap()
	var most int
	var reported uint64 // stranded so far
	for from := 0; from < keys; from += part {
		most = max(most, flood(t, nodes, l, from, from+part))
		if t.Failed() {
			return
		}
		// What is idle is returned.
		servertest.Await(t, "all leases to be given back", func() bool {
			return nodes[0].Stats().LeaseKeys+nodes[1].Stats().LeaseKeys == 0
		})
		var spent int64
		for k := from; k < from+part; k++ {
			spent += spentOf(k)
		}
		var stranded uint64
		for end := time.Now().Add(5 * time.Second); ; {
			// The last returns may be on their way.
			counted, less := countAll(t, server, l, from, from+part)
			stranded = nodes[0].Stats().Stranded + nodes[1].Stats().Stranded
			if less == 0 && counted == spent+int64(stranded-reported) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("keys %d to %d: %d units are counted, %d were admitted and %d not given back; of %d keys too few are counted",
					from, from+part, counted, spent, stranded-reported, less)
			}
		}
		reported = stranded
		// The server need not keep them all.
		r.Do(t, "FLUSHDB")
	}
	grown := int64(heap()) - int64(before)
	t.Logf("%d keys, at most %d leased at a time, %d units not given back, the heap grew by %d KiB", keys, most, reported, grown>>10)
	// A node and its own store have five megabytes.
	if most == 0 || grown > 2*(5<<20)+4<<20 {
		t.Errorf("at most %d leases; the heap grew by %d bytes", most, grown)
	}
}

// flood asks for each key in turn on both nodes, and returns how many leases they
// had at most.
func flood(t *testing.T, nodes []Node, l *weir.Limit, from, to int) (most int) {
	var next atomic.Int64
	next.Store(int64(from))
	var clients sync.WaitGroup
	for range 96 {
		clients.Go(func() {
			for {
				k := int(next.Add(1)) - 1
				if k >= to || t.Failed() {
					return
				}
				key := fmt.Sprint("client", k)
				for i := range spentOf(k) {
					d, err := nodes[(int64(k)+i/4)%2].TakeOne(context.Background(), key, l, 1)
					if err != nil || !d.Allowed() || d.Guarantee().Degraded {
						t.Errorf("%s: %+v, %v", key, d, err)
						return
					}
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		clients.Wait()
		close(done)
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return most
		case <-tick.C:
			n := 0
			for _, s := range nodes {
				n += s.Stats().LeaseKeys
			}
			most = max(most, n)
		}
	}
}

// countAll returns how many units of some keys the server has counted, and of how
// many keys fewer than were admitted.
func countAll(t *testing.T, server *redis.Store, l *weir.Limit, from, to int) (units int64, less int) {
	const atOnce = 64
	var sum, missing, next atomic.Int64
	next.Store(int64(from))
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			ops := make([]weir.Op, 0, atOnce)
			for {
				first := int(next.Add(atOnce)) - atOnce
				if first >= to {
					return
				}
				ops = ops[:0]
				for k := first; k < min(first+atOnce, to); k++ {
					ops = append(ops, weir.Op{Key: fmt.Sprint("client", k), Limit: l, Cost: 1, Verb: weir.Peek})
				}
				if err := server.Take(context.Background(), ops); err != nil {
					t.Error(err)
					return
				}
				for i := range ops {
					n := l.Count - ops[i].Decision.Remaining
					sum.Add(n)
					if n < spentOf(first+i) {
						missing.Add(1)
					}
				}
			}
		})
	}
	readers.Wait()
	return sum.Load(), int(missing.Load())
}
