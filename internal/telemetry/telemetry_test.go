package telemetry_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/algorithm"
	"github.com/weirlimit/weir/internal/grpcserver"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/testing/otlptest"
	"github.com/weirlimit/weir/internal/testing/servertest"
	"github.com/weirlimit/weir/limits"
	"github.com/weirlimit/weir/store/memory"
)

const (
	traceID   = "0af7651916cd43dd8448eb211c80319c"
	parentID  = "b7ad6b7169203331"
	sampled   = "00-" + traceID + "-" + parentID + "-01"
	unsampled = "00-" + traceID + "-" + parentID + "-00"
	secretKey = "alice@example.com"
)

// fast has the library send soon, where it would wait for seconds.
func fast(t testing.TB) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
}

func open(t testing.TB, opt telemetry.Options) *telemetry.Telemetry {
	t.Helper()
	tel, err := telemetry.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, tel) })
	return tel
}

func end(t testing.TB, tel *telemetry.Telemetry) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := tel.Close(ctx); err != nil {
		t.Log(err) // a collector that is away is not sent what waits
	}
}

// decider is what answers requests by one limit of two an hour.
func decider(t testing.TB, tel *telemetry.Telemetry, domain string) (*weir.Limiter, http.Handler) {
	t.Helper()
	store := memory.New(memory.Options{})
	t.Cleanup(func() { store.Close() })
	lim, err := weir.New(store, weir.Limits{limit}, weir.Options{Tracer: tel})
	if err != nil {
		t.Fatal(err)
	}
	return lim, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := lim.Acquire()
		defer lim.Recycle(req)
		req.Domain = domain
		req.Descriptors = append(req.Descriptors, weir.Descriptor{Entries: []weir.Entry{{Key: "user", Value: secretKey}}})
		d, err := lim.Decide(r.Context(), req)
		switch {
		case err != nil:
			w.WriteHeader(http.StatusServiceUnavailable)
		case !d.Allowed():
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
}

var limit = twoAnHour()

func twoAnHour() *weir.Limit {
	l := &weir.Limit{Name: "two", Algorithm: algorithm.FixedWindow, Count: 2, Period: time.Hour, Scope: "shop"}
	if err := l.Compile(); err != nil {
		panic(err)
	}
	return l
}

func series() []limits.Ref {
	return []limits.Ref{{Domain: "shop", Rule: "user", Limit: limit}}
}

func ask(h http.Handler, parents ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/"+secretKey, strings.NewReader(secretKey))
	r.Header = http.Header{"User-Agent": {secretKey}, "X-Forwarded-For": {secretKey}}
	r.Host = secretKey
	for _, p := range parents {
		r.Header.Add("Traceparent", p)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// A request with a sampled trace has a span, and each decision one beneath it, over
// either protocol; nothing of who asks is in them.
func TestSpans(t *testing.T) {
	defer servertest.NoLeaks(t, goleak.IgnoreCurrent())
	for _, protocol := range []string{telemetry.ProtocolHTTP, telemetry.ProtocolGRPC} {
		t.Run(protocol, func(t *testing.T) {
			fast(t)
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
			col := otlptest.New()
			url := col.Serve(t, protocol)
			tel := open(t, telemetry.Options{Endpoint: url, Protocol: protocol, Limits: series, Store: "memory", Version: "v9"})
			_, h := decider(t, tel, "shop")
			h = tel.TraceHTTP(telemetry.HTTPOptions{Frontend: "httpapi", Route: func(*http.Request) string { return "/check" }}, h)
			for range 3 {
				ask(h, sampled)
			}
			ask(h)
			ask(h, unsampled)
			ask(h, sampled, sampled)
			servertest.Await(t, "six spans", func() bool { return len(col.Spans()) >= 6 })
			end(t, tel)
			spans := col.Spans()
			if len(spans) != 6 {
				t.Fatalf("%d spans of three requests", len(spans))
			}
			var decisions []map[string]any
			for _, s := range spans {
				if hex.EncodeToString(s.TraceId) != traceID {
					t.Errorf("span %s is of trace %x", s.Name, s.TraceId)
				}
				if tells(s) {
					t.Errorf("a key is told: %s", s)
				}
				attrs := otlptest.Attributes(s.Attributes)
				switch s.Name {
				case "POST /check":
					if hex.EncodeToString(s.ParentSpanId) != parentID || s.Kind != tracepb.Span_SPAN_KIND_SERVER {
						t.Errorf("parent %x, kind %s", s.ParentSpanId, s.Kind)
					}
					for k, want := range map[string]any{"http.request.method": "POST", "http.route": "/check", "url.scheme": "http", "ratelimit.frontend": "httpapi"} {
						if attrs[k] != want {
							t.Errorf("%s is %v, want %v", k, attrs[k], want)
						}
					}
				case "ratelimit.decide":
					decisions = append(decisions, attrs)
					parent := byID(spans, s.ParentSpanId)
					if parent == nil || parent.Name != "POST /check" {
						t.Errorf("a decision is beneath %v", parent)
					}
					refused := attrs["ratelimit.decision"] == "refused"
					if got := otlptest.Attributes(parent.Attributes)["http.response.status_code"]; refused != (got == int64(429)) {
						t.Errorf("decision %v, status %v", attrs["ratelimit.decision"], got)
					}
					if s.EndTimeUnixNano < s.StartTimeUnixNano || s.EndTimeUnixNano > parent.EndTimeUnixNano {
						t.Error("a decision ends before it begins, or after its request")
					}
				default:
					t.Errorf("span %q", s.Name)
				}
			}
			for i, want := range []string{"allowed", "allowed", "refused"} {
				d := decisions[i]
				for k, v := range map[string]any{"ratelimit.domain": "shop", "ratelimit.rule": "user", "ratelimit.limit": "two",
					"ratelimit.store": "memory", "ratelimit.decision": want, "ratelimit.remaining": int64(max(1-i, 0)), "ratelimit.cost": int64(1), "ratelimit.limits": int64(1)} {
					if d[k] != v {
						t.Errorf("decision %d: %s is %v, want %v", i, k, d[k], v)
					}
				}
				if _, told := d["ratelimit.retry_after"].(float64); told != (want == "refused") {
					t.Errorf("decision %d: retry after %v", i, d["ratelimit.retry_after"])
				}
			}
			for k, want := range map[string]string{"service.name": "weir", "service.version": "v9", "deployment.environment.name": "test"} {
				if got := col.Resource(k); got != want {
					t.Errorf("%s is %q, want %q", k, got, want)
				}
			}
			if s := tel.Stats(); s.SpansSent != 6 || s.SpansLost+s.SpansDropped+s.Skipped != 0 || s.TracesSent == 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

func byID(spans []*tracepb.Span, id []byte) *tracepb.Span {
	for _, s := range spans {
		if bytes.Equal(s.SpanId, id) {
			return s
		}
	}
	return nil
}

// What forwards requests hands on the span; a trace that is not followed is handed
// on as it came.
func TestPass(t *testing.T) {
	fast(t)
	col := otlptest.New()
	tel := open(t, telemetry.Options{Endpoint: col.HTTP(t)})
	var got []string
	h := tel.TraceHTTP(telemetry.HTTPOptions{Pass: true}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r.Header["Traceparent"]
	}))
	ask(h, unsampled)
	if len(got) != 1 || got[0] != unsampled {
		t.Errorf("unsampled: %q", got)
	}
	ask(h, sampled)
	servertest.Await(t, "a span", func() bool { return len(col.Spans()) == 1 })
	want := fmt.Sprintf("00-%s-%x-01", traceID, col.Spans()[0].SpanId)
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// tells reports whether a span tells who asks, or from where.
func tells(s *tracepb.Span) bool {
	return strings.Contains(s.String(), secretKey) || strings.Contains(s.String(), "192.0.2.1") // of httptest
}

// A handler does with the response of a request that is followed what it does with others.
func TestFollowedResponses(t *testing.T) {
	fast(t)
	tel := open(t, telemetry.Options{Endpoint: otlptest.New().HTTP(t)})
	srv := httptest.NewServer(tel.TraceHTTP(telemetry.HTTPOptions{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c := http.NewResponseController(w)
		_, writes := w.(io.ReaderFrom)
		err := errors.Join(c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{}), c.EnableFullDuplex(), c.Flush())
		conn, buf, hijacked := c.Hijack()
		if err = errors.Join(err, hijacked); err != nil || !writes {
			t.Errorf("%v; writes from files: %v", err, writes)
			return
		}
		defer conn.Close()
		_, _ = buf.WriteString("hijacked") // seen by the client
		_ = buf.Flush()
	})))
	defer srv.Close()
	r, err := http.NewRequest("GET", srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Traceparent", sampled)
	res, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Error(res.Status)
	}
}

// failing is a store that does not decide, and says why in words that hold a key.
type failing struct{ weir.Store }

func (failing) Take(context.Context, []weir.Op) error {
	return errors.New("no answer about " + secretKey)
}

// What goes wrong is told without a word of whom it was about.
func TestFailures(t *testing.T) {
	fast(t)
	col := otlptest.New()
	tel := open(t, telemetry.Options{Endpoint: col.HTTP(t), Store: "redis"})
	lim, err := weir.New(failing{}, weir.Limits{weir.PerMinute(1, algorithm.FixedWindow)}, weir.Options{Tracer: tel})
	if err != nil {
		t.Fatal(err)
	}
	aborted := false
	h := tel.TraceHTTP(telemetry.HTTPOptions{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if aborted {
			panic(secretKey)
		}
		_, told := tel.StoreCall(r.Context(), 3)
		told("timeout")
		if _, err := lim.Take(r.Context(), secretKey, 1); err == nil {
			t.Error("decided")
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	ask(h, sampled)
	aborted = true
	func() {
		defer func() { _ = recover() }()
		ask(h, sampled)
	}()
	servertest.Await(t, "four spans", func() bool { return len(col.Spans()) == 4 })
	failures := map[string]int{}
	for _, s := range col.Spans() {
		if s.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || tells(s) {
			t.Errorf("%s", s)
		}
		failures[fmt.Sprint(s.Name, " ", otlptest.Attributes(s.Attributes)["error.type"])]++
	}
	for _, want := range []string{"POST 503", "POST aborted", "ratelimit.decide undecided", "ratelimit.store redis timeout"} {
		if failures[want] != 1 {
			t.Errorf("no %q in %v", want, failures)
		}
	}
}

// Words that are not UTF-8 do not spoil what is sent with them, and long ones are cut.
func TestWords(t *testing.T) {
	fast(t)
	col := otlptest.New()
	tel := open(t, telemetry.Options{Endpoint: col.HTTP(t)})
	_, h := decider(t, tel, "a\xff"+strings.Repeat("b", 1000))
	ask(tel.TraceHTTP(telemetry.HTTPOptions{}, h), sampled)
	servertest.Await(t, "two spans", func() bool { return len(col.Spans()) == 2 })
	domain := otlptest.Attributes(col.Span(nil, "ratelimit.decide").Attributes)["ratelimit.domain"].(string)
	if !strings.HasPrefix(domain, "a\uFFFDb") || len(domain) > 300 {
		t.Errorf("%q", domain)
	}
}

// health is a service that decides, or fails.
type health struct {
	healthpb.UnimplementedHealthServer
	lim *weir.Limiter
}

func (h health) Check(ctx context.Context, req *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	switch req.Service {
	case "broken":
		return nil, status.Error(codes.Internal, secretKey)
	case "panics":
		panic(secretKey)
	}
	_, err := h.lim.Take(ctx, secretKey, 1)
	return new(healthpb.HealthCheckResponse), err
}

// Calls over gRPC are followed as requests over HTTP are.
func TestGRPC(t *testing.T) {
	fast(t)
	col := otlptest.New()
	tel := open(t, telemetry.Options{Endpoint: col.GRPC(t), Protocol: telemetry.ProtocolGRPC, Store: "memory"})
	lim, _ := decider(t, tel, "shop")
	srv, err := grpcserver.New(grpcserver.Options{Unary: []grpc.UnaryServerInterceptor{tel.TraceGRPC(grpcserver.HeaderValues)}})
	if err != nil {
		t.Fatal(err)
	}
	// A copy of the service under a name of its own: the server has a health service.
	desc := healthpb.Health_ServiceDesc
	desc.ServiceName, desc.Streams = "test.Decider", nil
	srv.RegisterService(&desc, health{lim: lim})
	addr := serve(t, srv)
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	call := func(service string, kv ...string) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		// The interceptor of a generated handler is told the name that it was
		// generated for.
		_ = conn.Invoke(metadata.AppendToOutgoingContext(ctx, kv...), "/test.Decider/Check", &healthpb.HealthCheckRequest{Service: service}, new(healthpb.HealthCheckResponse))
	}
	call("")
	call("", "traceparent", unsampled)
	call("", "traceparent", sampled, "traceparent", sampled)
	call("", "traceparent", sampled, "tracestate", "vendor=value")
	call("broken", "traceparent", sampled)
	call("panics", "traceparent", sampled)
	servertest.Await(t, "four spans", func() bool { return len(col.Spans()) >= 4 })
	end(t, tel)
	var broken, fine int
	for _, s := range col.Spans() {
		attrs := otlptest.Attributes(s.Attributes)
		switch {
		case tells(s):
			t.Errorf("a key is told: %s", s)
		case s.Name == "ratelimit.decide":
			if p := byID(col.Spans(), s.ParentSpanId); p == nil || p.TraceState != "vendor=value" {
				t.Errorf("beneath %v", p)
			}
		case s.Kind != tracepb.Span_SPAN_KIND_SERVER || hex.EncodeToString(s.ParentSpanId) != parentID || attrs["rpc.system.name"] != "grpc":
			t.Errorf("%s", s)
		case attrs["rpc.response.status_code"] == "OK":
			fine++
		case attrs["rpc.response.status_code"] == "INTERNAL" && attrs["error.type"] == "INTERNAL" && s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR:
			broken++
		}
	}
	if len(col.Spans()) != 4 || broken != 2 || fine != 1 {
		t.Errorf("%d spans: %d fine, %d broken", len(col.Spans()), fine, broken)
	}
}

// A collector that does not answer costs decisions nothing but their spans: those
// that wait are bounded, the rest is counted, and it is logged once.
func TestStalledCollector(t *testing.T) {
	fast(t)
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "64")
	t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "300")
	var said servertest.Log
	col := otlptest.New()
	url := col.HTTP(t)
	col.Stall()
	tel := open(t, telemetry.Options{Endpoint: url, Log: slog.New(slog.NewTextHandler(&said, nil))})
	_, h := decider(t, tel, "shop")
	h = tel.TraceHTTP(telemetry.HTTPOptions{}, h)
	// Two spans each. Nothing here waits for the collector, or this would not end.
	const requests = 500
	for range requests {
		ask(h, sampled)
	}
	if s := tel.Stats(); s.SpansDropped == 0 || s.SpansSent != 0 {
		t.Errorf("while the collector stalls: %+v", s)
	}
	servertest.Await(t, "a second failure", func() bool { return tel.Stats().TracesFailed > 1 || func() bool { ask(h, sampled); return false }() })
	if n := strings.Count(said.String(), "telemetry export failed"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, said.String())
	}
	col.Go()
	servertest.Await(t, "spans", func() bool { ask(h, sampled); return len(col.Spans()) > 0 })
	servertest.Await(t, "word that it is back", func() bool { return strings.Contains(said.String(), "telemetry export recovered") })
	end(t, tel)
	if s := tel.Stats(); s.SpansSent == 0 || s.SpansLost == 0 {
		t.Errorf("in the end: %+v", s)
	}
}

// Nobody's trace begins here, and only so many are followed: every span is of a
// request that was counted, and every other one is told as skipped.
func TestMaxTraces(t *testing.T) {
	fast(t)
	col := otlptest.New()
	tel := open(t, telemetry.Options{Endpoint: col.HTTP(t), MaxTraces: 5})
	h := tel.TraceHTTP(telemetry.HTTPOptions{}, http.NotFoundHandler())
	began := time.Now()
	const requests = 200
	for range requests {
		ask(h, sampled)
	}
	seconds := int(time.Since(began)/time.Second) + 2
	end(t, tel)
	followed, skipped := len(col.Spans()), int(tel.Stats().Skipped)
	if followed+skipped != requests || followed < 5 || followed > 5*seconds {
		t.Errorf("%d followed and %d skipped of %d in %d seconds", followed, skipped, requests, seconds)
	}
}
