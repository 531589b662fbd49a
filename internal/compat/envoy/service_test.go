package envoy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/compat/envoy"
	"github.com/weirlimit/weir/internal/compat/envoy/counter"
	"github.com/weirlimit/weir/internal/compat/envoy/stats"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

const shop = `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 1000000000}
  - key: few
    rate_limit: {unit: hour, requests_per_unit: 100}
    metadata: {backend: {name: a}}
  - key: path
    value: /api/*
    share_threshold: true
    rate_limit: {unit: hour, requests_per_unit: 1000000000}
    metadata: {backend: {zone: b}}
`

func service(t testing.TB, o envoy.Options) *envoy.Service {
	t.Helper()
	s := envoy.New(o)
	load(t, s, shop)
	return s
}

func load(t testing.TB, s *envoy.Service, rules string) {
	t.Helper()
	if err := s.LoadFiles([]envoy.File{{Name: "config.shop.yaml", Content: []byte(rules)}}, false); err != nil {
		t.Fatal(err)
	}
}

// ask makes a request of descriptors with one entry each.
func ask(pairs ...string) *rlsv3.RateLimitRequest {
	req := &rlsv3.RateLimitRequest{Domain: "shop"}
	for i := 0; i < len(pairs); i += 2 {
		req.Descriptors = append(req.Descriptors, &commonv3.RateLimitDescriptor{
			Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: pairs[i], Value: pairs[i+1]}}})
	}
	return req
}

func TestStoreErrors(t *testing.T) {
	redis := servertest.Redis(t)
	proxy := servertest.NewProxy(t, redis.Addr)
	store, err := counter.OpenRedis(t.Context(), counter.RedisOptions{Server: counter.RedisServer{URL: proxy.Addr, Timeout: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	kept := stats.New(stats.Options{})
	s := service(t, envoy.Options{Counters: store, Stats: kept})
	proxy.Stall(servertest.Replies, true)
	began := time.Now()
	_, err = s.ShouldRateLimit(t.Context(), ask("user", "a"))
	if status.Code(err) != codes.Unknown || !strings.Contains(status.Convert(err).Message(), "redis did not answer in time: nothing within 1s") || !errors.Is(err, counter.ErrTimeout) {
		t.Errorf("a stalled server: %v", err)
	}
	if d := time.Since(began); d > 30*time.Second {
		t.Errorf("an answer within a second took %s", d)
	}
	w := httptest.NewRecorder()
	s.JSON().ServeHTTP(w, httptest.NewRequest("POST", "/json", strings.NewReader(`{"domain":"shop","descriptors":[{"entries":[{"key":"user"}]}]}`)))
	if w.Code != http.StatusInternalServerError || w.Body.String() != "Internal Server Error\n" {
		t.Errorf("over HTTP: %d %s", w.Code, w.Body)
	}
	if n := kept.Service().RedisError.Value(); n != 2 {
		t.Errorf("%d errors of Redis were counted", n)
	}
	// Without a limit there is nothing to ask it.
	if _, err := s.ShouldRateLimit(t.Context(), ask("none", "a")); err != nil {
		t.Error(err)
	}
}

func TestJSONBodies(t *testing.T) {
	s := service(t, envoy.Options{})
	for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
		w := httptest.NewRecorder()
		s.JSON().ServeHTTP(w, httptest.NewRequest(method, "/json", strings.NewReader(`{"domain":"shop","descriptors":[{"entries":[{"key":"user"}]}]}`)))
		if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %v", method, w.Code, w.Header())
		}
	}
	w := httptest.NewRecorder()
	s.JSON().ServeHTTP(w, httptest.NewRequest("POST", "/json", bytes.NewReader(make([]byte, envoy.MaxBodyBytes+1))))
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a body that is too large: %d", w.Code)
	}
	w = httptest.NewRecorder()
	s.JSON().ServeHTTP(w, httptest.NewRequest("POST", "/json", strings.NewReader("x")))
	if w.Code != 400 || w.Body.String() != "Bad Request\n" || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("no JSON: %d %s %v", w.Code, w.Body, w.Header())
	}
}

