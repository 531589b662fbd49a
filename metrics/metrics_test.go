package metrics_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/sketch"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/metrics"
)

func scrape(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func limit(t *testing.T, name string) *weir.Limit {
	t.Helper()
	l := weir.PerMinute(10, algorithm.TokenBucket)
	l.Name = name
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	return l
}

func want(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
	if t.Failed() {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "weir_") && !strings.Contains(line, "_bucket") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
}

func TestDecisions(t *testing.T) {
	l := limit(t, "ten")
	m := metrics.New(metrics.Options{Limits: func() []limits.Ref {
		return []limits.Ref{{Domain: "api", Rule: "client_id", Limit: l}}
	}})
	// Both everyday outcomes are there before the first decision.
	want(t, scrape(t, m),
		`weir_decisions_total{decision="allowed",domain="api",limit="ten",rule="client_id"} 0`,
		`weir_decisions_total{decision="refused",domain="api",limit="ten",rule="client_id"} 0`)
	for range 3 {
		l.Counters().Add(weir.Allowed)
	}
	l.Counters().Add(weir.ShadowRefused)
	want(t, scrape(t, m), "weir_limits 1",
		`weir_decisions_total{decision="allowed",domain="api",limit="ten",rule="client_id"} 3`,
		`weir_decisions_total{decision="shadow_refused",domain="api",limit="ten",rule="client_id"} 1`)
}

// A registry refuses a series that is told twice, and a label that is not
// UTF-8; neither may cost the operator the whole page.
func TestAwkwardNames(t *testing.T) {
	a, b, c := limit(t, "same"), limit(t, "same"), limit(t, "\xff\"\n")
	shares := limit(t, "same")
	shares.Inherit(a)
	a.Counters().Add(weir.Refused)
	b.Counters().Add(weir.Refused)
	m := metrics.New(metrics.Options{Limits: func() []limits.Ref {
		return []limits.Ref{{Rule: "r", Limit: a}, {Rule: "r", Limit: b}, {Rule: "r", Limit: shares}, {Rule: "r", Limit: c}}
	}})
	want(t, scrape(t, m),
		`weir_decisions_total{decision="refused",domain="",limit="same",rule="r"} 2`,
		`weir_decisions_total{decision="refused",domain="",limit="`+"\uFFFD"+`\"\n",rule="r"} 0`)
}

func TestSeriesAreBounded(t *testing.T) {
	var all []limits.Ref
	for i := range 50 {
		l := limit(t, fmt.Sprint("limit", i))
		l.Counters().Add(weir.Allowed)
		all = append(all, limits.Ref{Domain: "d", Rule: "r", Limit: l})
	}
	m := metrics.New(metrics.Options{MaxSeries: 10, Limits: func() []limits.Ref { return all }})
	text := scrape(t, m)
	if n := strings.Count(text, "weir_decisions_total{"); n != 11*2 {
		t.Errorf("%d series, want 22", n)
	}
	want(t, text, `weir_decisions_total{decision="allowed",domain="",limit="",rule="(other)"} 40`)
}

func TestStoreReloadsBuild(t *testing.T) {
	m := metrics.New(metrics.Options{
		Store: func() metrics.Store {
			return metrics.Store{Keys: 7, Bytes: 4096, Bound: 8192, Approximate: 64, Overflowed: 5, Full: true}
		},
		Reloads: func() metrics.Reloads {
			return metrics.Reloads{Succeeded: 2, Failed: 1, Last: time.Unix(1700000000, 500e6)}
		},
		Build: metrics.Build{Version: "v1", Revision: "abc", Go: "go1"},
	})
	m.Observe(nil, weir.Decision{}, errors.New("store is down"))
	m.Observe(nil, weir.Decision{}, nil)
	want(t, scrape(t, m),
		"weir_store_keys 7", "weir_store_bytes 4096", "weir_store_max_bytes 8192", "weir_store_approximate_bytes 64",
		"weir_store_overflow_decisions_total 5", "weir_store_full 1", "weir_store_errors_total 1",
		`weir_config_reloads_total{result="success"} 2`, `weir_config_reloads_total{result="failure"} 1`,
		"weir_config_reload_success 0", "weir_config_last_reload_timestamp_seconds 1.7000000005e+09",
		`weir_build_info{goversion="go1",revision="abc",version="v1"} 1`)
}

// What a shedder counts stands beside the limits of the rules, and is not one of
// them.
func TestShed(t *testing.T) {
	l := limit(t, "fleet_share_background")
	l.Counters().Add(weir.Refused)
	m := metrics.New(metrics.Options{
		Limits: func() []limits.Ref { return []limits.Ref{{Domain: "d", Rule: "r", Limit: limit(t, "ten")}} },
		Shed: func() metrics.Shed {
			return metrics.Shed{
				Limits: []limits.Ref{{Domain: "(shed)", Rule: "fleet_share", Limit: l}},
				Active: true, Limiters: []metrics.Limiter{{Name: "fleet_share", Mode: "shadow"}},
				InFlight: 3, ShadowInFlight: 2, Thresholds: []metrics.Threshold{{Class: "background", Requests: 50}},
				UnknownUsers: 7, WithoutLease: 8,
			}
		},
	})
	text := scrape(t, m)
	want(t, text, "weir_limits 1", `weir_decisions_total{decision="refused",domain="(shed)",limit="fleet_share_background",rule="fleet_share"} 1`,
		"weir_shed_active 1", `weir_shed_mode{limiter="fleet_share",mode="enforce"} 0`, `weir_shed_mode{limiter="fleet_share",mode="shadow"} 1`,
		"weir_shed_in_flight_requests 3", "weir_shed_shadow_in_flight_requests 2", `weir_shed_threshold_requests{class="background"} 50`,
		`weir_shed_unmatched_total{reason="unknown_user"} 7`, `weir_shed_unmatched_total{reason="no_permit"} 8`)
	if strings.Contains(scrape(t, metrics.New(metrics.Options{})), "weir_shed") {
		t.Error("there is no shedder, and yet metrics of it")
	}
}

// How exact an approximate limit is can be read, once it was used.
func TestSketch(t *testing.T) {
	l := weir.PerMinute(10, algorithm.Approximate)
	l.Name = "many"
	if err := l.Compile(); err != nil {
		t.Fatal(err)
	}
	used := false
	m := metrics.New(metrics.Options{
		Limits: func() []limits.Ref {
			return []limits.Ref{{Domain: "d", Rule: "r", Limit: l}, {Domain: "d", Rule: "exact", Limit: limit(t, "ten")}}
		},
		Sketch: func(asked *weir.Limit) (sketch.Stats, bool) {
			if asked != l {
				t.Errorf("asked about %s", asked.Name)
			}
			return sketch.Stats{Bytes: 64, Bound: 2.5, MeanError: 0.5, MaxError: 3, BloomTrials: 4, BloomFalse: 1, BloomExpected: 0.125}, used
		},
	})
	if strings.Contains(scrape(t, m), "weir_sketch_") {
		t.Error("there is no sketch, and yet metrics of it")
	}
	used = true
	const labels = `{domain="d",limit="many",rule="r"}`
	want(t, scrape(t, m), "weir_sketch_bytes"+labels+" 64", "weir_sketch_error_bound_units"+labels+" 2.5",
		"weir_sketch_error_mean_units"+labels+" 0.5", "weir_sketch_error_max_units"+labels+" 3",
		"weir_sketch_false_positives_ratio"+labels+" 0.25", "weir_sketch_false_positives_expected_ratio"+labels+" 0.125")
}

func TestInstrument(t *testing.T) {
	m := metrics.New(metrics.Options{})
	h := m.Instrument("gateway", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hint":
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusTooManyRequests)
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/flush":
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Errorf("flush: %v", err)
			}
		}
	}))
	srv := httptest.NewServer(h)
	defer srv.Close()
	for _, path := range []string{"/", "/flush", "/hint", "/abort"} {
		// A client asks again when a kept-alive connection breaks off on a
		// GET, but not on a POST.
		if res, err := http.Post(srv.URL+path, "text/plain", nil); err == nil {
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	}
	srv.Close()
	want(t, scrape(t, m),
		`weir_http_request_duration_seconds_count{code="2xx",frontend="gateway"} 2`,
		`weir_http_request_duration_seconds_count{code="4xx",frontend="gateway"} 1`,
		`weir_http_request_duration_seconds_count{code="5xx",frontend="gateway"} 1`)
}

// The names follow the conventions of Prometheus.
func TestNamesAreConventional(t *testing.T) {
	l := limit(t, "ten")
	m := metrics.New(metrics.Options{
		Limits:  func() []limits.Ref { return []limits.Ref{{Limit: l}} },
		Store:   func() metrics.Store { return metrics.Store{} },
		Reloads: func() metrics.Reloads { return metrics.Reloads{} },
		Shed: func() metrics.Shed {
			return metrics.Shed{Limiters: []metrics.Limiter{{}}, Thresholds: []metrics.Threshold{{}}}
		},
	})
	problems, err := promlint.New(strings.NewReader(scrape(t, m))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "weir_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}
