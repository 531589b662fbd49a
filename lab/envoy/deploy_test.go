package envoy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// builtRateLimit is the path of envoyproxy/ratelimit.
func builtRateLimit(t testing.TB) string { return servertest.Built(t, "ratelimit") }

// rateLimiter is a program that is envoyproxy/ratelimit, or says so.
type rateLimiter struct {
	*servertest.Process
	// addr is the address of its gRPC.
	addr  string
	redis *servertest.RedisServer
	// run starts it, again after its end.
	run func() *servertest.Process
}

// startRateLimit starts one with the rules of a folder that holds config/, and a Redis of
// its own.
func startRateLimit(t testing.TB, argv []string, root string, env ...string) *rateLimiter {
	t.Helper()
	r := &rateLimiter{addr: fmt.Sprint("127.0.0.1:", servertest.FreePort(t)), redis: servertest.Redis(t)}
	r.run = func() *servertest.Process { return startRateLimitAt(t, argv, root, r.redis.Addr, r.addr, env...) }
	r.start()
	return r
}

// start starts the program, and waits until it is healthy.
func (r *rateLimiter) start() { r.Process = r.run() }

// startRateLimitAt starts one with gRPC at addr, and waits until it is healthy.
func startRateLimitAt(t testing.TB, argv []string, root, redis, addr string, env ...string) *servertest.Process {
	t.Helper()
	port := func() string { return strconv.Itoa(servertest.FreePort(t)) }
	_, grpcPort, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "HOST=127.0.0.1", "PORT="+port(), "GRPC_HOST=127.0.0.1", "GRPC_PORT="+grpcPort, "DEBUG_HOST=127.0.0.1", "DEBUG_PORT="+port(),
		"RUNTIME_ROOT="+root, "RUNTIME_WATCH_ROOT=false", "USE_STATSD=false", "DISABLE_STATS=true", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis)
	cmd.Env = append(cmd.Env, env...)
	p := servertest.Start(t, cmd)
	t.Cleanup(func() { _ = p.Signal(syscall.SIGKILL) })
	health := healthpb.NewHealthClient(dial(t, addr))
	servertest.Await(t, strings.Join(argv, " "), func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		res, err := health.Check(ctx, &healthpb.HealthCheckRequest{Service: "ratelimit"})
		return err == nil && res.Status == healthpb.HealthCheckResponse_SERVING
	})
	return p
}

// signal sends it a signal.
func (r *rateLimiter) signal(t testing.TB, s os.Signal) {
	t.Helper()
	if err := r.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// dial returns a client of gRPC.
func dial(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	// A server that is being started refuses at first: what waits for it tries again at once.
	soon := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond}, MinConnectTimeout: 20 * time.Second}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(soon))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// HTTP/2 without TLS, which Envoy speaks to whoever begins with it.
var h2 = func() *http.Client {
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: tr}
}()

// times returns n times a.
func times(n, a int, more ...int) []int { return append(slices.Repeat([]int{a}, n), more...) }

// want compares the statuses of responses.
func want(t testing.TB, what string, got, want []int) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: statuses %v, want %v", what, got, want)
	}
}

// The file for envoyproxy/ratelimit, before it and before Weir in its place: five logins a
// minute, however the path is written, and nobody else is limited by them.
func TestRateLimitFile(t *testing.T) {
	processes(t)
	for name, argv := range map[string][]string{"weir": {command, "ratelimit"}, "reference": {builtRateLimit(t)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limiter := startRateLimit(t, argv, "../../deploy/ratelimit")
			app := serveApplication(t)
			e := startEnvoy(t, speakGRPC(t, deployed(t, "envoy/ratelimit.yaml")), map[int]string{portApplication: app.addr, portWeirGRPC: limiter.addr})
			var statuses []int
			var last got
			var minute int64
			for minute != time.Now().Unix()/60 { // all of it within one
				minute = time.Now().Unix() / 60
				limiter.redis.Do(t, "FLUSHALL")
				statuses = nil
				for _, path := range []string{"/login", "//login", "/a/../login", "/%6cogin", "/login?a=b", "/login/"} {
					statuses = append(statuses, e.get(t, path).code)
				}
				last = e.do(t, h2, "POST", "/login", "x")
				statuses = append(statuses, last.code, e.do(t, h2, "PATCH", "/", "x").code)
			}
			want(t, "logins", statuses, times(5, 200, 429, 429, 200))
			if last.Get("X-Ratelimit-Limit") != "5, 50;w=1, 5;w=60" || last.Get("X-Envoy-Ratelimited") != "true" || last.body != "" {
				t.Errorf("a refusal: %+v", last)
			}
			want(t, "others", e.codes(t, 6, "/"), times(6, 200))
			st, trailer := callHealth(t, dial(t, e.addr()))
			if st.Code() != codes.OK || len(trailer["x-behind"]) != 1 {
				t.Errorf("gRPC: %v, trailer %v", st, trailer)
			}
			if status, back := e.webSocket(t, "/"); status != 101 || back != "hello" {
				t.Errorf("a WebSocket: %d %q", status, back)
			}
		})
	}
}

