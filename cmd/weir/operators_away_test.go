package main_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Whatever an operator changes while the store is away: it is refused in words that name
// the store, what was changed and what helps, of a Redis as it was given, and the log has
// why.
func TestOperatorsAreToldThatTheStoreIsAway(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) (url string, servers []*servertest.RedisServer){
		"single": func(t *testing.T) (string, []*servertest.RedisServer) {
			r := servertest.Redis(t)
			return "redis://" + r.Addr, []*servertest.RedisServer{r}
		},
		"Sentinel": func(t *testing.T) (string, []*servertest.RedisServer) {
			primary, replica, sentinels := servertest.RedisSentinels(t)
			return "redis+sentinel://" + sentinels[0].Addr + "/primary", append(sentinels, replica, primary)
		},
		"cluster": func(t *testing.T) (string, []*servertest.RedisServer) {
			all := servertest.RedisCluster(t, 3)
			return "redis+cluster://" + all[0].Addr, all
		},
		"ring": func(t *testing.T) (string, []*servertest.RedisServer) {
			a, b := servertest.Redis(t), servertest.Redis(t)
			return "redis+ring://" + a.Addr + "," + b.Addr, []*servertest.RedisServer{a, b}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, servers := start(t)
			n := serve(t, "--rules", servertest.File(t, "rules.yaml", keyRules), "--store", url)
			for _, s := range servers {
				s.Kill(t)
			}
			key := []string{"client_id=acme", "--limit", "per_day"}
			changes := [][]string{
				append([]string{"key", "ban", "--for", "1h"}, key...), append([]string{"key", "unban"}, key...),
				{"key", "ban", "client_id=acme", "--whole-domain", "--for", "1h"},
				append([]string{"key", "allow", "--for", "1h"}, key...), append([]string{"key", "disallow"}, key...),
				{"key", "override", "client_id=acme", "5/day", "--limit", "per_day"}, append([]string{"key", "override", "--remove"}, key...),
				append([]string{"key", "reset"}, key...), {"key", "grant", "client_id=acme", "5", "--limit", "per_day"},
				{"promote", "api/client_id", "--to", "shadow", "--reason", "x", "--limit", "per_day"},
			}
			if name != "single" { // a ban, a reset and a grant
				changes = [][]string{changes[0], changes[7], changes[8]}
			}
			for _, change := range changes {
				out, code := n.operate(t, change...)
				told := strings.Contains(out, "the store is down, so nothing was changed; start it again")
				if change[1] == "grant" {
					told = strings.Contains(out, "whether the change was made shows the next look at the key")
				}
				if code != 2 || !told || strings.Contains(out, "ring") || strings.Contains(out, "cluster") || strings.Contains(out, "nothing was decided") {
					t.Errorf("weir %q: %d %s", change, code, out)
				}
			}
			if name == "single" && (strings.Contains(n.Output(), "cluster") || strings.Contains(n.Output(), "ring_on_loss")) {
				t.Errorf("the log of a node with one Redis tells of others:\n%s", n.Output())
			}
		})
	}
}

// Units that are granted while Redis does not answer are given back once, when it does,
// and the operator is told that this is not known.
func TestGrantWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	n := serve(t, "--rules", servertest.File(t, "rules.yaml", keyRules), "--store", "redis://"+redis.Addr)
	body := `{"domain":"api","descriptors":[{"entries":{"alone":"acme"}}],"cost":5}`
	if status, text := post(t, n.http+"/v1/check", body); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	if err := redis.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	out, code := n.operate(t, "key", "grant", "alone=acme", "3")
	if code != 2 || !strings.Contains(out, "whether the change was made shows the next look at the key") {
		t.Errorf("%d %s", code, out)
	}
	if err := redis.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	servertest.Await(t, "the units to be given back", func() bool {
		out, _ := n.operate(t, "key", "inspect", "alone=acme")
		return strings.Contains(out, "remaining    3\n")
	})
	servertest.Await(t, "the grant to be in the audit log", func() bool {
		out, _ := n.operate(t, "audit")
		return strings.Contains(out, "3 are given back when the store answers")
	})
}
