package fleet

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// A node that is killed while it holds units costs at most what it held, and
// whatever it had not told is within the overshoot.
func TestNodeCrashes(t *testing.T) {
	processes(t)
	redis := servertest.Redis(t)
	nodes := serveMany(t, 2, "redis://"+redis.Addr+patient, rules(t, stageRules(count)...))
	var passed [3]asked
	// The leased limit last: what is held is given back when it lies idle.
	for _, i := range []int{0, 2, 1} {
		passed[i].add(offer(t, nodes[:1], faultModes[i].key(), 100, 5))
	}
	held := nodes[0].metric(t, "weir_shared_store_lease_units")
	if err := nodes[0].Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if held == 0 {
		t.Fatal("the node held nothing: nothing was tested")
	}
	for i, c := range faultModes {
		a := passed[i].add(offer(t, nodes[1:], c.key(), 6*count, 10))
		n, least := float64(a.allowed.Load()), float64(count)
		if c.mode == "leased" {
			// Two fetches, each of a quarter of its share; one may have been under way
			// when the node was asked what it held.
			least -= 2 * count / 2 / 4
		}
		t.Logf("%s: %.0f of %d passed, %d by policy, %.0f were held", c.key(), n, count, a.degraded.Load(), held)
		if n > count*(1+c.over) || n < least {
			t.Errorf("%s: %.0f passed, want %g to %g", c.key(), n, least, count*(1+c.over))
		}
	}
}

// A node that stands still for five seconds, across the end of its leases and of
// their window, spends nothing of them when it goes on, though requests wait for it.
func TestNodePauses(t *testing.T) {
	processes(t)
	inTime(t, 4*time.Second, func(period time.Duration) bool { return standsStill(t, period, period+time.Second) })
}

// standsStill starts two nodes, of which the first pauses.
func standsStill(t *testing.T, period, pause time.Duration) bool {
	redis := servertest.Redis(t)
	all := []cell{
		{algorithm: "fixed_window", mode: "strict"}, {algorithm: "fixed_window", mode: "leased"},
		{algorithm: "fixed_window", mode: "eventual", over: overshoot},
		{algorithm: "token_bucket", mode: "leased"},
	}
	// A window begins soon.
	begin := time.Now().Add(time.Second).Truncate(time.Millisecond)
	phase := begin.Sub(begin.Truncate(period))
	var descriptors []string
	for _, c := range all {
		d := c.descriptor(count, fmt.Sprintf("%ds", int(period.Seconds())))
		if c.algorithm == "fixed_window" {
			d = strings.Replace(d, "fixed_window, consistency", fmt.Sprintf("fixed_window, phase: %dms, consistency", phase.Milliseconds()), 1)
		}
		descriptors = append(descriptors, d)
	}
	nodes := serveMany(t, 2, "redis://"+redis.Addr+patient, rules(t, descriptors...))
	for time.Now().After(begin.Add(period / 8)) {
		begin = begin.Add(period)
	}
	waitUntil(begin.Add(50 * time.Millisecond))
	return pauses(t, nodes, all, begin, period, pause)
}

// pauses lets the first of two nodes stand still from the window that begins at begin
// into the next. It reports false when the machine was too slow to tell.
func pauses(t *testing.T, nodes []*node, all []cell, begin time.Time, period, pause time.Duration) bool {
	for _, c := range all {
		offer(t, nodes[:1], c.key(), 60, 5)
	}
	if nodes[0].metric(t, "weir_shared_store_lease_units") == 0 {
		return false // it was given back before anybody looked
	}
	paused := time.Now()
	signal := func(sig syscall.Signal) {
		t.Helper()
		if err := nodes[0].Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	// In the next window the other node spends all that there is.
	waitUntil(paused.Add(pause - 100*time.Millisecond))
	resumed := time.Now()
	then := make([]*asked, len(all))
	for i, c := range all {
		then[i] = offer(t, nodes[1:], c.key(), 2*count, 10)
	}
	// Connections that the node may find idle for too long are not used again.
	client.CloseIdleConnections()
	var waiting sync.WaitGroup
	late := make([]*asked, len(all))
	for i, c := range all {
		waiting.Go(func() { late[i] = offer(t, nodes[:1], c.key(), 200, 5) })
	}
	waitUntil(paused.Add(pause))
	signal(syscall.SIGCONT)
	waiting.Wait()
	end := time.Now()
	if end.After(begin.Add(2*period - 50*time.Millisecond)) {
		return false
	}
	for i, c := range all {
		n := float64(then[i].allowed.Load() + late[i].allowed.Load())
		most := count * (1 + c.over)
		if c.algorithm == "token_bucket" {
			most = count * (1 + end.Sub(resumed).Seconds()/period.Seconds())
		}
		t.Logf("%s: %.0f of %g passed, %d of them late", c.key(), n, most, late[i].allowed.Load())
		if n > most || n < 0.9*count {
			t.Errorf("%s: %.0f passed, want at most %g", c.key(), n, most)
		}
	}
	return true
}

// While the store is away a node admits what the policy of the limit says; a share
// is the limit divided by the nodes, so that nodes which are all cut off admit at
// most the limit once more.
func TestPoliciesWhileCutOff(t *testing.T) {
	processes(t)
	redis := servertest.Redis(t)
	var descriptors []string
	policies := []string{"deny", "local", "allow", "last_known"}
	modes := []string{"strict", "leased"}
	for _, m := range modes {
		for _, p := range policies {
			d := cell{algorithm: "fixed_window", mode: m}.descriptor(count, "year")
			d = strings.Replace(d, "{key: "+m+"-fixed_window", "{key: "+m+"-"+p, 1)
			descriptors = append(descriptors, strings.Replace(d, "on_store_error: deny", "on_store_error: "+p, 1))
		}
	}
	nodes := serveMany(t, 2, "redis://"+redis.Addr+"?timeout=100ms", rules(t, descriptors...))
	var before asked
	for _, m := range modes {
		for _, p := range policies {
			before.add(offer(t, nodes, m+"-"+p, 100, 10))
		}
	}
	if err := redis.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for _, m := range modes {
		for _, p := range policies {
			const n = 2 * count
			a := offer(t, nodes, m+"-"+p, n, 10)
			got := a.allowed.Load()
			least, most := int64(0), int64(0)
			switch p {
			case "local":
				least, most = 100, count
			case "allow":
				least, most = n, n
			case "last_known":
				// What each node last knew to remain.
				least, most = count-100, 2*count
			}
			if m == "leased" {
				// What is held is spent first, and exact.
				most += count
			}
			if got < least || got > most {
				t.Errorf("%s, %s: %d passed, want %d to %d", m, p, got, least, most)
			}
			if p != "allow" && a.refused.Load() == 0 {
				t.Errorf("%s, %s: none was refused", m, p)
			}
		}
	}
	if err := redis.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}
