package xds_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestBehindEnvoyGateway starts the command as Envoy Gateway does: by the name
// ratelimit, with the environment that it sets and certificates where it mounts
// them. Ports are other ones, so that tests can run side by side, and there is
// no Redis.
//
// Source: Envoy Gateway v1.9, internal/infrastructure/kubernetes/ratelimit.
func TestBehindEnvoyGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command")
	}
	t.Parallel()
	command, clean, err := servertest.Command()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(clean)
	dir := t.TempDir()
	path := filepath.Join(dir, "ratelimit")
	if err := os.Symlink(command, path); err != nil {
		t.Fatal(err)
	}
	// One certificate for both ends, which is its own authority.
	cert, key, pair := servertest.Certificate(t, dir, "envoy-rate-limit")
	m := startManagement(t, "", mutual(t, pair, cert))
	m.node = "envoy-ratelimit"
	m.Set("1", "default/eg/http")
	mapping := filepath.Join(dir, "conf.yaml")
	if err := os.WriteFile(mapping, []byte(mapper), 0o600); err != nil {
		t.Fatal(err)
	}
	port := func() string { return fmt.Sprint(servertest.FreePort(t)) }
	web, rpc, series := port(), port(), port()
	cmd := exec.Command(path)
	cmd.Env = []string{
		"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_IGNOREDOTFILES=true", "RUNTIME_WATCH_ROOT=false",
		"LOG_LEVEL=info", "USE_STATSD=false", "CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=" + m.Addr,
		"CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit", "GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=" + cert,
		"GRPC_SERVER_TLS_KEY=" + key, "GRPC_SERVER_TLS_CA_CERT=" + cert, "CONFIG_GRPC_XDS_SERVER_USE_TLS=true",
		"CONFIG_GRPC_XDS_CLIENT_TLS_CERT=" + cert, "CONFIG_GRPC_XDS_CLIENT_TLS_KEY=" + key,
		"CONFIG_GRPC_XDS_SERVER_TLS_CACERT=" + cert, "FORCE_START_WITHOUT_INITIAL_CONFIG=true", "REDIS_SOCKET_TYPE=tcp",
		"USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:" + series, "PROMETHEUS_MAPPER_YAML=" + mapping,

		"HOST=127.0.0.1", "PORT=" + web, "GRPC_HOST=127.0.0.1", "GRPC_PORT=" + rpc, "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + port(),
	}
	servertest.Start(t, cmd)
	m.AwaitAck("1")
	get := func(addr string) string {
		t.Helper()
		res, err := http.Get("http://127.0.0.1:" + addr)
		if err != nil {
			return err.Error()
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(res.StatusCode, " ", string(b))
	}
	servertest.Await(t, "the probe of Kubernetes", func() bool { return get(web+"/healthcheck") == "200 OK" })

	pool := x509.NewCertPool()
	pem, err := os.ReadFile(cert)
	if err != nil || !pool.AppendCertsFromPEM(pem) {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("127.0.0.1:"+rpc, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: pool, Certificates: []tls.Certificate{pair},
	})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ask := func(domain string) rlsv3.RateLimitResponse_Code {
		t.Helper()
		res, err := rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rlsv3.RateLimitRequest{
			Domain: domain, Descriptors: []*commonv3.RateLimitDescriptor{{
				Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "user", Value: "ann"}},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return res.GetOverallCode()
	}
	over := 0
	for range 10 {
		if ask("default/eg/http") == rlsv3.RateLimitResponse_OVER_LIMIT {
			over++
		}
	}
	if over != 3 && over != 0 { // a new minute may have begun
		t.Errorf("%d of 10 were over a limit of 7", over)
	}
	// A set that is bad leaves the rules, and the management server knows why.
	m.Set("2", "default/eg/http", "default/eg/http")
	if why := m.AwaitNack().GetErrorDetail().GetMessage(); !strings.Contains(why, "duplicate domain 'default/eg/http'") {
		t.Errorf("refused for %q", why)
	}
	m.Set("3", "default/other/http")
	m.AwaitAck("3")
	if got := ask("default/eg/http"); got != rlsv3.RateLimitResponse_OK {
		t.Errorf("a domain that is gone: %v", got)
	}
	servertest.Await(t, "the statistics", func() bool {
		return strings.Contains(get(series+"/metrics"), `eg_total_hits{domain="default/eg/http"`)
	})
}

// mapper is in the form in which Envoy Gateway gives a mapping of statistics.
const mapper = `mappings:
  - match: "ratelimit.service.rate_limit.*.*.total_hits"
    name: "eg_total_hits"
    timer_type: "histogram"
    labels:
      domain: "$1"
      key1: "$2"
`
