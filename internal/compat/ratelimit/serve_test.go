package ratelimit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir/internal/compat/envoy"
	"github.com/weirlimit/weir/internal/testing/grpctest"
	"github.com/weirlimit/weir/internal/testing/servertest"
)

// inPlace is the environment of rules that are watched file by file.
func inPlace(root string) []string {
	return []string{"RUNTIME_ROOT=" + root, "RUNTIME_WATCH_ROOT=false"}
}

func TestAllDoors(t *testing.T) {
	t.Parallel()
	n := start(t, program, inPlace(rulesIn(t, map[string]string{"config/shop.yaml": shop}))...)
	conn := n.dial()
	for i, want := range []rlsv3.RateLimitResponse_Code{rlsv3.RateLimitResponse_OK, rlsv3.RateLimitResponse_OK} {
		res, err := ask(t, conn, "shop", "user=ann")
		if err != nil || res.OverallCode != want || res.Statuses[0].LimitRemaining != uint32(2-i) {
			t.Fatalf("call %d: %v, %v; want %v", i, res, err, want)
		}
	}
	const body = `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}`
	if code, text := n.post(body); code != 200 || !strings.Contains(text, `"OK"`) {
		t.Errorf("third: %d %s, want 200", code, text)
	}
	if code, text := n.post(body); code != 429 || !strings.Contains(text, "OVER_LIMIT") {
		t.Errorf("fourth: %d %s, want 429", code, text)
	}
	if code, text := get(t, n.http, "/healthcheck"); code != 200 || text != "OK" {
		t.Errorf("/healthcheck: %d %q", code, text)
	}
	if code, _ := get(t, n.http, "/nothing"); code != 404 {
		t.Errorf("/nothing: %d", code)
	}
	wantList := `/debug/pprof/: root of various pprof endpoints. hit for help.
/debug/pprof/profile: CPU profiling endpoint
/debug/pprof/trace: trace endpoint
/rlconfig: print out the currently loaded configuration for debugging
/stats: print out stats
`
	if _, text := get(t, n.debug, "/"); text != wantList {
		t.Errorf("debug / is %q", text)
	}
	if _, text := get(t, n.debug, "/rlconfig"); text != "shop.user: unit=HOUR requests_per_unit=3, shadow_mode: false, quota_mode: false\n" {
		t.Errorf("/rlconfig is %q", text)
	}
	if _, text := get(t, n.debug, "/stats"); !strings.HasPrefix(text, "cmdline: ") || !strings.Contains(text, "\nmemstats: {") {
		t.Errorf("/stats is %.100q", text)
	}
	if code, _ := get(t, n.debug, "/debug/pprof/heap"); code != 200 {
		t.Errorf("/debug/pprof/heap: %d", code)
	}
	n.series(`ratelimit_service_rate_limit_total_hits{domain="shop",key1="user"}`, 4)
	n.series(`ratelimit_service_rate_limit_over_limit{domain="shop",key1="user"}`, 1)
	n.series(`ratelimit_service_total_requests{grpc_method="ShouldRateLimit"}`, 2)
	n.series(`ratelimit_service_response_time_seconds_count{grpc_method="ShouldRateLimit"}`, 2)
	n.series("ratelimit_service_config_load_success", 1)
	n.series("runtime_load_attempts", 1)
	n.series("runtime_num_values", 1)
	if _, ok := n.value("ratelimit_go_numGoroutine"); !ok {
		t.Error("no statistics of the Go runtime")
	}
	if code, _ := get(t, n.prom, "/other"); code != 404 {
		t.Errorf("/other on the metrics port: %d", code)
	}

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, service := range []string{"", "ratelimit"} {
		res, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service})
		if err != nil || res.Status != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %v, %v", service, res, err)
		}
	}
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	if res, err := stream.Recv(); err != nil || !strings.Contains(res.String(), "envoy.service.ratelimit.v3.RateLimitService") {
		t.Errorf("reflection: %v, %v", res, err)
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	root := rulesIn(t, map[string]string{"config/shop.yaml": shop})
	path := filepath.Join(t.TempDir(), "s")
	// One that a dead process has left.
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	ln.Close()
	start(t, program, append(inPlace(root), "GRPC_UDS="+path)...)
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if res, err := ask(t, conn, "shop", "user=ann"); err != nil || res.OverallCode != rlsv3.RateLimitResponse_OK {
		t.Errorf("got %v, %v", res, err)
	}
}

