package envoy

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir/internal/compat/envoy/counter"
	"github.com/weirlimit/weir/internal/compat/envoy/stats"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// here is this service.
type here struct {
	service *Service
	web     http.Handler
	book    *book
	store   *stats.Store
	sums    *statsd
	mu      sync.Mutex
	clock   int64
}

func newHere(t *testing.T, s *script) *here {
	h := &here{clock: 1_700_000_000, sums: &statsd{sums: map[string]uint64{}}, book: &book{Memory: counter.NewMemory(counter.MemoryOptions{}), names: map[string]counter.Hit{}}}
	h.store = stats.New(stats.Options{Sink: h.sums})
	o := Options{Counters: h.book, Stats: h.store, Now: func() int64 {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.clock
	}}
	for name, v := range s.env {
		switch name {
		case "SHADOW_MODE":
			o.Modes.Shadow = v == "true"
		case "QUOTA_MODE":
			o.Modes.Quota = v == "true"
		case "RESPONSE_DYNAMIC_METADATA":
			o.Modes.DynamicMetadata = v == "true"
		case "LIMIT_RESPONSE_HEADERS_ENABLED":
			o.Modes.Headers.Enabled = v == "true"
		case "LIMIT_LIMIT_HEADER":
			o.Modes.Headers.Limit = v
		case "LIMIT_REMAINING_HEADER":
			o.Modes.Headers.Remaining = v
		case "LIMIT_RESET_HEADER":
			o.Modes.Headers.Reset = v
		case "CACHE_KEY_PREFIX":
			o.KeyPrefix = v
		case "NEAR_LIMIT_RATIO":
			f, err := strconv.ParseFloat(v, 32)
			if err != nil {
				t.Fatal(err)
			}
			o.NearLimitRatio = cmp.Or(float32(f), math.SmallestNonzeroFloat32)
		case "LOCAL_CACHE_SIZE_IN_BYTES":
			o.LocalCacheBytes = int64(number(t, v))
		case "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT":
			o.StopIncrementWhenOver = v == "true"
		case "MERGE_DOMAIN_CONFIG":
		default:
			t.Fatalf("no such variable: %s", name)
		}
	}
	h.service = New(o)
	h.web = h.service.JSON()
	return h
}

func (h *here) setNow(now int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock = now
}

func (h *here) load(_ *testing.T, files []File, merge bool) string {
	if err := h.service.LoadFiles(files, merge); err != nil {
		return err.Error()
	}
	return ""
}

func (h *here) ask(t *testing.T, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	return h.service.ShouldRateLimit(t.Context(), req)
}

func (h *here) json(_ *testing.T, body string) (int, string) {
	w := httptest.NewRecorder()
	h.web.ServeHTTP(w, httptest.NewRequest("POST", "/json", strings.NewReader(body)))
	return w.Code, w.Body.String()
}

func (h *here) dump(t *testing.T) string {
	var b strings.Builder
	if err := h.service.Dump(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func (h *here) counters(t *testing.T) map[string]uint64 { return h.book.read(t) }

func (h *here) stats(*testing.T) map[string]uint64 {
	h.store.Flush()
	return h.sums.under("ratelimit.service.")
}

// book is a store in memory that knows the names of its counters.
type book struct {
	*counter.Memory
	mu    sync.Mutex
	names map[string]counter.Hit
	now   int64
}

func (b *book) Add(ctx context.Context, now int64, hits []counter.Hit) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range hits {
		h.Key = bytes.Clone(h.Key)
		b.names[string(h.Key)] = h
	}
	b.now = now
	return b.Memory.Add(ctx, now, hits)
}

func (b *book) read(t *testing.T) map[string]uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := map[string]uint64{}
	for name, h := range b.names {
		hits := []counter.Hit{h}
		if err := b.Memory.Look(t.Context(), b.now, hits); err != nil {
			t.Fatal(err)
		}
		m[name] = hits[0].Count
	}
	return m
}

// there is envoyproxy/ratelimit.
type there struct {
	*reference
	redis *servertest.RedisServer
}

func newThere(t *testing.T, s *script) *there {
	var env []string
	for name, v := range s.env {
		env = append(env, name+"="+v)
	}
	redis := servertest.Redis(t)
	return &there{reference: startReference(t, redis.Addr, env...), redis: redis}
}

func (r *there) load(t *testing.T, files []File, _ bool) string { return r.reference.load(t, files) }

func (r *there) ask(t *testing.T, req *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	// Not when a new second is near: its counters begin anew.
	if left := time.Until(time.Now().Truncate(time.Second).Add(time.Second)); left < 300*time.Millisecond {
		<-time.After(left)
	}
	return r.client.ShouldRateLimit(t.Context(), req)
}

func (r *there) json(t *testing.T, body string) (int, string) {
	return fetch(t, "POST", r.http+"/json", body)
}

func (r *there) dump(t *testing.T) string {
	_, body := fetch(t, "GET", r.debug+"/rlconfig", "")
	return body
}

func (r *there) counters(t *testing.T) map[string]uint64 {
	m := map[string]uint64{}
	for _, k := range r.redis.Do(t, "KEYS", "*").([]any) {
		m[k.(string)] = number(t, r.redis.Do(t, "GET", k.(string)).(string))
	}
	return m
}

// stats waits until the reference has told nothing new for two flushes.
func (r *there) stats(*testing.T) map[string]uint64 {
	const quiet = 250 * time.Millisecond
	all := r.reference.stats.under("ratelimit.service.")
	for since := time.Now(); time.Since(since) < quiet; <-time.After(10 * time.Millisecond) {
		if now := r.reference.stats.under("ratelimit.service."); !maps.Equal(now, all) {
			all, since = now, time.Now()
		}
	}
	// Of its start.
	for name, n := range map[string]uint64{"config_load_error": 1, "call.should_rate_limit.service_error": 1} {
		if name = "ratelimit.service." + name; all[name] > n {
			all[name] -= n
		} else {
			delete(all, name)
		}
	}
	return all
}
