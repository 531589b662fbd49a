package stats_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/compat/envoy/settings"
	"github.com/weirlimit/weir/internal/compat/envoy/stats"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

var quiet = slog.New(slog.DiscardHandler)

// lines reads what statsd receives over TCP until it has n lines.
func lines(t *testing.T, ln net.Listener, n int) []string {
	t.Helper()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	var got []string
	for in := bufio.NewScanner(conn); len(got) < n && in.Scan(); {
		got = append(got, in.Text())
	}
	return got
}

func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

func TestStatsdLines(t *testing.T) {
	ln := listen(t, "127.0.0.1:0")
	sink := stats.NewStatsd("tcp", ln.Addr().String(), quiet)
	s := stats.New(stats.Options{Sink: sink})
	s.Service().ConfigLoadSuccess.Add(2)
	s.Scope("a").Gauge("g").Set(7)
	s.Scope("a").Timer("short").Observe(3)
	s.Scope("a").Timer("short").Observe(3)
	for range 2000 {
		s.Scope("a").Timer("many").Observe(0)
	}
	s.Flush()
	got := lines(t, ln, 5)
	sort.Strings(got)
	want := []string{"a.g:7|g", "a.many:0|ms|@0.0005", "a.short:3|ms", "a.short:3|ms", "ratelimit.service.config_load_success:2|c"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := sink.Close(); err != nil {
		t.Error(err)
	}
}

func TestStatsdComesBack(t *testing.T) {
	ln := listen(t, "127.0.0.1:0")
	addr := ln.Addr().String()
	sink := stats.NewStatsd("tcp", addr, quiet)
	defer sink.Close()
	sink.Counter("before", 1)
	sink.Flush()
	if got := lines(t, ln, 1); !slices.Equal(got, []string{"before:1|c"}) { // lines hangs up
		t.Fatalf("got %q", got)
	}
	// The connection is dead. The first write may still seem to succeed.
	again := make(chan []string, 1)
	go func() { again <- lines(t, ln, 1) }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		sink.Counter("after", 1)
		sink.Flush()
		select {
		case got := <-again:
			if !slices.Equal(got, []string{"after:1|c"}) {
				t.Errorf("got %q", got)
			}
			return
		case <-tick.C:
		}
	}
}

func TestStatsdPacketsEndAtLines(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	sink := stats.NewStatsd("udp", pc.LocalAddr().String(), quiet)
	const n = 200
	for i := range n {
		sink.Counter(fmt.Sprintf("counter.number.%04d", i), 123456789)
	}
	sink.Flush()
	got := 0
	buf := make([]byte, 1<<16)
	for got < n {
		pc.SetReadDeadline(time.Now().Add(time.Minute))
		size, _, err := pc.ReadFrom(buf)
		if err != nil {
			t.Fatalf("after %d lines: %v", got, err)
		}
		if size > 1432 || buf[size-1] != '\n' {
			t.Fatalf("a packet of %d bytes ends in %q", size, buf[size-1])
		}
		got += bytes.Count(buf[:size], []byte("|c\n"))
	}
	if err := sink.Close(); err != nil {
		t.Error(err)
	}
}

func TestStatsdAwayCostsNoMoreThanItsBuffer(t *testing.T) {
	ln := listen(t, "127.0.0.1:0")
	addr := ln.Addr().String()
	ln.Close() // nobody listens
	var said bytes.Buffer
	sink := stats.NewStatsd("tcp", addr, slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelError})))
	name := strings.Repeat("x", 60000)
	for range 200 { // 12 MB
		sink.Counter(name, 1)
	}
	if err := sink.Close(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(said.String(), "statistics dropped") {
		t.Errorf("logged %q, want that statistics are lost", said.String())
	}
}

func TestDogStatsd(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	sink, err := stats.NewDogStatsd(pc.LocalAddr().String(), []settings.Mogrifier{{
		Pattern: `^ratelimit\.service\.rate_limit\.(.*)\.(.*)\.(.*)$`,
		Rename:  "ratelimit.service.rate_limit.$3.$9",
		Tags:    map[string]string{"domain": "$1", "descriptor": "$2"},
	}, {Pattern: ".*", Rename: "never", Tags: nil}})
	if err != nil {
		t.Fatal(err)
	}
	s := stats.New(stats.Options{Sink: sink, Tags: map[string]string{"env": "prod"}})
	s.RateLimit("shop.user_1").TotalHits.Add(3)
	s.Flush()
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<16)
	pc.SetReadDeadline(time.Now().Add(time.Minute))
	n, _, err := pc.ReadFrom(buf)
	if err != nil {
		t.Fatal(err)
	}
	want := "ratelimit.service.rate_limit.total_hits.$9:3|c|#env:prod,descriptor:user_1,domain:shop"
	if got := string(buf[:n]); !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := stats.NewDogStatsd("127.0.0.1:1", []settings.Mogrifier{{Pattern: "("}}); err == nil {
		t.Error("a pattern that is none is taken")
	}
}

