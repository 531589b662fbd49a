package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/metrics"
)

func TestCalls(t *testing.T) {
	c := metrics.NewCalls()
	c.Observe(150*time.Microsecond, "")
	c.Observe(3*time.Millisecond, "")
	c.Observe(20*time.Millisecond, "timeout")
	c.Observe(time.Millisecond, "nobody knows")
	for _, f := range []string{"timeout", "busy", "busy", "breaker_open", "nobody knows"} {
		c.CountFailure(f)
	}
	text := scrape(t, metrics.New(metrics.Options{Calls: c}))
	for _, want := range []string{
		`weir_shared_store_call_duration_seconds_bucket{result="ok",le="0.0001"} 0`,
		`weir_shared_store_call_duration_seconds_bucket{result="ok",le="0.0002"} 1`,
		`weir_shared_store_call_duration_seconds_bucket{result="ok",le="0.005"} 2`,
		`weir_shared_store_call_duration_seconds_count{result="ok"} 2`,
		`weir_shared_store_call_duration_seconds_count{result="error"} 2`,
		`weir_shared_store_errors_total{kind="timeout"} 1`,
		`weir_shared_store_errors_total{kind="busy"} 2`,
		`weir_shared_store_errors_total{kind="unreachable"} 0`,
		`weir_shared_store_errors_total{kind="server_error"} 0`,
		`weir_shared_store_errors_total{kind="canceled"} 0`,
		`weir_shared_store_errors_total{kind="breaker_open"} 1`,
		`weir_shared_store_errors_total{kind="other"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, `kind="none"`) {
		t.Error("answers are counted as failures")
	}
}

// What measures the calls allocates nothing, whatever came of them.
func TestCallsDoNotAllocate(t *testing.T) {
	c := metrics.NewCalls()
	if n := testing.AllocsPerRun(1000, func() {
		c.Observe(time.Millisecond, "")
		c.Observe(time.Millisecond, "timeout")
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
