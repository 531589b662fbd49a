package fleet

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// regions starts a node in each of n regions, each on a server of its own, and
// returns them with the proxies between them, by whose they are.
func regions(t *testing.T, n int, rules string) (servers []*servertest.RedisServer, nodes []*node, proxies [][]*servertest.Proxy) {
	t.Helper()
	for range n {
		servers = append(servers, servertest.Redis(t))
	}
	for i, own := range servers {
		var list []string
		var between []*servertest.Proxy
		for j, s := range servers {
			addr := s.Addr + patient
			if j != i {
				p := servertest.NewProxy(t, s.Addr)
				between = append(between, p)
				addr = p.Addr + "?timeout=2s"
			}
			list = append(list, fmt.Sprintf("r%d=redis://%s", j, addr))
		}
		proxies = append(proxies, between)
		// Without --store: it is that of the region.
		nodes = append(nodes, serveIn(t, own, fmt.Sprint("r", i), strings.Join(list, ";"), rules))
	}
	return servers, nodes, proxies
}

func serveIn(t *testing.T, own *servertest.RedisServer, region, list, rules string) *node {
	t.Helper()
	return serve(t, "redis://"+own.Addr+patient, rules, "--region", region, "--regions", list)
}

// Regions keep a limit together: while they can tell each other, while one is cut
// off, while all are, and after.
func TestRegionsKeepTheirLimit(t *testing.T) {
	processes(t)
	const most = count * (1 + overshoot)
	eventual := cell{algorithm: "fixed_window", mode: "eventual", over: overshoot}
	file := rules(t, append(stageRules(count)[2:],
		strings.Replace(eventual.descriptor(count, "year"), "{key: "+eventual.key(), "{key: apart", 1),
		// It does not say how it is counted.
		fmt.Sprintf("{key: default, limit: %d/year, algorithm: sliding_window}", count))...)
	_, nodes, proxies := regions(t, 3, file)
	for _, key := range []string{eventual.key(), "default"} {
		a := offerSlowly(t, nodes, key, 6*count)
		over, least := float64(most), 0.9*count
		if key == "default" {
			// Of its small overshoot a region needs to tell every few units.
			over, least = count*1.05, count/4
		}
		if n := float64(a.allowed.Load()); n > over || n < least || a.degraded.Load() != 0 {
			t.Errorf("%s: %.0f passed of %d, %d degraded", key, n, count, a.degraded.Load())
		}
	}
	if v := nodes[0].metric(t, `weir_region_up{region="r1"}`); v != 1 {
		t.Error("r1 is not up")
	}
	cut := func(stalled bool, some ...[]*servertest.Proxy) {
		for _, all := range some {
			for _, p := range all {
				p.Stall(servertest.Requests, stalled)
				if !stalled {
					p.Reset()
				}
			}
		}
	}
	sum := offerSlowly(t, nodes, "apart", count/4)
	cut(true, proxies[0])
	sum.add(offerSlowly(t, nodes, "apart", count))
	cut(true, proxies...)
	sum.add(offerSlowly(t, nodes, "apart", count))
	servertest.Await(t, "the others to be found away", func() bool {
		sum.add(offerSlowly(t, nodes, "apart", 3))
		return nodes[0].metric(t, `weir_region_up{region="r1"}`) == 0
	})
	if nodes[0].metric(t, "weir_region_lag_seconds") == 0 && nodes[1].metric(t, "weir_region_lag_seconds") == 0 {
		t.Error("nobody has anything to tell while all are cut off")
	}
	apart := sum.allowed.Load()
	cut(false, proxies...)
	servertest.Await(t, "the others to be back", func() bool {
		up := 0.0
		for i, n := range nodes {
			up += n.metric(t, fmt.Sprintf(`weir_region_up{region="r%d"}`, (i+1)%3))
		}
		return up == float64(len(nodes))
	})
	sum.add(offerSlowly(t, nodes, "apart", 6*count))
	t.Logf("%d passed of %d, %d until they were together again", sum.allowed.Load(), count, apart)
	if n := float64(sum.allowed.Load()); n > most || n < 0.9*count || sum.degraded.Load() != 0 {
		t.Errorf("%.0f passed, want at most %g; %d degraded", n, float64(most), sum.degraded.Load())
	}
	if v := nodes[0].metric(t, `weir_limit_max_overshoot_units{domain="fleet",limit="apart",rule="apart"}`); v != count*overshoot {
		t.Errorf("%g promised", v)
	}
}

// offerSlowly is offer in parts, as regions need a moment to tell each other.
func offerSlowly(t *testing.T, nodes []*node, key string, n int) *asked {
	t.Helper()
	sum := new(asked)
	for ; n > 0; n -= 60 {
		sum.add(offer(t, nodes, key, min(n, 60), 3))
		<-time.After(8 * time.Millisecond)
	}
	return sum
}

// What is wrong with regions is said before anything listens.
func TestRegionsAreChecked(t *testing.T) {
	processes(t)
	redis := servertest.Redis(t)
	own := "redis://" + redis.Addr
	pair := "--regions=a=" + own + ";b=redis://127.0.0.1:1"
	good := "{key: k, limit: 100/minute}"
	for _, c := range []struct {
		rule, want string
		args       []string
	}{
		{good, "without --region", []string{pair}},
		{good, "without other regions", []string{"--region=a", "--store=" + own}},
		{good, "without other regions", []string{"--region=a", "--regions=a=" + own}},
		{good, "has no store: add c=URL", []string{"--region=c", pair}},
		{good, "differ: leave --store out", []string{"--region=a", pair, "--store=redis://127.0.0.1:2"}},
		{good, "not NAME=URL", []string{"--region=a", "--regions=" + own}},
		{good, "named twice", []string{"--region=a", "--regions=a=" + own + ";a=" + own}},
		{good, `not "memcached"`, []string{"--region=a", "--regions=a=" + own + ";b=memcached://127.0.0.1:1"}},
		{good, "must be Redis or Valkey", []string{"--region=c", "--store=memcached://127.0.0.1:1", pair}},
		{"{key: k, limit: 100/minute, consistency: strict}", "consistency strict cannot hold across regions", []string{"--region=a", pair}},
		{"{key: k, limit: 100/minute, consistency: leased}", "use consistency: eventual", []string{"--region=a", pair}},
		{"{key: k, limit: 10, ttl: 1m, algorithm: concurrency}", "concurrency cannot be counted in several regions", []string{"--region=a", pair}},
		{"{key: k, limit: 10/minute, algorithm: sliding_log}", "sliding_log cannot be counted in several regions", []string{"--region=a", pair}},
		{"{key: k, limit: 10/minute}", "make it at least 2", []string{"--region=a", pair}},
	} {
		out, err := exec.Command(command, append([]string{"serve", "--http=127.0.0.1:0", "--admin=", "--rules", rules(t, c.rule)}, c.args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s %v: %v, want %q in: %s", c.rule, c.args, err, c.want, out)
		}
	}
}
