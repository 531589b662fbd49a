package servertest

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// slots of a cluster.
const slots = 16384

// RedisCluster starts a cluster of primaries, each with one replica, all with further
// arguments, and waits until it serves all slots. The primaries come first, in the order
// of their slots, then their replicas.
func RedisCluster(t testing.TB, primaries int, more ...string) []*RedisServer {
	t.Helper()
	nodes := make([]*RedisServer, 2*primaries)
	for i := range nodes {
		args := []string{"--cluster-enabled", "yes", "--cluster-node-timeout", "3000", "--cluster-replica-validity-factor", "0"}
		nodes[i] = Redis(t, append(args, more...)...)
		// Before they meet, or they would have to agree on it first.
		nodes[i].Do(t, "CLUSTER", "SET-CONFIG-EPOCH", fmt.Sprint(i+1))
	}
	for i, n := range nodes[:primaries] {
		add := []string{"CLUSTER", "ADDSLOTS"}
		for slot := i * slots / primaries; slot < (i+1)*slots/primaries; slot++ {
			add = append(add, fmt.Sprint(slot))
		}
		n.Do(t, add...)
	}
	for _, n := range nodes[1:] {
		host, port, _ := strings.Cut(n.Addr, ":")
		nodes[0].Do(t, "CLUSTER", "MEET", host, port)
	}
	for i, n := range nodes {
		Await(t, "the cluster to meet", func() bool {
			return n.fact(t, "CLUSTER", "cluster_known_nodes") == fmt.Sprint(len(nodes))
		})
		if i < primaries {
			continue
		}
		id := fmt.Sprint(nodes[i-primaries].Do(t, "CLUSTER", "MYID"))
		Await(t, "a replica to know its primary", func() bool {
			_, err := n.Try("CLUSTER", "REPLICATE", id)
			return err == nil
		})
	}
	for i, n := range nodes {
		Await(t, "the cluster to serve", func() bool {
			return n.fact(t, "CLUSTER", "cluster_state") == "ok" &&
				strings.Count(fmt.Sprint(n.Do(t, "CLUSTER", "NODES")), "slave") == primaries &&
				(i < primaries || n.fact(t, "", "master_link_status") == "up")
		})
	}
	return nodes
}

// fact returns one fact of INFO, or of the INFO of a command.
func (s *RedisServer) fact(t testing.TB, command, name string) string {
	t.Helper()
	args := []string{"INFO"}
	if command != "" {
		args = []string{command, "INFO"}
	}
	for line := range strings.Lines(fmt.Sprint(s.Do(t, args...))) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Fact returns a fact of INFO by its name, empty if there is none.
func (s *RedisServer) Fact(t testing.TB, name string) string {
	t.Helper()
	return s.fact(t, "", name)
}

// RedisSentinels starts a primary, a replica, and three Sentinels that watch over
// them under the name "primary", and waits until all know each other. The primary has
// further arguments.
func RedisSentinels(t testing.TB, more ...string) (primary, replica *RedisServer, sentinels []*RedisServer) {
	t.Helper()
	primary = Redis(t, more...)
	host, port, _ := strings.Cut(primary.Addr, ":")
	replica = Redis(t, "--replicaof", host+" "+port)
	Await(t, "the replica to follow", func() bool { return replica.fact(t, "", "master_link_status") == "up" })
	for range 3 {
		sentinels = append(sentinels, startSentinel(t, primary.Addr, 2, "port %d", nil))
	}
	for _, s := range sentinels {
		// They look every ten seconds and talk every two; servers before Redis 7 know
		// no other way.
		_, _ = s.Try("SENTINEL", "DEBUG", "info-period", "200", "publish-period", "200")
	}
	for _, s := range sentinels {
		Await(t, "the Sentinels to know each other", func() bool {
			return strings.Contains(s.fact(t, "", "master0"), "slaves=1,sentinels=3")
		})
	}
	return primary, replica, sentinels
}

// SentinelTLS starts a Sentinel that watches over a primary of RedisTLS under the name
// "primary", and speaks TLS by the same files.
func SentinelTLS(t testing.TB, primary *RedisServer, certFile, keyFile string, pair tls.Certificate) *RedisServer {
	t.Helper()
	port := fmt.Sprintf("port 0\ntls-port %%d\ntls-replication yes\ntls-cert-file %s\ntls-key-file %s\ntls-ca-cert-file %s", certFile, keyFile, certFile)
	return startSentinel(t, primary.Addr, 1, port, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}})
}

// startSentinel starts a Sentinel of so many that must agree; port is how it is told its own.
func startSentinel(t testing.TB, primary string, quorum int, port string, conf *tls.Config) *RedisServer {
	t.Helper()
	host, watched, _ := strings.Cut(primary, ":")
	return startRedis(t, func(own int, dir string) []string {
		path := filepath.Join(dir, "sentinel.conf")
		text := fmt.Sprintf(port+`
bind 127.0.0.1
dir %s
loglevel warning
sentinel monitor primary %s %s %d
sentinel down-after-milliseconds primary 500
sentinel failover-timeout primary 2000
`, own, dir, host, watched, quorum)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{path, "--sentinel"}
	}, conf, "")
}