// Rules change while requests are decided; metadata of rules is merged by many at once.
func TestAtTheSameTime(t *testing.T) {
	s := service(t, envoy.Options{LocalCacheBytes: 1 << 20, Modes: envoy.Modes{DynamicMetadata: true, Headers: envoy.Headers{Enabled: true}}})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			load(t, s, shop)
			if s.LoadFiles([]envoy.File{{Name: "x", Content: []byte("domain: [")}}, false) == nil {
				t.Error("a broken file was taken")
			}
			if err := s.Dump(&bytes.Buffer{}); err != nil {
				t.Error(err)
			}
			s.LocalCacheStats()
		}
	})
	const callers, calls = 4, 500
	var mu sync.Mutex
	passed := 0
	var callersDone sync.WaitGroup
	for c := range callers {
		callersDone.Go(func() {
			for i := range calls {
				resp, err := s.ShouldRateLimit(context.Background(), ask("few", "x", "path", fmt.Sprint("/api/", i), "user", fmt.Sprint(c)))
				if err != nil {
					t.Error(err)
					return
				}
				if resp.DynamicMetadata.Fields["metadata"].GetStructValue().Fields["backend"].GetStructValue().Fields["zone"].GetStringValue() != "b" {
					t.Error("the zone is missing in", resp.DynamicMetadata)
					return
				}
				if resp.Statuses[0].Code == rlsv3.RateLimitResponse_OK {
					mu.Lock()
					passed++
					mu.Unlock()
				}
			}
		})
	}
	callersDone.Wait()
	close(stop)
	wg.Wait()
	if passed != 100 {
		t.Errorf("%d passed a limit of 100", passed)
	}
	if n, ok := s.LoadedDomains(); n != 1 || !ok {
		t.Errorf("%d domains are loaded", n)
	}
}

func TestNothingLoaded(t *testing.T) {
	s := envoy.New(envoy.Options{})
	if _, ok := s.LoadedDomains(); ok {
		t.Error("rules are loaded")
	}
	if err := s.LoadFiles(nil, false); err != nil {
		t.Fatal(err)
	}
	if n, ok := s.LoadedDomains(); n != 0 || !ok {
		t.Errorf("%d domains of no files", n)
	}
}

func TestFileSize(t *testing.T) {
	err := envoy.CheckFiles([]envoy.File{{Name: "config.x.yaml", Content: make([]byte, envoy.MaxFileBytes+1)}}, false)
	if err == nil || !strings.Contains(err.Error(), "config.x.yaml: the file is larger") {
		t.Error(err)
	}
}

// One piece of memory for the answer to a request of one descriptor, and one for
// the limit of an override.
func TestAllocations(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	s := service(t, envoy.Options{})
	over := ask("user", "a")
	over.Descriptors[0].Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 5, Unit: 3}
	for name, c := range map[string]struct {
		req  *rlsv3.RateLimitRequest
		most float64
	}{
		"one":      {ask("user", "a"), 1},
		"three":    {ask("user", "a", "few", "b", "path", "/api/x"), 4},
		"none":     {ask("none", "a"), 1},
		"override": {over, 3},
	} {
		n := testing.AllocsPerRun(200, func() {
			if _, err := s.ShouldRateLimit(context.Background(), c.req); err != nil {
				t.Fatal(err)
			}
		})
		if n > c.most {
			t.Errorf("%s: %g allocations, want %g at most", name, n, c.most)
		}
	}
}

func BenchmarkShouldRateLimit(b *testing.B) {
	for name, req := range map[string]*rlsv3.RateLimitRequest{
		"one": ask("user", "alice"), "three": ask("user", "alice", "few", "b", "path", "/api/x"), "none": ask("none", "x"),
	} {
		b.Run(name, func(b *testing.B) {
			s := service(b, envoy.Options{})
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := s.ShouldRateLimit(context.Background(), req); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
