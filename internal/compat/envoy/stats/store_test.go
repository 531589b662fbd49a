package stats_test

import (
	"fmt"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir/internal/compat/envoy/stats"
)

// book writes down what it is told.
type book struct {
	mu    sync.Mutex
	lines []string
}

func (b *book) add(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, fmt.Sprintf(format, args...))
}

func (b *book) Counter(name string, d uint64)         { b.add("%s +%d", name, d) }
func (b *book) Gauge(name string, v uint64)           { b.add("%s =%d", name, v) }
func (b *book) Timer(name string, ms int64, n uint64) { b.add("%s %dms x%d", name, ms, n) }
func (b *book) Flush()                                {}
func (b *book) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	sort.Strings(b.lines)
	all := strings.Join(b.lines, "\n")
	b.lines = nil
	return all
}

func TestFlushTellsWhatChanged(t *testing.T) {
	b := &book{}
	s := stats.New(stats.Options{Sink: b, Tags: map[string]string{"env": "prod", "az": "a.b:c|d", "empty": ""}})
	r := s.RateLimit("shop.user_1.2.3.4.path_/a:b|c")
	r.TotalHits.Add(3)
	r.OverLimitWithLocalCache.Inc()
	s.UnknownDomain("no:where").Inc()
	svc := s.Service()
	svc.ConfigLoadSuccess.Inc()
	svc.RedisError.Inc()
	server := s.TopScope("ratelimit_server")
	server.Counter("ShouldRateLimit.total_requests").Inc()
	for _, ms := range []int64{0, 0, 7, 63, 64, 5000, 5000, -1} {
		server.Timer("ShouldRateLimit.response_time").Observe(ms)
	}
	s.Scope("ratelimit").Scope("localcache").Gauge("hitCount").Set(9)
	s.Scope("m").CounterTagged("multiget", map[string]string{"code": "success"}).Inc()
	s.Flush()
	const tags = ".__az=a_b_c_d.__env=prod"
	want := strings.Join([]string{
		"m.multiget.__code=success +1",
		"ratelimit.localcache.hitCount =9",
		"ratelimit.service.call.should_rate_limit.redis_error" + tags + " +1",
		"ratelimit.service.config_load_success" + tags + " +1",
		"ratelimit.service.rate_limit.no_where.domain_not_found" + tags + " +1",
		"ratelimit.service.rate_limit.shop.user_1_2_3_4.path_/a_b_c.over_limit_with_local_cache" + tags + " +1",
		"ratelimit.service.rate_limit.shop.user_1_2_3_4.path_/a_b_c.total_hits" + tags + " +3",
		"ratelimit_server.ShouldRateLimit.response_time" + tags + " 0ms x3",
		"ratelimit_server.ShouldRateLimit.response_time" + tags + " 5000ms x2",
		"ratelimit_server.ShouldRateLimit.response_time" + tags + " 63ms x1",
		"ratelimit_server.ShouldRateLimit.response_time" + tags + " 64ms x1",
		"ratelimit_server.ShouldRateLimit.response_time" + tags + " 7ms x1",
		"ratelimit_server.ShouldRateLimit.total_requests" + tags + " +1",
		"reserved_tag +2", // one scope in New, one here
	}, "\n")
	if got := b.take(); got != want {
		t.Errorf("first flush:\n%s\nwant:\n%s", got, want)
	}

	r.TotalHits.Inc()
	s.Flush()
	want = "ratelimit.localcache.hitCount =9\n" +
		"ratelimit.service.rate_limit.shop.user_1_2_3_4.path_/a_b_c.total_hits" + tags + " +1"
	if got := b.take(); got != want {
		t.Errorf("second flush:\n%s\nwant only what changed, and gauges:\n%s", got, want)
	}
}

func TestSameKeySameCounters(t *testing.T) {
	s := stats.New(stats.Options{})
	if s.RateLimit("d.a_1") != s.Dynamic("d", []byte("d.a_1")) {
		t.Error("a request's key is counted apart from the rule of that name")
	}
	if s.RateLimit("d.a:b") != s.RateLimit("d.a_b") {
		t.Error("keys that read alike once sanitized are counted apart")
	}
}

func TestKeysOfRequestsAreBounded(t *testing.T) {
	b := &book{}
	s := stats.New(stats.Options{Sink: b, MaxKeys: 2})
	for i := range 1000 {
		s.Dynamic("d", fmt.Appendf(nil, "d.user_%d", i)).TotalHits.Inc()
		s.UnknownDomain(fmt.Sprint("stranger", i)).Inc()
	}
	s.Dynamic("e", []byte("e.k_"+strings.Repeat("x", 1<<20))).TotalHits.Inc()
	s.RateLimit("d.rule").TotalHits.Inc()
	s.Flush()
	const p = "ratelimit.service.rate_limit."
	want := p + "d.overflow.total_hits +998\n" + p + "d.rule.total_hits +1\n" +
		p + "d.user_0.total_hits +1\n" + p + "d.user_1.total_hits +1\n" +
		p + "e.overflow.total_hits +1\n" + p + "overflow.domain_not_found +998\n" +
		p + "stranger0.domain_not_found +1\n" + p + "stranger1.domain_not_found +1"
	if got := b.take(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestLongKeysShareTheOverflow(t *testing.T) {
	s := stats.New(stats.Options{})
	long := strings.Repeat("x", 4096)
	if s.Dynamic("d", []byte("d.a"+long)) != s.Dynamic("d", []byte("d.b"+long)) {
		t.Error("keys of 4 KiB are kept by name")
	}
	if s.UnknownDomain("a"+long) != s.UnknownDomain("b"+long) {
		t.Error("domains of 4 KiB are kept by name")
	}
}

func TestKnownKeysCostNoAllocation(t *testing.T) {
	s := stats.New(stats.Options{})
	key := []byte("d.user_1")
	s.Dynamic("d", key)
	if n := testing.AllocsPerRun(100, func() { s.Dynamic("d", key).TotalHits.Inc() }); n != 0 {
		t.Errorf("%v allocations a lookup", n)
	}
}

func TestFloodsOfKeysCostNoAllocation(t *testing.T) {
	s := stats.New(stats.Options{MaxKeys: 1})
	s.Dynamic("d", []byte("d.first"))
	s.Dynamic("d", []byte("d.second"))
	s.UnknownDomain("first")
	s.UnknownDomain("second")
	key := []byte("d.third")
	if n := testing.AllocsPerRun(100, func() {
		s.Dynamic("d", key).TotalHits.Inc()
		s.UnknownDomain("third").Inc()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestCountWhileFlushing(t *testing.T) {
	b := &book{}
	s := stats.New(stats.Options{Sink: b})
	c, tm := s.Scope("a").Counter("b"), s.Scope("a").Timer("t")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 1000 {
				c.Inc()
				tm.Observe(int64(i))
				s.RateLimit(fmt.Sprint("d.k", i)).TotalHits.Inc()
			}
		})
	}
	for range 20 {
		s.Flush()
	}
	wg.Wait()
	s.Flush()
	var counted, timed int
	for _, line := range strings.Split(b.take(), "\n") {
		var n, ms int
		if _, err := fmt.Sscanf(line, "a.b +%d", &n); err == nil {
			counted += n
		}
		if _, err := fmt.Sscanf(line, "a.t %dms x%d", &ms, &n); err == nil {
			timed += n
		}
	}
	if counted != 4000 || timed != 4000 {
		t.Errorf("told of %d and %d events, want 4000 each", counted, timed)
	}
}