func TestEndsOnSignal(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		n := start(t, program, inPlace(rulesIn(t, map[string]string{"config/shop.yaml": shop}))...)
		conn := n.dial()
		if _, err := ask(t, conn, "shop", "user=ann"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		watch, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{Service: "ratelimit"})
		if err != nil {
			t.Fatal(err)
		}
		if res, err := watch.Recv(); err != nil || res.Status != healthpb.HealthCheckResponse_SERVING {
			t.Fatalf("health is %v, %v", res, err)
		}
		if err := n.proc.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if res, err := watch.Recv(); err != nil || res.Status != healthpb.HealthCheckResponse_NOT_SERVING {
			t.Errorf("%v: health turns %v, %v; want NOT_SERVING", sig, res, err)
		}
		if code, err := n.proc.Wait(ctx); err != nil || code != 0 {
			t.Errorf("%v: exit status %d, %v\n%s", sig, code, err, n.proc.Output())
		}
	}
}

func TestSecondProcessMayListenToo(t *testing.T) {
	t.Parallel()
	root := rulesIn(t, map[string]string{"config/shop.yaml": shop})
	first := start(t, program, append(inPlace(root), "USE_PROMETHEUS=false", "DISABLE_STATS=true")...)
	_, port, _ := net.SplitHostPort(first.http)
	_, grpcPort, _ := net.SplitHostPort(first.grpc)
	second := launch(t, program, append(inPlace(root), "DISABLE_STATS=true", "PORT="+port, "GRPC_PORT="+grpcPort)...)
	servertest.Await(t, "the second to listen", func() bool { return strings.Contains(second.proc.Output(), "Listening for HTTP") })
	if err := first.proc.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if code, err := first.proc.Wait(ctx); err != nil || code != 0 {
		t.Fatalf("the first ended with %d, %v", code, err)
	}
	if code, text := get(t, first.http, "/healthcheck"); code != 200 || text != "OK" {
		t.Errorf("the second answers %d %q", code, text)
	}
}

// What the reference refuses, or dies of, ends the process at once with a
// sentence that names the variable.
func TestRefusals(t *testing.T) {
	t.Parallel()
	root := rulesIn(t, map[string]string{"config/shop.yaml": shop})
	for _, tt := range []struct {
		env  []string
		want string
	}{
		{[]string{"PORT=eighty"}, "PORT="},
		{[]string{"USE_STATSD=true"}, "more than one stats sink"},
		{[]string{"LOG_LEVEL=loud"}, "LOG_LEVEL"},
		{[]string{"BACKEND_TYPE=etcd"}, "BACKEND_TYPE"},
		{[]string{"CONFIG_TYPE=NONE"}, "CONFIG_TYPE"},
		{[]string{"RUNTIME_ROOT=" + root + "/missing/current"}, "RUNTIME_ROOT"},
		{[]string{"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=/none/c", "GRPC_SERVER_TLS_KEY=/none/k"}, "/none/c"},
		{[]string{"REDIS_URL=127.0.0.1:1", "REDIS_TLS=true", "REDIS_TLS_CACERT=/none/ca"}, "/none/ca"},
		{[]string{"REDIS_URL=127.0.0.1:1", "REDIS_SOCKET_TYPE=tcp", "REDIS_STARTUP_INITIAL_INTERVAL=1ms", "REDIS_STARTUP_MAX_ELAPSED_TIME=20ms"}, "timed out waiting for Redis connection"},
		{[]string{"USE_PROMETHEUS=false", "USE_DOG_STATSD=true", "USE_DOG_STATSD_MOGRIFIERS=A"}, "DOG_STATSD_MOGRIFIER_A_PATTERN"},
		{[]string{"PROMETHEUS_ADDR=256.0.0.1:1"}, "PROMETHEUS_ADDR"},
		{[]string{"PORT=18", "GRPC_PORT=18"}, "HOST:PORT and GRPC_HOST:GRPC_PORT are both 127.0.0.1:18"},
	} {
		n := launch(t, program, append(inPlace(root), tt.env...)...)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		code, err := n.proc.Wait(ctx)
		cancel()
		if err != nil || code != 2 || !strings.Contains(n.proc.Output(), tt.want) || strings.Contains(n.proc.Output(), "goroutine") {
			t.Errorf("%q: exit status %d, %v, says %q; want 2 and %q", tt.env, code, err, n.proc.Output(), tt.want)
		}
	}
}

