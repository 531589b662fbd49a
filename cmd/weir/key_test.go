package main_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

const keyRules = `
domain: api
descriptors:
  - key: client_id
    limits:
      - {name: per_minute, limit: 5/minute, algorithm: token_bucket}
      - {name: per_day, limit: 1000/day, algorithm: fixed_window}
  - {key: alone, limit: 5/hour, algorithm: sliding_log}
  - {key: leased, limit: 1000/day, algorithm: fixed_window}
`

// key runs weir key against n and returns what it says.
func (n *testNode) key(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(binary, append([]string{"key", "--admin", n.admin, "--timeout", "20s"}, args...)...).CombinedOutput()
	if err != nil {
		t.Errorf("weir key %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// allows peeks whether cost units of a client would pass.
func (n *testNode) allows(t *testing.T, client string, cost int) bool {
	t.Helper()
	status, text := post(t, n.http+"/v1/peek", fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":{"client_id":%q}}],"cost":%d}`, client, cost))
	if status != 200 {
		t.Fatalf("%s: %d %s", client, status, text)
	}
	return strings.HasPrefix(text, `{"allowed":true`)
}

// Two nodes on one real Redis: bans and overrides that are set on one hold on the
// other soon, survive a restart of both, hold while Redis stands
// still, and end when they are lifted on either.
func TestKeysOnTwoNodes(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	args := []string{"--rules", servertest.File(t, "rules.yaml", keyRules), "--store", "redis://" + redis.Addr + "?timeout=5s"}
	a, b := serve(t, args...), serve(t, args...)
	// within waits for n to allow cost units of a client, or no more.
	within := func(n *testNode, client string, cost int, want bool) {
		t.Helper()
		begin := time.Now()
		servertest.Await(t, fmt.Sprintf("%d units of %s to be allowed: %t", cost, client, want), func() bool { return n.allows(t, client, cost) == want })
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("%s: seen on the other node after %s", client, took)
		}
	}
	if out := a.key(t, "ban", "client_id=bad", "--limit", "per_day", "2h"); !strings.Contains(out, "client_id=bad is banned\nnow: refused") ||
		!strings.Contains(out, "enforce per_minute") || !strings.Contains(out, "banned       until") {
		t.Errorf("ban says %s", out)
	}
	within(b, "bad", 1, false)
	if out := b.key(t, "override", "client_id=acme", "--limit", "per_minute", "500/minute", "--burst", "600", "--for", "30d"); !strings.Contains(out, "(500/minute, burst 600, token_bucket)") ||
		!strings.Contains(out, "overridden   by 500/minute burst 600 until") {
		t.Errorf("override says %s", out)
	}
	within(a, "acme", 600, true)
	if !a.allows(t, "good", 5) || a.allows(t, "good", 6) {
		t.Error("another key has another limit")
	}
	for _, n := range []*testNode{a, b} {
		if _, text := get(t, n.admin+"/v1/rules"); !strings.Contains(text, `"kind":"ban"`) || !strings.Contains(text, `"rate":"500/minute"`) {
			t.Errorf("/v1/rules: %s", text)
		}
	}
	if out, err := exec.Command(binary, "explain", "--admin", a.admin, "client_id=acme").CombinedOutput(); err != nil ||
		!strings.Contains(string(out), `overrides: {"acme": {limit: 500/minute, algorithm: token_bucket, burst: 600}}`) {
		t.Errorf("explain: %v\n%s", err, out)
	}
	servertest.Await(t, "the change to be in the log", func() bool {
		out := b.Output()
		return strings.Contains(out, `"msg":"limit of a key overridden"`) && strings.Contains(out, `"by":"127.0.0.1"`)
	})

	// What both nodes refuse, and remember that they do, is forgotten on one.
	take := func(n *testNode, want int) {
		t.Helper()
		for i := range 6 {
			_, text := post(t, n.http+"/v1/check", `{"domain":"api","descriptors":[{"entries":{"alone":"spent"}}]}`)
			if got := strings.HasPrefix(text, `{"allowed":true`); got != (i < want) {
				t.Errorf("check %d of %d: %s", i, want, text)
			}
		}
	}
	has := func(n *testNode, want int) {
		t.Helper()
		servertest.Await(t, fmt.Sprintf("%d units to be back on the other node", want), func() bool {
			_, text := post(t, n.http+"/v1/peek", fmt.Sprintf(`{"domain":"api","descriptors":[{"entries":{"alone":"spent"}}],"cost":%d}`, want))
			return strings.HasPrefix(text, `{"allowed":true`)
		})
	}
	take(a, 5)
	take(b, 0)
	a.key(t, "reset", "alone=spent")
	take(a, 5)
	a.key(t, "reset", "alone=spent")
	has(b, 5)
	// Not more than untouched.
	if out := a.key(t, "grant", "alone=spent", "1"); !strings.Contains(out, "remaining    5") {
		t.Errorf("grant says %s", out)
	}

	// What a node has fetched ahead goes with the count.
	holds := func(n *testNode) bool {
		_, text := get(t, n.admin+"/metrics")
		return !strings.Contains(text, "weir_shared_store_lease_units 0\n")
	}
	ask(t, []*testNode{a}, 60, "leased")
	if !holds(a) {
		t.Error("the node has fetched nothing ahead")
	}
	a.key(t, "reset", "leased=k")
	if holds(a) {
		t.Error("what was fetched is still there after a reset")
	}

	// Both restart; then one does alone, while the other goes on.
	for _, n := range []*testNode{a, b} {
		n.end(t)
	}
	a, b = serve(t, args...), serve(t, args...)
	for _, n := range []*testNode{a, b} {
		if n.allows(t, "bad", 1) || !n.allows(t, "acme", 600) {
			t.Error("lost with a restart")
		}
	}
	// While Redis stands still a ban refuses without asking it.
	if err := redis.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if a.allows(t, "bad", 1) {
		t.Error("a ban ended with Redis")
	}
	if err := redis.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// Lifted on the other node.
	a.key(t, "unban", "client_id=bad", "--limit", "per_day")
	a.key(t, "override", "client_id=acme", "--limit", "per_minute", "--remove")
	servertest.Await(t, "both to be lifted on the other node", func() bool { return b.allows(t, "bad", 1) && !b.allows(t, "acme", 6) })

	// A ban ends by itself.
	a.key(t, "ban", "client_id=short", "--limit", "per_day", "2s")
	if a.allows(t, "short", 1) {
		t.Error("not banned")
	}
	servertest.Await(t, "the ban to end", func() bool { return a.allows(t, "short", 1) && b.allows(t, "short", 1) })
}

// asks has each node asked by descriptors, and reports whether one allows it and whether
// one says that the client is banned.
func asks(t *testing.T, nodes []*testNode, domain, descriptors string) (allowed, banned bool) {
	t.Helper()
	for _, n := range nodes {
		status, text := post(t, n.http+"/v1/check", fmt.Sprintf(`{"domain":%q,"descriptors":[%s]}`, domain, descriptors))
		if status != 200 {
			t.Fatalf("%s: %d %s", descriptors, status, text)
		}
		allowed = allowed || strings.HasPrefix(text, `{"allowed":true`)
		banned = banned || strings.Contains(text, `"banned":true`)
	}
	return allowed, banned
}

// Two nodes on one Redis: a ban of a client over its domain that is set on one refuses
// it on both, under every rule, under none and beside others, and nobody else. It is
// kept over restarts, while Redis stands still, while it is dead, and when it comes back
// empty; it is lifted on either node, and ends by itself.
func TestFamilyDomainBansOnTwoNodes(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	args := []string{"--rules", servertest.File(t, "rules.yaml", keyRules+"  - {key: path, limit: 1000/day, algorithm: fixed_window, consistency: strict}\n"),
		"--store", "redis://" + redis.Addr + "?timeout=5s"}
	nodes := []*testNode{serve(t, args...), serve(t, args...)}
	a, b := nodes[0], nodes[1]
	const bad = `{"entries":[{"key":"client_id","value":"bad"}]}`
	carry := []string{
		bad,
		`{"entries":[{"key":"path","value":"/"}]},` + bad,
		`{"entries":[{"key":"none","value":"1"},{"key":"client_id","value":"bad"}]}`,
		`{"entries":[{"key":"leased","value":"k"},{"key":"client_id","value":"bad"}]}`,
	}
	others := []string{
		`{"entries":[{"key":"client_id","value":"good"}]}`,
		`{"entries":[{"key":"client_id","value":"bad "}]}`,
		`{"entries":[{"key":"path","value":"bad"}]}`,
		`{"entries":[{"key":"leased","value":"bad"}]}`,
	}
	refused := func(what string) {
		t.Helper()
		for _, d := range carry {
			if allowed, banned := asks(t, nodes, "api", d); allowed || !banned {
				t.Errorf("%s: %s: allowed %t, banned %t", what, d, allowed, banned)
			}
		}
	}
	passes := func(what string) {
		t.Helper()
		for _, d := range others {
			for _, n := range nodes {
				if _, banned := asks(t, []*testNode{n}, "api", d); banned {
					t.Errorf("%s: %s is banned", what, d)
				}
			}
		}
		if allowed, banned := asks(t, nodes, "other", bad); !allowed || banned {
			t.Errorf("%s: another domain: allowed %t, banned %t", what, allowed, banned)
		}
	}
	// soon waits until every node refuses the client of a descriptor, or none does.
	soon := func(d string, banned bool) {
		t.Helper()
		begin := time.Now()
		for _, n := range nodes {
			servertest.Await(t, fmt.Sprintf("a node to hear that %s is banned: %t", d, banned), func() bool {
				_, is := asks(t, []*testNode{n}, "api", d)
				return is == banned
			})
		}
		// A second, and what a busy machine takes.
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("%s: banned %t on the other node after %s", d, banned, took)
		}
	}
	if out := a.key(t, "ban", "client_id=bad", "--whole-domain", "2h"); !strings.Contains(out, "is banned") {
		t.Errorf("ban says %s", out)
	}
	soon(bad, true)
	refused("banned on one node")
	passes("banned on one node")
	for _, n := range nodes {
		if out := n.key(t, "inspect", "client_id=bad", "--limit", "per_day"); !strings.Contains(out, "banned") {
			t.Errorf("inspect says %s", out)
		}
	}

	for _, n := range nodes {
		n.end(t)
	}
	for i := range nodes {
		nodes[i] = serve(t, args...)
	}
	a, b = nodes[0], nodes[1]
	refused("after a restart of both")
	passes("after a restart of both")

	if err := redis.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	refused("while Redis stands still")
	if err := redis.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}

	redis.Kill(t)
	refused("while Redis is dead")
	redis.Restart(t)
	servertest.Await(t, "the ban to be put back", func() bool {
		got, err := redis.Try("GETRANGE", "weir:{overlay}", "0", "-1")
		return err == nil && strings.Contains(fmt.Sprintf("%s", got), "bad")
	})
	refused("when Redis is back, empty")

	// Lifted on the other node, which may still have connections to the dead server.
	servertest.Await(t, "a node to reach Redis", func() bool {
		_, code := b.operate(t, "key", "unban", "client_id=bad", "--whole-domain")
		return code == 0
	})
	soon(bad, false)
	for _, d := range carry {
		for _, n := range nodes {
			if _, banned := asks(t, []*testNode{n}, "api", d); banned {
				t.Errorf("lifted: %s is banned", d)
			}
		}
	}

	// Set on the one, ended by itself on both; a restart meanwhile does not prolong it.
	const short = `{"entries":[{"key":"client_id","value":"short"}]}`
	b.key(t, "ban", "client_id=short", "--whole-domain", "4s")
	if _, banned := asks(t, []*testNode{b}, "api", short); !banned {
		t.Error("not banned where the ban was set")
	}
	a.end(t)
	nodes[0] = serve(t, args...)
	soon(short, false)
}

// end ends a node as an operator does.
func (n *testNode) end(t *testing.T) {
	t.Helper()
	if err := n.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, err := n.Wait(t.Context()); err != nil || code != 0 {
		t.Fatalf("exit status %d, %v", code, err)
	}
}

// Redis dies and comes back empty: what the nodes know holds all the while and is
// put back. Changes on both nodes at once are all there, and hostile documents
// end no node.
func TestKeysThroughTrouble(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	args := []string{"--rules", servertest.File(t, "rules.yaml", keyRules), "--store", "redis://" + redis.Addr + "?timeout=5s"}
	nodes := []*testNode{serve(t, args...), serve(t, args...)}
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			nodes[i%2].key(t, "ban", fmt.Sprintf("client_id=c%d", i), "--limit", "per_day", "1h")
		})
	}
	all.Wait()
	know := func(n *testNode, want int) func() bool {
		return func() bool {
			_, text := get(t, n.admin+"/v1/rules")
			return strings.Count(text, `"kind":"ban"`) == want
		}
	}
	for i, n := range nodes {
		servertest.Await(t, fmt.Sprintf("node %d to know all bans", i), know(n, 12))
	}

	redis.Kill(t)
	for _, n := range nodes {
		if n.allows(t, "c3", 1) {
			t.Error("a ban ended with Redis")
		}
	}
	out, err := exec.Command(binary, "key", "ban", "client_id=late", "--limit", "per_day", "1h", "--admin", nodes[0].admin, "--timeout", "20s").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "503") || !strings.Contains(string(out), "the store is down, so nothing was changed") || strings.Contains(string(out), "ring_on_loss") {
		t.Errorf("a change while Redis is down: %v\n%s", err, out)
	}
	// On this node alone it is banned, now and when Redis is back, until it is unbanned.
	if out, code := nodes[0].operate(t, "key", "ban", "client_id=late", "--limit", "per_day", "1h", "--here"); code != 0 || !strings.Contains(out, "client_id=late is banned on this node alone\nnow: refused") {
		t.Errorf("%d %s", code, out)
	}
	if nodes[0].allows(t, "late", 1) || !nodes[1].allows(t, "late", 1) {
		t.Error("a ban of one node alone holds on the other, or not on its own")
	}
	redis.Restart(t)
	servertest.Await(t, "the bans to be put back", func() bool {
		got, err := redis.Try("GETRANGE", "weir:{overlay}", "0", "-1")
		return err == nil && strings.Count(fmt.Sprintf("%s", got), `"kind":"ban"`) == 12
	})
	// The other node's connections may still be those to the Redis that was killed.
	servertest.Await(t, "a node to reach Redis", func() bool {
		return exec.Command(binary, "key", "ban", "client_id=c11", "--limit", "per_day", "1h", "--admin", nodes[1].admin, "--timeout", "20s").Run() == nil
	})

	// The first node may find out later that Redis is back.
	servertest.Await(t, "the ban of one node alone to be in the audit log", func() bool {
		_, text := get(t, nodes[0].admin+"/v1/admin/audit")
		return strings.Contains(text, "on this node alone")
	})
	if nodes[0].allows(t, "late", 1) {
		t.Error("a ban of one node alone is gone with the outage")
	}
	if out, code := nodes[0].operate(t, "key", "unban", "client_id=late", "--limit", "per_day"); code != 0 || !nodes[0].allows(t, "late", 1) {
		t.Errorf("a ban of one node alone is not lifted for all: %d %s", code, out)
	}

	for _, hostile := range [][]string{
		{"SET", "weir:{overlay}", "garbage"},
		{"SET", "weir:{overlay}", "8000000000000000" + strings.Repeat("[", 100_000)},
		{"SET", "weir:{overlay}", `8000000000000001{"format":1,"entries":[{"kind":"ban"}]}`},
		{"HSET", "weir:{overlay}", "a", "b"},
	} {
		redis.Do(t, "DEL", "weir:{overlay}")
		redis.Do(t, hostile...)
		out, err := exec.Command(binary, "key", "unban", "client_id=c3", "--limit", "per_day", "--admin", nodes[1].admin, "--timeout", "20s").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "delete it") {
			t.Errorf("%.60q: %v\n%s", hostile, err, out)
		}
	}
	for i, n := range nodes {
		servertest.Await(t, fmt.Sprintf("node %d to notice", i), func() bool { return strings.Contains(n.Output(), "operator changes cannot be read") })
		if n.allows(t, "c3", 1) || !n.allows(t, "good", 1) {
			t.Errorf("node %d lost what it knew", i)
		}
	}
	redis.Do(t, "DEL", "weir:{overlay}")
	servertest.Await(t, "a node to change bans again", func() bool {
		return exec.Command(binary, "key", "unban", "client_id=c3", "--limit", "per_day", "--admin", nodes[1].admin, "--timeout", "20s").Run() == nil
	})
	for i, n := range nodes {
		servertest.Await(t, fmt.Sprintf("node %d to know that one is lifted", i), know(n, 11))
	}
}

// Without Redis bans and overrides are the node's own, and a file keeps them.
func TestKeysInAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "overlay.json")
	args := []string{"--rules", servertest.File(t, "rules.yaml", keyRules), "--overlay", file}
	n := serve(t, args...)
	n.key(t, "override", "client_id=acme", "--limit", "per_minute", "500/minute")
	n.end(t)
	if n = serve(t, args...); !n.allows(t, "acme", 500) {
		t.Error("lost with a restart")
	}
	n.end(t)
	redis := servertest.Redis(t)
	out, err := exec.Command(binary, append([]string{"serve", "--http", "127.0.0.1:0", "--admin", "", "--store", "redis://" + redis.Addr + "?timeout=5s"}, args...)...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--overlay: this store keeps bans, overrides and modes for all nodes: leave the file out") {
		t.Errorf("with Redis: %v\n%s", err, out)
	}
}
