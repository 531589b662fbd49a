package fleet

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// The metrics of a node tell how long its store took, why calls of it failed, and how
// many bans and overrides there are.
func TestMetricsTellOfTheStore(t *testing.T) {
	processes(t)
	redis := servertest.Redis(t)
	d := cell{algorithm: "fixed_window", mode: "strict"}.descriptor(count, "year")
	n := serve(t, "redis://"+redis.Addr+"?timeout=3s", rules(t, d))
	const key = "strict-fixed_window"
	took := func(result string) float64 {
		return n.metric(t, fmt.Sprintf("weir_shared_store_call_duration_seconds_count{result=%q}", result))
	}
	failed := func(kind string) float64 {
		return n.metric(t, fmt.Sprintf("weir_shared_store_errors_total{kind=%q}", kind))
	}
	const asks = 60
	one := func(value string, n *node, times int) *asked {
		a := new(asked)
		for range times {
			a.askFor(t, n, key, value, 1)
		}
		return a
	}
	before := took("ok")
	if a := one("open", n, asks); a.allowed.Load() != asks {
		t.Fatalf("%d of %d passed", a.allowed.Load(), asks)
	}
	if got := took("ok") - before; got < asks {
		t.Errorf("%g calls were timed of %d", got, asks)
	}
	if sum := n.metric(t, `weir_shared_store_call_duration_seconds_sum{result="ok"}`); sum <= 0 || sum > 60 {
		t.Errorf("all calls took %g s", sum)
	}
	if sent, scripts := n.metric(t, "weir_redis_requests_total"), n.metric(t, "weir_redis_scripts_total"); sent < asks || scripts < 2 || scripts > 2*sent {
		t.Errorf("%g requests in %g scripts", sent, scripts)
	}

	if got := n.metric(t, `weir_overlay_entries{kind="ban"}`); got != 0 {
		t.Errorf("%g bans before the first", got)
	}
	post(t, n, "/v1/admin/ban", fmt.Sprintf(`{"domain":%q,"descriptors":[{"entries":[{"key":%q,"value":"banned"}]}],"seconds":3600}`, domain, key))
	post(t, n, "/v1/admin/override", fmt.Sprintf(`{"domain":%q,"descriptors":[{"entries":[{"key":%q,"value":"more"}]}],"rate":"9000/year"}`, domain, key))
	post(t, n, "/v1/admin/override", fmt.Sprintf(`{"domain":%q,"descriptors":[{"entries":[{"key":%q,"value":"most"}]}],"rate":"9000/year"}`, domain, key))
	if bans, overrides := n.metric(t, `weir_overlay_entries{kind="ban"}`), n.metric(t, `weir_overlay_entries{kind="override"}`); bans != 1 || overrides != 2 {
		t.Errorf("%g bans and %g overrides are told of 1 and 2", bans, overrides)
	}

	// A full memory is what the server says; what stands still says nothing.
	redis.Do(t, "CONFIG", "SET", "maxmemory", "1")
	until := func(value, kind, what string) {
		t.Helper()
		// A busy machine may be late as well; then the next call tells.
		servertest.Await(t, what, func() bool {
			one(value, n, 2)
			return failed(kind) > 0
		})
	}
	until("full", "server_error", "a full memory to be an error of the server")
	redis.Do(t, "CONFIG", "SET", "maxmemory", "0")
	servertest.Await(t, "the store to be back", func() bool { return n.metric(t, "weir_shared_store_up") == 1 })
	if err := redis.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until("stalled", "timeout", "a server that stands still to be a time-out")
	if err := redis.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	servertest.Await(t, "the store to be back", func() bool { return n.metric(t, "weir_shared_store_up") == 1 })
	redis.Kill(t)
	until("killed", "unreachable", "a server that is gone to be unreachable")
	if got := took("error"); got == 0 {
		t.Error("no failed call was timed")
	}
	noted := 0.0
	for _, kind := range []string{"timeout", "busy", "unreachable", "server_error", "canceled", "breaker_open", "other"} {
		noted += failed(kind)
	}
	if got := n.metric(t, "weir_degraded_decisions_total"); got == 0 || noted < got {
		t.Errorf("%g decisions were made without the store, and %g are told by kind", got, noted)
	}
}

// A key that is refused, however hot, costs no call of the store: the server's own
// count of its commands says so. Once a second it is asked anew.
func TestRefusedHotKeyCostsNoCall(t *testing.T) {
	processes(t)
	redis := servertest.Redis(t)
	var descriptors []string
	algorithms := []string{"token_bucket", "fixed_window", "sliding_window", "sliding_log"}
	for _, a := range algorithms {
		descriptors = append(descriptors, cell{algorithm: a, mode: "strict"}.descriptor(10, "year"))
	}
	n := serve(t, "redis://"+redis.Addr+patient, rules(t, descriptors...))
	for _, a := range algorithms {
		key := "strict-" + a
		if got := offer(t, []*node{n}, key, 50, 10).allowed.Load(); got != 10 {
			t.Fatalf("%s: %d passed of a limit of 10", a, got)
		}
		const asks = 5000
		began, before := time.Now(), decisions(t, redis)
		hot := offer(t, []*node{n}, key, asks, 50)
		calls, took := decisions(t, redis)-before, time.Since(began)
		if hot.refused.Load() != asks {
			t.Errorf("%s: %d of %d were refused", a, hot.refused.Load(), asks)
		}
		t.Logf("%s: %d refusals in %s, %d scripts and their commands", a, asks, took.Round(time.Millisecond), calls)
		// Once a second the key, the register of nodes, and the bans: each is a script of
		// a few commands.
		if most := 40 * (1 + int64(took/time.Second)); calls > most {
			t.Errorf("%s: %d refusals took %d commands of the server, want at most %d", a, asks, calls, most)
		}
	}
}

// decisions returns how many commands of scripts, and scripts, a server has carried
// out.
func decisions(t *testing.T, r *servertest.RedisServer) (sum int64) {
	t.Helper()
	found := false
	for line := range strings.Lines(fmt.Sprint(r.Do(t, "INFO", "commandstats"))) {
		name, rest, _ := strings.Cut(line, ":calls=")
		switch strings.TrimPrefix(name, "cmdstat_") {
		case "evalsha", "eval", "get", "set", "lindex", "llen", "rpush", "pexpireat", "time":
			var n int64
			if _, err := fmt.Sscan(strings.ReplaceAll(rest, ",", " "), &n); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			sum, found = sum+n, true
		}
	}
	if !found {
		t.Fatal("the server tells of no scripts")
	}
	return sum
}

// post asks the admin API of a node for a change.
func post(t *testing.T, n *node, path, body string) {
	t.Helper()
	res, err := client.Post(n.admin+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s, %v", path, res.StatusCode, text, err)
	}
}