func TestArgumentsAreForAnotherName(t *testing.T) {
	t.Parallel()
	cmd, n := command(t, program, inPlace(rulesIn(t, map[string]string{"config/shop.yaml": shop}))...)
	cmd.Args = append(cmd.Args, "serve", "-foo")
	n.proc = servertest.Start(t, cmd)
	servertest.Await(t, "it to listen", func() bool { return strings.Contains(n.proc.Output(), "Listening for HTTP") })
	cmd, n = command(t, program)
	cmd.Args = append(cmd.Args, "--help")
	n.proc = servertest.Start(t, cmd)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if code, err := n.proc.Wait(ctx); err != nil || code != 0 || !strings.Contains(n.proc.Output(), "REDIS_PERSECOND_TIMEOUT=10s") {
		t.Errorf("--help: %d, %v: %.200s", code, err, n.proc.Output())
	}
}

func TestLogs(t *testing.T) {
	t.Parallel()
	root := rulesIn(t, map[string]string{"config/shop.yaml": shop})
	n := start(t, program, append(inPlace(root), "LOG_FORMAT=json", "LOG_LEVEL=debug", "REDIS_PIPELINE_LIMIT=3")...)
	for _, want := range []string{`"@timestamp":"`, `"@message":"Listening for HTTP on '`, `"level":"warning"`, "REDIS_PIPELINE_LIMIT is set and has no effect", "Successfully loaded new configuration"} {
		servertest.Await(t, "the log to have "+want, func() bool { return strings.Contains(n.proc.Output(), want) })
	}
	n = start(t, program, inPlace(root)...) // LOG_LEVEL=WARN
	servertest.Await(t, "a warning", func() bool { return strings.Contains(n.proc.Output(), "level=warning msg=\"Listening for HTTP") })
	if out := n.proc.Output(); strings.Contains(out, "level=info") {
		t.Errorf("log is %s", out)
	}
}

func TestStatisticsOverStatsd(t *testing.T) {
	t.Parallel()
	ln := servertest.Listen(t)
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	root := rulesIn(t, map[string]string{"config/shop.yaml": shop})
	n := start(t, program, append(inPlace(root), "USE_PROMETHEUS=false", "USE_STATSD=true", "STATSD_HOST=127.0.0.1", "STATSD_PORT="+port,
		"STATS_FLUSH_INTERVAL=1h", "EXTRA_TAGS=env:prod,az:a")...)
	if _, err := ask(t, n.dial(), "shop", "user=ann"); err != nil {
		t.Fatal(err)
	}
	// The last flush is at the end, however long the interval.
	if err := n.proc.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	var got strings.Builder
	buf := make([]byte, 1<<16)
	for {
		k, err := conn.Read(buf)
		got.Write(buf[:k])
		if err != nil {
			break
		}
	}
	for _, want := range []string{
		"ratelimit.service.rate_limit.shop.user.total_hits.__az=a.__env=prod:1|c\n",
		"ratelimit_server.ShouldRateLimit.total_requests.__az=a.__env=prod:1|c\n",
		"ratelimit_server.ShouldRateLimit.response_time.__az=a.__env=prod:",
		"runtime.load_attempts.__az=a.__env=prod:1|c\n", "reserved_tag:4|c\n", "ratelimit.go.alloc.__az=a.__env=prod:",
	} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("no %q in\n%s", want, got.String())
		}
	}
}

