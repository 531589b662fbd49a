package fleet

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/servertest"
)

// The metrics of a node tell how long its store took, why calls of it failed, and how
// many bans and overrides there are; a refusal that is remembered costs no call.
func TestMetricsTellOfTheStore(t *testing.T) {
	processes(t)
	redis := servertest.Redis(t)
	d := cell{algorithm: "fixed_window", mode: "strict"}.descriptor(count, "year")
	n := serve(t, "redis://"+redis.Addr+"?timeout=100ms", rules(t, d))
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
	one("full", n, 2)
	if failed("refused") == 0 {
		t.Error("a full memory is no refusal")
	}
	redis.Do(t, "CONFIG", "SET", "maxmemory", "0")
	servertest.Await(t, "the store to be back", func() bool { return n.metric(t, "weir_shared_store_away") == 0 })
	if err := redis.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	one("stalled", n, 2)
	if failed("timeout") == 0 {
		t.Error("a server that stands still is no time-out")
	}
	if err := redis.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	servertest.Await(t, "the store to be back", func() bool { return n.metric(t, "weir_shared_store_away") == 0 })
	redis.Kill(t)
	one("killed", n, 2)
	servertest.Await(t, "the store to be missed", func() bool { return failed("unreachable")+failed("timeout") > 2 })
	if failed("unreachable") == 0 {
		t.Error("a server that is gone is not unreachable")
	}
	if got := took("error"); got == 0 {
		t.Error("no failed call was timed")
	}
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
