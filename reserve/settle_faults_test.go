package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/seeds"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/params"
	"github.com/weirlimit/weir/reserve"
	"github.com/weirlimit/weir/store/memory"
	"github.com/weirlimit/weir/store/redis"
	"github.com/weirlimit/weir/store/shared"
)

// A storm is servers that stand still, lose their connections and die or hand over, without
// the loss of a write that was acknowledged.
type storm struct {
	*testing.T
	url     string
	isRing  bool
	servers []*servertest.RedisServer // that keep the counters
	// handOver has another server go on for one of them, or starts one again that has died.
	handOver func(r *rand.Rand)
}

// fact returns a fact of INFO, empty if the server does not answer: a Sentinel closes the
// connections of those that change places.
func fact(s *servertest.RedisServer, name string) string {
	text, _ := s.Try("INFO")
	for line := range strings.Lines(fmt.Sprint(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// durable are the arguments of a server that has on disk what it has acknowledged.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

// revived returns servers that are started again after they were killed.
func revived(t *testing.T, scheme string, n int) *storm {
	m := &storm{T: t, isRing: n > 1}
	var hosts []string
	for range n {
		s := servertest.Redis(t, durable...)
		m.servers, hosts = append(m.servers, s), append(hosts, s.Addr)
	}
	m.url = scheme + "://" + strings.Join(hosts, ",")
	m.handOver = func(r *rand.Rand) {
		s := m.servers[r.IntN(n)]
		s.Kill(t)
		s.Restart(t)
	}
	return m
}

// catchUp has a replica s get all that its primary p has, and p carry out no more until
// goOn: a failover that is asked for again and again, by who stands still at times, is not
// sure to lose nothing by itself.
func catchUp(t *testing.T, p, s *servertest.RedisServer) {
	servertest.Await(t, "the replica to follow", func() bool { return fact(s, "master_link_status") == "up" })
	servertest.Await(t, "the replica to have all", func() bool {
		_, err := p.Try("CLIENT", "PAUSE", "300000", "WRITE")
		return err == nil && fact(s, "slave_repl_offset") == fact(p, "master_repl_offset")
	})
}

// goOn ends the pause of a server that is a replica now.
func goOn(t *testing.T, p *servertest.RedisServer) {
	servertest.Await(t, "it to go on", func() bool {
		_, err := p.Try("CLIENT", "UNPAUSE")
		return err == nil
	})
}

// watched returns a primary and a replica with Sentinels, which change places.
func watched(t *testing.T) *storm {
	primary, replica, sentinels := servertest.RedisSentinels(t)
	for _, s := range sentinels { // a primary that stands still for a moment has the latest writes alone
		s.Do(t, "SENTINEL", "SET", "primary", "down-after-milliseconds", "30000")
	}
	m := &storm{T: t, servers: []*servertest.RedisServer{primary, replica}}
	m.url = "redis+sentinel://" + sentinels[0].Addr + "," + sentinels[1].Addr + "," + sentinels[2].Addr + "/primary"
	m.handOver = func(*rand.Rand) {
		p, s := m.servers[0], m.servers[1]
		// A Sentinel gives a failover up when it has heard nothing of the replica for long, as on
		// a busy host: the primary goes on before it is asked for again.
		servertest.Await(t, "the replica to be the primary", func() bool {
			catchUp(t, p, s)
			isPrimary := handedOver(sentinels[0], s)
			if !isPrimary {
				goOn(t, p)
			}
			return isPrimary
		})
		host, port, _ := strings.Cut(s.Addr, ":")
		servertest.Await(t, "the primary to follow", func() bool {
			_, _ = p.Try("REPLICAOF", host, port) // as Sentinels do when it waits no longer
			return fact(p, "role") == "slave"
		})
		goOn(t, p)
		m.servers[0], m.servers[1] = s, p
	}
	return m
}

// handedOver has a Sentinel make s the primary, and reports whether it did, once it tries no
// longer.
func handedOver(sentinel, s *servertest.RedisServer) bool {
	_, _ = sentinel.Try("SENTINEL", "FAILOVER", "primary") // it may be put off
	for {
		if fact(s, "role") == "master" {
			return true
		}
		about, err := sentinel.Try("SENTINEL", "MASTER", "primary")
		if err != nil || !strings.Contains(fmt.Sprint(about), "failover_in_progress") {
			return fact(s, "role") == "master"
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// slotted returns a cluster whose primaries hand over to their replicas.
func slotted(t *testing.T) *storm {
	nodes := servertest.RedisCluster(t, 3)
	m := &storm{T: t, servers: nodes, url: "redis+cluster://" + nodes[0].Addr + "," + nodes[1].Addr}
	m.handOver = func(r *rand.Rand) {
		i := r.IntN(3)
		p, s := m.servers[i], m.servers[i+3]
		catchUp(t, p, s)
		servertest.Await(t, "the replica to be the primary", func() bool {
			// As the replica has all, no more is to be agreed on: in an election soon after one
			// that it won, Redis 7.0 counts the votes of that again, and what it then
			// acknowledges is lost as soon as others see the old epoch.
			_, _ = s.Try("CLUSTER", "FAILOVER", "TAKEOVER")
			return fact(s, "role") == "master" && fact(p, "role") == "slave"
		})
		goOn(t, p)
		m.servers[i], m.servers[i+3] = s, p
	}
	return m
}

// blow has something go wrong, and mends it.
func (m *storm) blow(r *rand.Rand) {
	s := m.servers[r.IntN(len(m.servers))]
	if r.IntN(3) == 0 {
		_, _ = s.Try("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		return
	}
	if err := s.Signal(syscall.SIGSTOP); err != nil {
		m.Error(err)
	}
	time.Sleep(time.Duration(5+r.IntN(396)) * time.Millisecond)
	if err := s.Signal(syscall.SIGCONT); err != nil {
		m.Error(err)
	}
}

// rage has things go wrong, and counts them, until it is to be calm.
func (m *storm) rage(seed uint64) (faults *atomic.Int64, calm func()) {
	faults = new(atomic.Int64)
	var blowing sync.WaitGroup
	done := make(chan struct{})
	blowing.Go(func() {
		r := rand.New(rand.NewPCG(seed, 1000))
		for n := 1; ; n++ {
			select {
			case <-done:
				return
			case <-time.After(time.Duration(r.IntN(100)) * time.Millisecond):
			}
			if m.blow(r); n%8 == 2 {
				m.handOver(r)
			}
			faults.Store(int64(n))
		}
	})
	return faults, func() {
		close(done)
		blowing.Wait()
	}
}

// store returns a store on the servers.
func (m *storm) store() (s *redis.Store) {
	// Sentinels may name a server for a moment that is no primary yet.
	servertest.Await(m.T, "the store to be open", func() bool {
		var err error
		s, err = redis.Open(context.Background(), m.url, redis.Options{Prefix: "storm", Timeout: 100 * time.Millisecond})
		return err == nil
	})
	return s
}

// node returns a node on a store.
func (m *storm) node(s *redis.Store) *shared.Store {
	local := memory.New(memory.Options{MaxBytes: 1 << 20})
	m.Cleanup(func() { local.Close() })
	node, err := shared.New(s, shared.Options{Local: local, Timeout: 100 * time.Millisecond, ProbeEvery: 20 * time.Millisecond})
	if err != nil {
		m.Fatal(err)
	}
	return node
}

// TestFamilyCommitsUnderFaults makes reservations over two keys and commits below and above
// their estimates, while servers stand still for 5 to 400 ms, lose their connections, and
// fail over: each key is charged exactly what was committed (with leases no less), the same call again is answered
// alike, and another cost is refused with what was settled.
func TestFamilyCommitsUnderFaults(t *testing.T) {
	each := 400
	switch {
	case os.Getenv("WEIR_SOAK") != "":
		each = 3000
	case testing.Short():
		each = 100
	}
	ring := func(t *testing.T) *storm { return revived(t, "redis+ring", 2) }
	for _, where := range []struct {
		name string
		open func(*testing.T) *storm
		mode params.ConsistencyMode
	}{
		{"single", func(t *testing.T) *storm { return revived(t, "redis", 1) }, params.ConsistencyStrict},
		{"sentinel", watched, params.ConsistencyStrict},
		{"cluster", slotted, params.ConsistencyStrict},
		{"ring", ring, params.ConsistencyStrict},
		{"ring leased", ring, params.ConsistencyLeased},
	} {
		t.Run(where.name, func(t *testing.T) {
			t.Parallel()
			commitUnderFaults(t, where.open(t), where.mode, each)
		})
	}
}

// A committer commits reservations on nodes that share a store.
type committer struct {
	*testing.T
	limit  *weir.Limit
	nodes  [2]*reserve.Reserver
	tries  atomic.Int64 // in vain
	ending time.Time
}

const stormyCount, stormyCost = 1000, 200

// until calls f until it returns true.
func (c *committer) until(what string, f func() bool) {
	for !f() {
		if c.tries.Add(1); time.Now().After(c.ending) {
			c.Errorf("%s: not in time", what)
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// reserve makes the i-th reservation, of keys that nobody has used, and returns them.
func (c *committer) reserve(i int) (handle string, keys [2]string) {
	try := 0
	c.until("reserve", func() bool {
		try++
		r := request(stormyCost)
		for k := range keys {
			keys[k] = fmt.Sprintf("%d of %d, try %d", k, i, try)
			r.Descriptors = append(r.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "key", Value: keys[k]}}})
		}
		res, err := c.nodes[i%2].Reserve(context.Background(), r)
		for _, o := range r.Ops() {
			if o.Decision.Degraded() {
				return false // a server of a ring counts for another
			}
		}
		handle = res.Handle
		return err == nil && handle != ""
	})
	return handle, keys
}

// settle commits a handle until it is heard that it is settled, and checks with what.
func (c *committer) settle(r *rand.Rand, handle string, cost, want int64) {
	c.until("settle", func() bool {
		got, err := c.nodes[r.IntN(2)].Commit(context.Background(), handle, cost)
		isSettled := errors.Is(err, reserve.ErrSettled)
		if err != nil && !isSettled {
			if !errors.Is(err, reserve.ErrUnavailable) && !errors.Is(err, redis.ErrBusy) {
				c.Log(err)
			}
			return false
		}
		if isSettled != (cost != want) || got.Actual != want || got.Reserved != stormyCost {
			c.Errorf("settled with %d, committed %d: %+v, %v", want, cost, got, err)
		}
		return true
	})
}

func commitUnderFaults(t *testing.T, m *storm, mode params.ConsistencyMode, each int) {
	const workers, leastFaults = 24, 6
	c := &committer{T: t, ending: time.Now().Add(5*time.Minute + time.Duration(each)*100*time.Millisecond)}
	c.limit = &weir.Limit{Name: "tokens", Algorithm: algorithm.FixedWindow, Count: stormyCount, Period: 24 * time.Hour,
		Params: params.Params{Anchor: params.AnchorFirst}, Consistency: params.Consistency{Mode: mode, OnStoreError: params.OnErrorDeny}}
	if err := c.limit.Compile(); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	var closers []func() error
	for i := range c.nodes {
		store := m.store()
		node := m.node(store)
		lim, err := weir.New(node, onlyKeys{c.limit}, weir.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if c.nodes[i], err = reserve.New(lim, reserve.Options{Secret: secret}); err != nil {
			t.Fatal(err)
		}
		closers = append(closers, func() error {
			c.nodes[i].Close()
			return errors.Join(node.Close(), store.Close())
		})
	}
	type committed struct {
		keys [2]string
		cost int64
	}
	seed := seeds.Of(t)
	var mu sync.Mutex
	var all []committed // and those under way
	faults, calm := m.rage(seed)
	var workersAll sync.WaitGroup
	for w := range workers {
		workersAll.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			for !t.Failed() {
				mu.Lock()
				i := len(all)
				all = append(all, committed{})
				mu.Unlock()
				if i >= each {
					if faults.Load() >= leastFaults {
						return
					}
					time.Sleep(20 * time.Millisecond) // there are enough, but for the faults
				}
				handle, keys := c.reserve(i)
				cost := []int64{0, r.Int64N(stormyCost), stormyCost, stormyCost + 1 + r.Int64N(500)}[r.IntN(4)]
				mu.Lock()
				all[i] = committed{keys, cost}
				mu.Unlock()
				c.settle(r, handle, cost, cost)
				c.settle(r, handle, cost, cost)
				c.settle(r, handle, cost+1, cost)
			}
		})
	}
	workersAll.Wait()
	calm()
	for _, f := range closers {
		if err := f(); err != nil {
			t.Log(err)
		}
	}
	s := m.store()
	defer s.Close()
	for i, x := range all {
		for _, key := range x.keys {
			if key == "" {
				continue
			}
			c.until("look", func() bool {
				ops := []weir.Op{{Key: key, Limit: c.limit, Verb: weir.Peek}}
				if err := s.Take(ctx, ops); err != nil || ops[0].Decision.Degraded() {
					return false
				}
				// What a node has leased may be lost with an answer.
				if got := stormyCount - ops[0].Decision.Remaining; got < x.cost || got > x.cost && mode == params.ConsistencyStrict {
					t.Errorf("reservation %d, %s: committed %d, charged %d", i, key, x.cost, got)
				}
				return true
			})
		}
	}
	t.Logf("%d reservations, %d faults, %d tries in vain", len(all)-workers, faults.Load(), c.tries.Load())
}
