package redis

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/store/storetest"
)

// urlOf returns the URL of servers.
func urlOf(scheme string, servers []*servertest.RedisServer) string {
	var hosts []string
	for _, s := range servers {
		hosts = append(hosts, s.Addr)
	}
	return scheme + "://" + strings.Join(hosts, ",")
}

// In a cluster the keys of most requests of the suite are in several slots.
func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := servertest.RedisCluster(t, 3)
	url := urlOf("redis+cluster", nodes[:2])
	storetest.Run(t, openAt(url), storetest.Options{RefundsLast: true, Brief: true})
	t.Run("least privilege", func(t *testing.T) {
		for _, n := range nodes {
			n.Do(t, append([]string{"ACL", "SETUSER", "weir", "on", ">pass", "~weir:*", "+cluster|slots", "+cluster|shards"}, strings.Fields(leastPrivilege)...)...)
		}
		s := open(t, strings.Replace(url, "://", "://weir:pass@", 1), Options{Prefix: "weir", Timeout: long})
		if _, err := s.TakeOne(t.Context(), "k", perHour(t, 3, algorithm.TokenBucket), 1); err != nil {
			t.Error(err)
		}
	})
	t.Run("one stalled", func(t *testing.T) { clusterStall(t, nodes[:3]) })
	t.Run("half a slot", func(t *testing.T) { halfMoved(t, nodes[:3]) })
	t.Run("slot migration", func(t *testing.T) { slotMigration(t, nodes[:3]) })
	t.Run("failover", func(t *testing.T) { clusterFailover(t, nodes) })
}

func newRing(t *testing.T, n int) []*servertest.RedisServer {
	t.Helper()
	servers := make([]*servertest.RedisServer, n)
	for i := range servers {
		servers[i] = servertest.Redis(t)
	}
	return servers
}

func TestRing(t *testing.T) {
	t.Parallel()
	url := urlOf("redis+ring", newRing(t, 3))
	storetest.Run(t, openAt(url), storetest.Options{RefundsLast: true, Brief: true})
}