// Whoever connects and is silent, or announces large bodies and sends nothing,
// waits with his like; others are served.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	n := start(t, program, inPlace(rulesIn(t, map[string]string{"config/shop.yaml": shop}))...)
	for range 64 {
		conn, err := net.Dial("tcp", n.http)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n{")); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 300 {
		conn, err := net.Dial("tcp", n.grpc)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if i%2 == 0 {
			if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := ask(t, n.dial(), "shop", "user=bob"); err != nil {
		t.Error(err)
	}
	if code, _ := n.post(`{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}`); code != 200 {
		t.Errorf("/json: %d", code)
	}
	if code, _ := get(t, n.http, "/healthcheck"); code != 200 {
		t.Errorf("/healthcheck: %d", code)
	}
}

// TestFamilyOneBudgetOfBodies: unfinished bodies of /json and large messages of gRPC share
// one bound, whichever fills it; beyond it both doors refuse, small requests are answered,
// and when the clients are gone there is room again.
func TestFamilyOneBudgetOfBodies(t *testing.T) {
	t.Parallel()
	n := start(t, program, inPlace(rulesIn(t, map[string]string{"config/shop.yaml": shop}))...)
	large := func() *rlsv3.RateLimitRequest {
		return &rlsv3.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimitpb.RateLimitDescriptor{{
			Entries: []*ratelimitpb.RateLimitDescriptor_Entry{{Key: "user", Value: strings.Repeat("a", 1<<20)}}}}}
	}
	call := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := rlsv3.NewRateLimitServiceClient(n.dial()).ShouldRateLimit(ctx, large())
		return err
	}
	text := `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"` + strings.Repeat("a", 1<<20) + `"}]}]}`
	if err := call(); err != nil {
		t.Fatalf("with room, over gRPC: %v", err)
	}
	if code, _ := n.post(text); code != 200 {
		t.Fatalf("with room, /json: %d", code)
	}
	// Bodies that lack their last byte, smaller and smaller ones until they are refused.
	var held []net.Conn
	for _, size := range []int{3 << 20, 256 << 10, 64 << 10} {
		const most = 64
		refused := false
		for i := 0; i < most && !refused; i++ {
			conn, err := net.Dial("tcp", n.http)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			held = append(held, conn)
			refused = isRefused(t, conn, size)
		}
		if !refused {
			t.Fatalf("%d bodies of %d bytes are held, and none was refused", most, size)
		}
	}
	if err := call(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("without room, over gRPC: %v", err)
	}
	if code, _ := n.post(text); code != 503 {
		t.Errorf("without room, /json: %d", code)
	}
	if _, err := ask(t, n.dial(), "shop", "user=bob"); err != nil {
		t.Errorf("a small call: %v", err)
	}
	if code, _ := n.post(`{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}`); code != 200 {
		t.Errorf("a small request to /json: %d", code)
	}
	for _, conn := range held {
		conn.Close()
	}
	servertest.Await(t, "room again", func() bool {
		code, _ := n.post(text)
		return code != 503 && call() == nil
	})
}