// speakGRPC lets an application have each request in the protocol in which it came: the
// files of deploy/ are for those that speak HTTP/1.1 only.
func speakGRPC(t testing.TB, conf string) string {
	t.Helper()
	const cluster = "    - name: application\n      type: STATIC\n"
	if strings.Count(conf, cluster) != 1 {
		t.Fatal("no cluster of an application")
	}
	return strings.Replace(conf, cluster, cluster+`      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          use_downstream_protocol_config: {http2_protocol_options: {}}
`, 1)
}

// grpcConn is a client's connection.
type grpcConn = *grpc.ClientConn

// callHealth makes a call of the application's gRPC through Envoy, and returns its status
// and trailer.
func callHealth(t testing.TB, conn *grpc.ClientConn, fields ...string) (*status.Status, metadata.MD) {
	t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), fields...), time.Minute)
	defer cancel()
	var trailer metadata.MD
	_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Trailer(&trailer))
	return status.Convert(err), trailer
}

// The files for ext_authz: a hundred requests a minute and client, however they come; a
// spoofed X-Forwarded-For makes nobody another client; what is refused has a wait, and a
// call of gRPC its own words.
func TestExtAuthzFiles(t *testing.T) {
	processes(t)
	for name, args := range map[string][]string{
		"ext-authz-grpc": {"--limit", "10/hour by ip", "--ext-authz"},
		"ext-authz-http": {"--limit", "10/hour by ip", "--forward-auth", "/auth", "--trusted-proxies", "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app, weir := serveApplication(t), serve(t, args...)
			e := startEnvoy(t, speakGRPC(t, deployed(t, "envoy/"+name+".yaml")), ports(app.addr, weir))
			first := e.get(t, "/")
			if first.code != 200 || first.Get("Ratelimit") == "" || first.Get("X-Ratelimit-Remaining") != "9" || first.Get("Retry-After") != "" {
				t.Errorf("the first: %+v", first)
			}
			if status, back := e.webSocket(t, "/"); status != 101 || back != "hello" {
				t.Errorf("a WebSocket: %d %q", status, back)
			}
			conn := dial(t, e.addr())
			if st, trailer := callHealth(t, conn); st.Code() != codes.OK || len(trailer["x-behind"]) != 1 {
				t.Errorf("gRPC: %v, trailer %v", st, trailer)
			}
			if strings.Contains(weir.Output(), "WARN") {
				t.Errorf("ordinary requests are warned of:\n%s", weir.Output())
			}
			var statuses []int
			for i, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "OPTIONS", "DELETE", "GET"} {
				client := []*http.Client{http.DefaultClient, h2}[i%2]
				statuses = append(statuses, e.do(t, client, method, "/", "", "X-Forwarded-For", "198.51.100.7").code)
			}
			want(t, "the rest", statuses, times(7, 200, 429))
			wantCall(t, name, conn, false)
			last := e.get(t, "/")
			if last.code != 429 || last.Get("Retry-After") == "" || last.Get("Content-Type") != "application/problem+json" || !strings.Contains(last.body, `"status":429`) {
				t.Errorf("a refusal: %+v", last)
			}
			if status, _ := e.webSocket(t, "/"); status != 429 {
				t.Errorf("a WebSocket beyond the limit: %d", status)
			}
			if strings.Contains(weir.Output(), "--trusted-proxies 127.0.0.1") {
				t.Errorf("a warning names a client as a proxy:\n%s", weir.Output())
			}
			if n := len(app.requests()); n != 10 {
				t.Errorf("the application had %d requests", n)
			}
		})
	}
}
