package fleet

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Of a store with several servers of which one stands still, or is killed and started
// again, the limits of its keys are decided by their policy, and those of all others
// go on as ever.
func TestPartOfTheStoreStalls(t *testing.T) {
	processes(t)
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		servers := servertest.RedisCluster(t, 3)[:3]
		for _, s := range servers {
			// No replica takes over.
			s.Do(t, "CONFIG", "SET", "cluster-node-timeout", "600000")
		}
		partStalls(t, "redis+cluster", servers)
	})
	t.Run("ring", func(t *testing.T) {
		t.Parallel()
		partStalls(t, "redis+ring", []*servertest.RedisServer{servertest.Redis(t), servertest.Redis(t), servertest.Redis(t)})
	})
}

func partStalls(t *testing.T, scheme string, servers []*servertest.RedisServer) {
	var hosts []string
	for _, s := range servers {
		hosts = append(hosts, s.Addr)
	}
	url := fmt.Sprintf("%s://%s?timeout=%s", scheme, strings.Join(hosts, ","), budget)
	if scheme == "redis+ring" {
		url += "&ring_on_loss=policy"
	}
	strict := cell{algorithm: "sliding_window", mode: "strict"}
	nodes := serveMany(t, 2, url, rules(t, strict.descriptor(1_000_000, "year")))
	const clients = 120
	// all asks for each client once on each node, and returns how often each was
	// decided by policy.
	all := func() (degraded [clients]int64) {
		var next atomic.Int64
		var asking sync.WaitGroup
		for range 8 {
			asking.Go(func() {
				for i := next.Add(1) - 1; i < clients; i = next.Add(1) - 1 {
					var a asked
					for _, n := range nodes {
						a.askFor(t, n, strict.key(), fmt.Sprint("client", i), 1)
					}
					degraded[i] = a.degraded.Load()
				}
			})
		}
		asking.Wait()
		return degraded
	}
	for i, n := range all() {
		if n != 0 {
			t.Errorf("client %d was decided by policy before anything went wrong", i)
		}
	}
	signal := func(sig syscall.Signal) {
		t.Helper()
		if err := servers[1].Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	for range 6 {
		all() // each part is asked often enough to be found away
	}
	var byPolicy, never int
	var others [clients]bool // whose clients are on servers that go on
	for i, n := range sum(all(), all(), all()) {
		switch n {
		case 0:
			never++
			others[i] = true
		case 3 * int64(len(nodes)):
			byPolicy++
		}
	}
	lost, least, most := `weir_redis_ring_servers{state="down"}`, 1.0, 1.0
	if scheme == "redis+cluster" {
		lost, least, most = "weir_redis_unavailable_slots", 16384/4, 16384/2
	}
	for i, n := range nodes {
		if v := n.metric(t, lost); v < least || v > most {
			t.Errorf("node %d: %s is %v, want %v to %v", i, lost, v, least, most)
		}
	}
	signal(syscall.SIGCONT)
	t.Logf("%d of %d clients were decided by policy, %d never", byPolicy, clients, never)
	// A third each, but for the slots that a range has of two servers.
	if byPolicy < clients/6 || byPolicy > clients/2 || never < clients*4/10 {
		t.Errorf("%d of %d clients were decided by policy and %d never, while one server of three stood still", byPolicy, clients, never)
	}
	back := time.Now()
	servertest.Await(t, "all servers to be found", func() bool { return all() == [clients]int64{} })
	for i, n := range nodes {
		servertest.Await(t, fmt.Sprintf("node %d to say that nothing is lost", i), func() bool { return n.metric(t, lost) == 0 })
	}
	t.Logf("all were decided by the store %s after it went on", time.Since(back).Round(time.Millisecond))

	// One that has just been started says for a while that it does not serve yet.
	servers[1].Kill(t)
	for range 6 {
		all()
	}
	servers[1].Restart(t)
	var rounds, missed int64
	back = time.Now()
	servertest.Await(t, "all servers to be found", func() bool {
		now := all()
		rounds++
		for i, n := range now {
			if others[i] {
				missed += n
			}
		}
		return now == [clients]int64{}
	})
	t.Logf("all were decided by the store %s after the server was started", time.Since(back).Round(time.Millisecond))
	if share := float64(missed) / float64(rounds*int64(never*len(nodes))); share > 0.1 {
		t.Errorf("%.2f of the decisions on the other servers' keys were made by policy", share)
	}
}

// sum adds what came of several rounds.
func sum[A ~[120]int64](rounds ...A) (all A) {
	for _, r := range rounds {
		for i, n := range r {
			all[i] += n
		}
	}
	return all
}