// TestFamilyRequestsOfManyParts: what is small as it is sent and large when it is decoded
// is refused before that, over both doors, and the largest request that is not is answered.
func TestFamilyRequestsOfManyParts(t *testing.T) {
	t.Parallel()
	n := start(t, program, append(inPlace(rulesIn(t, map[string]string{"config/shop.yaml": shop})), "GOMEMLIMIT=256MiB")...)
	const parts = envoy.MaxParts
	of := func(descriptors, entries int) *rlsv3.RateLimitRequest {
		q := &rlsv3.RateLimitRequest{Domain: "shop"}
		for range descriptors {
			q.Descriptors = append(q.Descriptors, &ratelimitpb.RateLimitDescriptor{})
		}
		for range entries {
			d := q.Descriptors[rand.IntN(descriptors)]
			d.Entries = append(d.Entries, &ratelimitpb.RateLimitDescriptor_Entry{Key: "k", Value: "v"})
		}
		return q
	}
	text := func(q *rlsv3.RateLimitRequest) string {
		b, err := protojson.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	client := rlsv3.NewRateLimitServiceClient(n.dial())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, q := range map[string]*rlsv3.RateLimitRequest{
		"descriptors": of(parts+1, 0), "entries": of(1, parts), "both": of(parts/2, parts/2+1),
	} {
		if _, err := client.ShouldRateLimit(ctx, q); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "descriptors and entries") {
			t.Errorf("too many %s over gRPC: %v", name, err)
		}
		if code, _ := n.post(text(q)); code != 400 {
			t.Errorf("too many %s over /json: %d", name, code)
		}
	}
	most := of(parts/2, parts/2)
	if _, err := client.ShouldRateLimit(ctx, most); err != nil {
		t.Errorf("as many as may be, over gRPC: %v", err)
	}
	most = of(parts/2, parts/2-1) // the request itself is an object too
	if code, _ := n.post(text(most)); code != 200 {
		t.Errorf("as many as may be, over /json: %d", code)
	}

	if testing.Short() {
		return // it is the program that is looked at, not this process
	}
	// As large as may be sent, from many at once.
	empty := &rlsv3.RateLimitRequest{Domain: "shop", Descriptors: make([]*ratelimitpb.RateLimitDescriptor, 2_000_000)}
	for i := range empty.Descriptors {
		empty.Descriptors[i] = new(ratelimitpb.RateLimitDescriptor)
	}
	dense := `{"descriptors":[` + strings.Repeat("{},", 1_300_000) + `{}]}`
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 2 {
				if _, err := client.ShouldRateLimit(ctx, empty); err == nil {
					t.Error("two million descriptors are decided over gRPC")
				}
				if code, _ := n.post(dense); code == 200 {
					t.Error("1.3 million descriptors are decided over /json")
				}
			}
		})
	}
	wg.Wait()
	if _, peak := servertest.Memory(t, n.proc.Pid()); peak > 512<<20 {
		t.Errorf("%d MiB were resident, with GOMEMLIMIT=256MiB", peak>>20)
	}
}

// isRefused sends a body to /json without its last byte, and reports whether it is
// refused.
func isRefused(t *testing.T, conn net.Conn, size int) bool {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", size+1, strings.Repeat(" ", size)); err != nil {
		return true // while it is sent
	}
	if err := conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	k, err := conn.Read(make([]byte, 1))
	return k > 0 || err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// A request that is no UTF-8 is an error, as the original has it, and is told: Envoy lets
// it pass.
func TestUndecodableRequestsAreTold(t *testing.T) {
	t.Parallel()
	n := start(t, program, inPlace(rulesIn(t, map[string]string{"config/shop.yaml": shop}))...)
	b, err := proto.Marshal(request("shop", "user=MARK"))
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.ReplaceAll(b, []byte("MARK"), []byte("a\xffbc"))
	const calls = 5
	for range calls {
		err := grpctest.Invoke(t.Context(), n.dial(), rlsv3.RateLimitService_ShouldRateLimit_FullMethodName, bad, new(rlsv3.RateLimitResponse))
		if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "invalid UTF-8") {
			t.Errorf("got %v", err)
		}
	}
	servertest.Await(t, "the statistic", func() bool {
		_, text := get(t, n.prom, "/metrics")
		v, ok := servertest.Sample(t, text, `ratelimit_service_should_rate_limit_error{err_type="decode_error"}`)
		return ok && v == calls
	})
	if said := strings.Count(n.proc.Output(), "is not counted; Envoy lets it pass"); said < 1 || said == calls {
		t.Errorf("it was said %d times:\n%s", said, n.proc.Output())
	}
}
