package ratelimit_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// program is the command under the name that Envoy's service has.
var program string

func TestMain(m *testing.M) {
	bin, clean, err := servertest.Command()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program = filepath.Join(filepath.Dir(bin), "ratelimit")
	code := 1
	if err := os.Symlink(bin, program); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	clean()
	os.Exit(code)
}

// node is a running service.
type node struct {
	t                       *testing.T
	proc                    *servertest.Process
	http, grpc, debug, prom string // HOST:PORT
}

const shop = `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 3}
`

// rulesIn writes files, by their names, below a new directory.
func rulesIn(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	write(t, root, files)
	return root
}

func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// command returns the program with that environment and no other, and ports.
func command(t *testing.T, bin string, env ...string) (*exec.Cmd, *node) {
	t.Helper()
	n := &node{t: t}
	cmd := exec.Command(bin)
	cmd.Env = []string{"PATH=/bin"}
	for _, l := range []struct {
		at         *string
		host, port string
	}{{&n.http, "HOST", "PORT"}, {&n.grpc, "GRPC_HOST", "GRPC_PORT"}, {&n.debug, "DEBUG_HOST", "DEBUG_PORT"}} {
		port := strconv.Itoa(servertest.FreePort(t))
		*l.at = "127.0.0.1:" + port
		cmd.Env = append(cmd.Env, l.host+"=127.0.0.1", l.port+"="+port)
	}
	n.prom = fmt.Sprint("127.0.0.1:", servertest.FreePort(t))
	cmd.Env = append(cmd.Env, "PROMETHEUS_ADDR="+n.prom, "USE_STATSD=false", "USE_PROMETHEUS=true", "STATS_FLUSH_INTERVAL=50ms")
	cmd.Env = append(cmd.Env, env...)
	return cmd, n
}

// start runs the program until it listens.
func start(t *testing.T, bin string, env ...string) *node {
	t.Helper()
	n := launch(t, bin, env...)
	doors := []string{n.http, n.grpc, n.debug}
	if strings.Contains(strings.Join(env, " "), "GRPC_UDS=") {
		doors = []string{n.http, n.debug}
	}
	servertest.Await(t, "the service to listen", func() bool {
		for _, addr := range doors {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				if _, err := n.proc.Wait(ended); err == nil {
					t.Fatalf("it has ended:\n%s", n.proc.Output())
				}
				return false
			}
			conn.Close()
		}
		return true
	})
	return n
}

// ended is a context that waits for nothing.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func launch(t *testing.T, bin string, env ...string) *node {
	t.Helper()
	cmd, n := command(t, bin, env...)
	n.proc = servertest.Start(t, cmd)
	return n
}

// get returns status and body.
func get(t *testing.T, addr, path string) (int, string) {
	t.Helper()
	res, err := http.Get("http://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, servertest.Body(t, res)
}

// post sends JSON to /json.
func (n *node) post(body string) (int, string) {
	n.t.Helper()
	res, err := http.Post("http://"+n.http+"/json", "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		n.t.Fatal(err)
	}
	return res.StatusCode, servertest.Body(n.t, res)
}

// dial connects to the gRPC port.
func (n *node) dial(opts ...grpc.DialOption) *grpc.ClientConn {
	n.t.Helper()
	if len(opts) == 0 {
		opts = append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	conn, err := grpc.NewClient("passthrough:///"+n.grpc, opts...)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { conn.Close() })
	return conn
}

// ask sends one descriptor to the shop: k=v pairs.
func ask(t *testing.T, conn *grpc.ClientConn, domain string, pairs ...string) (*rlsv3.RateLimitResponse, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d := &commonv3.RateLimitDescriptor{}
	for _, p := range pairs {
		k, v, _ := strings.Cut(p, "=")
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: k, Value: v})
	}
	return rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, &rlsv3.RateLimitRequest{
		Domain: domain, Descriptors: []*commonv3.RateLimitDescriptor{d},
	})
}

// config waits until /rlconfig is what it should be.
func (n *node) config(want string) {
	n.t.Helper()
	got := ""
	servertest.Await(n.t, "the rules "+want, func() bool {
		_, got = get(n.t, n.debug, "/rlconfig")
		return strings.Contains(got, want)
	})
}

// series waits until the Prometheus series has a value.
func (n *node) series(name string, want float64) {
	n.t.Helper()
	servertest.Await(n.t, fmt.Sprint(name, " to be ", want), func() bool {
		v, ok := n.value(name)
		return ok && v == want
	})
}

// value returns what a Prometheus series has.
func (n *node) value(name string) (float64, bool) {
	_, all := get(n.t, n.prom, "/metrics")
	return servertest.Sample(n.t, all, name)
}