func TestLines(t *testing.T) {
	var out bytes.Buffer
	s := stats.New(stats.Options{Sink: stats.Lines{W: &out}})
	s.Service().ConfigLoadError.Add(2)
	s.Flush()
	var line struct {
		Msg  string
		TS   float64
		JSON map[string]string
	}
	text := out.String()
	if err := json.NewDecoder(&out).Decode(&line); err != nil || line.TS == 0 || line.Msg != "flushing counter" ||
		line.JSON["name"] != "ratelimit.service.config_load_error" || line.JSON["value"] != "2.000000" || line.JSON["type"] != "counter" {
		t.Errorf("wrote %s (%v)", text, err)
	}
	if !strings.HasSuffix(text, `"msg":"flushing all stats","json":{"type":"all stats","value":"0.000000"}}`+"\n") {
		t.Errorf("wrote %s, which does not end with the flush", text)
	}
}

// scrape returns the lines of a scrape that begin with a prefix.
func scrape(t *testing.T, s *stats.Store, p *stats.Prometheus, prefix string) string {
	t.Helper()
	w := httptest.NewRecorder()
	p.Handler(s.FlushTimers).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	var got []string
	for _, line := range strings.Split(w.Body.String(), "\n") {
		if strings.HasPrefix(line, prefix) {
			got = append(got, line)
		}
	}
	return strings.Join(got, "\n")
}

