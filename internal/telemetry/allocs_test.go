package telemetry_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/grpcserver"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/testing/otlptest"
	"github.com/weirlimit/weir/internal/testing/race"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/store/memory"
)

// serve runs srv until the test ends, and returns its address.
func serve(t testing.TB, srv *grpcserver.Server) string {
	t.Helper()
	ln := servertest.Listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := srv.Serve(ctx, ln); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
	return ln.Addr().String()
}

// ways are the requests that are not followed.
var ways = map[string]string{"no trace": "", "unsampled": unsampled}

func request(parent string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	if parent != "" {
		r.Header.Set("Traceparent", parent)
	}
	return r
}

// deaf is an http.ResponseWriter without memory.
type deaf struct{ h http.Header }

func (d deaf) Header() http.Header         { return d.h }
func (d deaf) Write(b []byte) (int, error) { return len(b), nil }
func (d deaf) WriteHeader(int)             {}

// Requests without a sampled trace allocate nothing, on any way in.
func TestUnfollowedAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("under the race detector pools forget on purpose")
	}
	tel := open(t, telemetry.Options{Endpoint: otlptest.New().HTTP(t)})
	w := deaf{make(http.Header)}
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	h := tel.TraceHTTP(telemetry.HTTPOptions{Frontend: "gateway", Pass: true}, nothing)
	around := tel.TraceGRPC(fromMetadata)
	info := &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}
	next := func(context.Context, any) (any, error) { return nil, nil }
	store := memory.New(memory.Options{})
	defer store.Close()
	lim, err := weir.New(store, weir.Limits{limit}, weir.Options{Tracer: tel})
	if err != nil {
		t.Fatal(err)
	}
	for name, parent := range ways {
		r := request(parent)
		ctx := context.WithValue(context.Background(), key{}, metadata.Pairs("traceparent", parent))
		for what, f := range map[string]func(){
			"HTTP":       func() { h.ServeHTTP(w, r) },
			"gRPC":       func() { _, _ = around(ctx, nil, info, next) },
			"a decision": func() { _, _ = lim.Take(r.Context(), "k", 1) },
			"the store":  func() { _, _ = tel.StoreCall(ctx, 1) },
		} {
			if n := testing.AllocsPerRun(1000, f); n != 0 {
				t.Errorf("%s, %s: %g allocations", what, name, n)
			}
		}
	}
}

type key struct{}

// fromMetadata is as grpcserver.HeaderValues, of calls that no server has made.
func fromMetadata(ctx context.Context, name string) []string {
	md, _ := ctx.Value(key{}).(metadata.MD)
	return md[name]
}

// go test ./telemetry -run ^$ -bench .
func BenchmarkHTTP(b *testing.B) {
	tel := open(b, telemetry.Options{Endpoint: otlptest.New().HTTP(b), MaxTraces: 1 << 40})
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	w := deaf{make(http.Header)}
	followed := tel.TraceHTTP(telemetry.HTTPOptions{Frontend: "httpapi"}, nothing)
	for _, c := range []struct {
		name, parent string
		h            http.Handler
	}{
		{"without telemetry", "", nothing},
		{"no trace", "", followed},
		{"unsampled", unsampled, followed},
		{"sampled", sampled, followed},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := request(c.parent)
			b.ReportAllocs()
			for b.Loop() {
				c.h.ServeHTTP(w, r)
			}
		})
	}
}

func BenchmarkDecide(b *testing.B) {
	tel := open(b, telemetry.Options{Endpoint: otlptest.New().HTTP(b), Limits: series, MaxTraces: 1 << 40})
	store := memory.New(memory.Options{})
	defer store.Close()
	// Two limits, so that both limiters decide by ops.
	rules := weir.Limits{limit, weir.PerMinute(1<<40, limit.Algorithm)}
	for _, c := range []struct {
		name   string
		tracer weir.Tracer
		parent string
	}{
		{"without telemetry", nil, ""},
		{"no trace", tel, ""},
		{"unsampled", tel, unsampled},
		{"sampled", tel, sampled},
	} {
		b.Run(c.name, func(b *testing.B) {
			lim, err := weir.New(store, rules, weir.Options{Tracer: c.tracer})
			if err != nil {
				b.Fatal(err)
			}
			loop := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				ctx := r.Context()
				b.ReportAllocs()
				for b.Loop() {
					_, _ = lim.Take(ctx, "k", 1)
				}
			})
			tel.TraceHTTP(telemetry.HTTPOptions{}, loop).ServeHTTP(deaf{make(http.Header)}, request(c.parent))
		})
	}
}