func TestPrometheusSeries(t *testing.T) {
	p, err := stats.NewPrometheus(stats.PrometheusOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := stats.New(stats.Options{Sink: p})
	s.RateLimit("shop.user_1").TotalHits.Add(3)
	s.RateLimit("shop.user_1").OverLimitWithLocalCache.Inc()
	s.RateLimit("shop.a.b").NearLimit.Inc()
	s.RateLimit("shop.a.b.c").NearLimit.Add(2)
	s.RateLimit("shop.a.b.c.d").NearLimit.Add(4)
	s.RateLimit("shop.ip_10.0.0.1").OverLimit.Inc()
	s.Service().ConfigLoadSuccess.Inc()
	s.Service().GlobalShadowMode.Inc()
	s.Service().RedisError.Inc()
	s.UnknownDomain("else-where").Inc()
	s.Scope("ratelimit_server").Counter("ShouldRateLimit.total_requests").Add(5)
	s.Scope("ratelimit.redis_pool").Gauge("cx_active").Set(2)
	s.Flush()
	for range 4 { // not flushed, and yet there
		s.Scope("ratelimit_server").Timer("ShouldRateLimit.response_time").Observe(20)
	}
	want := strings.TrimSpace(`
ratelimit_redis_pool_cx_active 2
ratelimit_service_config_load_success 1
ratelimit_service_global_shadow_mode 1
ratelimit_service_rate_limit_else_where_domain_not_found 1
ratelimit_service_rate_limit_near_limit{domain="shop",key1="a",key2="b"} 7
ratelimit_service_rate_limit_over_limit{domain="shop",key1="ip_10_0_0_1"} 1
ratelimit_service_rate_limit_shop_user_1_over_limit_with_local_cache 1
ratelimit_service_rate_limit_total_hits{domain="shop",key1="user_1"} 3
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="0.005"} 0
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="0.01"} 0
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="0.025"} 4
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="0.05"} 4
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="0.1"} 4
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="0.25"} 4
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="0.5"} 4
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="1"} 4
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="2.5"} 4
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="5"} 4
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="10"} 4
ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="+Inf"} 4
ratelimit_service_response_time_seconds_sum{grpc_method="ShouldRateLimit"} 0.08
ratelimit_service_response_time_seconds_count{grpc_method="ShouldRateLimit"} 4
ratelimit_service_should_rate_limit_error{err_type="redis_error"} 1
ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} 5`)
	if got := scrape(t, s, p, "ratelimit_"); got != want {
		t.Errorf("series are:\n%s\nwant:\n%s", got, want)
	}
	if got := scrape(t, s, p, "statsd_exporter_events_total"); got != "statsd_exporter_events_total{type=\"counter\"} 11\nstatsd_exporter_events_total{type=\"gauge\"} 1\nstatsd_exporter_events_total{type=\"observer\"} 4" {
		t.Errorf("events are %s", got)
	}
	if got := scrape(t, s, p, "go_goroutines"); got == "" {
		t.Error("nothing about the process itself")
	}
}

func TestPrometheusMilliseconds(t *testing.T) {
	p, err := stats.NewPrometheus(stats.PrometheusOptions{Milliseconds: true})
	if err != nil {
		t.Fatal(err)
	}
	s := stats.New(stats.Options{Sink: p})
	s.Scope("ratelimit_server").Timer("M.response_time").Observe(20)
	if got := scrape(t, s, p, "ratelimit_service_response_time_seconds_sum"); !strings.HasSuffix(got, " 20") {
		t.Errorf("sum is %s, want 20", got)
	}
}

// A mapping in the words of older days, as Envoy Gateway and most others write
// it, with a word that never was one.
const oldMapping = `
defaults:
  timer_type: histogram
  buckets: [0.5, 1]
  nonsense: 1
mappings:
- match: "ratelimit.service.rate_limit.*.*.total_hits"
  name: hits
  timer_type: summary
  colour: blue
  labels: {domain: "$1"}
- match: "a.quick.time"
  name: quick_time
  buckets: [7]
- match: "a.dropped"
  action: drop
  name: dropped
- match: "a.gauge"
  name: scaled
  scale: 0.5
  help: Half of it.
  ttl: 1h
`

func TestPrometheusMappingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "map.yaml")
	if err := os.WriteFile(path, []byte(oldMapping), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	p, err := stats.NewPrometheus(stats.PrometheusOptions{MappingFile: path, Log: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	s := stats.New(stats.Options{Sink: p})
	s.RateLimit("shop.user").TotalHits.Add(3)
	s.Scope("a").Timer("quick.time").Observe(6)
	s.Scope("a").Timer("slow.time").Observe(1)
	s.Scope("a").Counter("dropped").Inc()
	s.Scope("a").Gauge("gauge").Set(8)
	s.Flush()
	for _, want := range []string{
		`hits{domain="shop"} 3`, `quick_time_bucket{le="7"} 1`, `a_slow_time_bucket{le="0.5"} 0`, `a_slow_time_bucket{le="1"} 1`,
		"scaled 4", "# HELP scaled Half of it.", `statsd_exporter_events_actions_total{action="drop"} 1`,
	} {
		if !strings.Contains(scrape(t, s, p, ""), want+"\n") {
			t.Errorf("no %s in\n%s", want, scrape(t, s, p, ""))
		}
	}
	if strings.Contains(scrape(t, s, p, ""), "\ndropped") {
		t.Error("what is dropped is there")
	}
	for _, word := range []string{"nonsense", "colour"} {
		if !strings.Contains(said.String(), word) {
			t.Errorf("log says nothing of %s: %s", word, said.String())
		}
	}
}

func TestPrometheusMappingThatCannotBeUsed(t *testing.T) {
	for name, file := range map[string]string{"missing": "", "bad": "mappings: [{match: 'a b', name: x}]", "yaml": "\t"} {
		path := filepath.Join(t.TempDir(), "map.yaml")
		if file != "" {
			if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var said bytes.Buffer
		p, err := stats.NewPrometheus(stats.PrometheusOptions{MappingFile: path, Log: slog.New(slog.NewTextHandler(&said, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(said.String(), "level=ERROR") {
			t.Errorf("%s: log is %q", name, said.String())
		}
		s := stats.New(stats.Options{Sink: p})
		s.RateLimit("shop.user").TotalHits.Inc()
		s.Scope("a").Timer("time").Observe(5)
		s.Flush()
		if got := scrape(t, s, p, "ratelimit_"); got != "ratelimit_service_rate_limit_shop_user_total_hits 1" {
			t.Errorf("%s: series are %s", name, got)
		}
		if got := scrape(t, s, p, "a_time{"); !strings.Contains(got, `quantile="0.99"`) {
			t.Errorf("%s: timers are %q, want a summary", name, got)
		}
	}
}

// One name, two kinds: the second has no series, and is counted as such.
func TestPrometheusConflict(t *testing.T) {
	p, err := stats.NewPrometheus(stats.PrometheusOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.Counter("a.b", 1)
	p.Gauge("a.b", 1)
	p.Timer("a.b", 1, 1)
	s := stats.New(stats.Options{})
	want := "statsd_exporter_events_conflict_total{type=\"gauge\"} 1\nstatsd_exporter_events_conflict_total{type=\"observer\"} 1"
	if got := scrape(t, s, p, "statsd_exporter_events_conflict_total"); got != want {
		t.Errorf("got %s", got)
	}
}

// What the Prometheus library panics of costs the series, not the process.
func TestPrometheusMappingThatPanics(t *testing.T) {
	path := filepath.Join(t.TempDir(), "map.yaml")
	if err := os.WriteFile(path, []byte("defaults: {timer_type: histogram, buckets: [2, 1]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	p, err := stats.NewPrometheus(stats.PrometheusOptions{MappingFile: path, Log: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		p.Timer("a.time", 1, 1)
	}
	p.Counter("a.b", 1)
	s := stats.New(stats.Options{})
	if got := scrape(t, s, p, "a_"); got != "a_b 1" {
		t.Errorf("series are %s, want the counter alone", got)
	}
	if n := strings.Count(said.String(), "increasing order"); n != 1 {
		t.Errorf("said %d times what is wrong, want once: %s", n, said.String())
	}
}

func FuzzMapping(f *testing.F) {
	f.Add([]byte(oldMapping))
	f.Add([]byte("mappings: &a [*a]"))
	f.Add([]byte("defaults: 1\nmappings: {a: b}"))
	f.Add([]byte("? [a]\n: b"))
	f.Fuzz(func(t *testing.T, file []byte) {
		path := filepath.Join(t.TempDir(), "m")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := stats.NewPrometheus(stats.PrometheusOptions{MappingFile: path, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			t.Fatal(err)
		}
		p.Counter("ratelimit.service.rate_limit.a.b.total_hits", 1)
		p.Timer("a.time", 1, 2)
	})
}
