package ratelimit_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Whatever one of the two refuses to start with, so does the other.
func TestReferenceRefusals(t *testing.T) {
	other := reference(t)
	redis := servertest.Redis(t)
	dir := t.TempDir()
	cert, key, _ := servertest.Certificate(t, dir, "x")
	elsewhere, _, _ := servertest.Certificate(t, t.TempDir(), "y")
	write(t, dir, map[string]string{"empty.pem": ""})
	tls := []string{"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=" + cert, "GRPC_SERVER_TLS_KEY=" + key}
	with := func(env []string, more ...string) []string { return append(env[:len(env):len(env)], more...) }
	for _, env := range [][]string{
		{},
		{"PORT="}, {"PORT=0x50z"}, {"GRPC_MAX_CONNECTION_AGE=1"}, {"GRPC_MAX_CONNECTION_AGE=0"}, {"GRPC_MAX_CONNECTION_AGE_GRACE=-1s"},
		{"USE_STATSD=yes"}, {"USE_STATSD=T"}, {"USE_DOG_STATSD=true"}, {"USE_STATSD=true"}, {"USE_STATSD=true", "DISABLE_STATS=true"},
		{"EXTRA_TAGS=a"}, {"EXTRA_TAGS=a:b,"}, {"EXTRA_TAGS=a:b:c"}, {"EXTRA_TAGS= "}, {"EXTRA_TAGS=:"},
		{"NEAR_LIMIT_RATIO=x"}, {"NEAR_LIMIT_RATIO=-1"}, {"EXPIRATION_JITTER_MAX_SECONDS=0"}, {"EXPIRATION_JITTER_MAX_SECONDS=1.5"},
		{"LOG_LEVEL=loud"}, {"LOG_LEVEL=FATAL"}, {"LOG_LEVEL="}, {"LOG_FORMAT=xml"},
		{"CONFIG_TYPE=file"}, {"CONFIG_TYPE="}, {"BACKEND_TYPE=Redis"}, {"BACKEND_TYPE="}, {"BACKEND_TYPE=memcached"},
		{"STATS_FLUSH_INTERVAL=0s"}, {"STATS_FLUSH_INTERVAL=-1s"}, {"STATS_FLUSH_INTERVAL="},
		{"LOCAL_CACHE_SIZE_IN_BYTES=1"}, {"LOCAL_CACHE_SIZE_IN_BYTES=1e6"},
		{"REDIS_TYPE=ring"}, {"REDIS_TYPE=single"}, {"REDIS_TYPE="}, {"REDIS_TYPE=sentinel"},
		{"REDIS_POOL_ON_EMPTY_BEHAVIOR=create"}, {"REDIS_POOL_ON_EMPTY_BEHAVIOR=ERROR"}, {"REDIS_POOL_ON_EMPTY_BEHAVIOR=other"}, {"REDIS_POOL_ON_EMPTY_BEHAVIOR="},
		{"REDIS_CLUSTER_PIPELINE_PARALLELISM=-1"}, {"REDIS_TLS=true", "REDIS_TIMEOUT=1s", "REDIS_STARTUP_MAX_ELAPSED_TIME=10ms"}, {"REDIS_PERSECOND_TLS=true", "REDIS_TLS_CACERT=/none"}, {"REDIS_TLS=true", "REDIS_TLS_CACERT=/none"}, {"REDIS_TLS_CACERT=/none"},
		{"REDIS_PERSECOND=true", "REDIS_PERSECOND_SOCKET_TYPE=tcp", "REDIS_PERSECOND_URL=" + redis.Addr, "REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR=ERROR"},
		{"REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR=ERROR"}, {"REDIS_AUTH=wrong", "REDIS_STARTUP_MAX_ELAPSED_TIME=10ms"},
		{"MEMCACHE_TLS=true", "MEMCACHE_TLS_CACERT=/none"}, {"MEMCACHE_TLS_CACERT=/none"},
		{"BACKEND_TYPE=memcache", "MEMCACHE_HOST_PORT=127.0.0.1:1", "MEMCACHE_SRV=_a._b.c"}, {"BACKEND_TYPE=memcache", "MEMCACHE_SRV=a"},
		tls, with(tls, "GRPC_CLIENT_TLS_CACERT="+cert, "GRPC_CLIENT_TLS_SAN=x"), with(tls, "GRPC_CLIENT_TLS_CACERT=/none"), with(tls, "GRPC_CLIENT_TLS_CACERT="+dir+"/empty.pem"),
		with(tls, "GRPC_SERVER_TLS_KEY="+elsewhere), {"GRPC_SERVER_USE_TLS=true"}, {"GRPC_SERVER_TLS_CERT=/none"},
		with(tls, "GRPC_CLIENT_TLS_SAN=x"),
		{"TRACING_ENABLED=true", "TRACING_EXPORTER_PROTOCOL=udp"}, {"TRACING_SAMPLING_RATE=x"}, {"TRACING_EXPORTER_PROTOCOL=udp"},
		{"RUNTIME_ROOT=/no/such/directory"}, {"RUNTIME_APPDIRECTORY="}, {"RUNTIME_APPDIRECTORY=missing"}, {"RUNTIME_WATCH_ROOT=true"},
		{"RUNTIME_WATCH_ROOT=true", "RUNTIME_SUBDIRECTORY=x"}, {"RUNTIME_WATCH_ROOT=true", "RUNTIME_SUBDIRECTORY=x", "RUNTIME_ROOT=/no/such/dir/current"},
		{"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES="}, {"XDS_CLIENT_BACKOFF_RANDOM_FACTOR=x"}, {"CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT=/none"},
		{"USE_DOG_STATSD=true", "USE_PROMETHEUS=false", "USE_DOG_STATSD_MOGRIFIERS=A"},
		{"USE_DOG_STATSD=true", "USE_PROMETHEUS=false", "USE_DOG_STATSD_MOGRIFIERS=A", "DOG_STATSD_MOGRIFIER_A_PATTERN=(", "DOG_STATSD_MOGRIFIER_A_NAME=x"},
		{"USE_DOG_STATSD=true", "USE_PROMETHEUS=false", "USE_DOG_STATSD_MOGRIFIERS=A", "DOG_STATSD_MOGRIFIER_A_PATTERN=x", "DOG_STATSD_MOGRIFIER_A_NAME=x", "DOG_STATSD_MOGRIFIER_A_TAGS=a:"},
		{"USE_DOG_STATSD_MOGRIFIERS=A"}, {"STATSD_PORT=x"}, {"STATSD_PORT="}, {"GOSTATS_FLUSH_INTERVAL_SECONDS=x", "USE_STATSD=true", "USE_PROMETHEUS=false"},
		{"PROMETHEUS_MAPPER_YAML=/none"}, {"PROMETHEUS_PATH="}, {"PROMETHEUS_ADDR="}, {"HOST=256.1.1.1"}, {"GRPC_HOST=256.1.1.1"}, {"DEBUG_HOST=256.1.1.1"},
		{"PORT=70000"}, {"GRPC_UDS=/no/such/dir/s"}, {"CONFIG_GRPC_XDS_NODE_METADATA=x"}, {"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=x"},
	} {
		name := strings.Join(env, " ")
		if name == "" {
			name = "nothing"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var starts [2]bool
			var said [2]string
			for i, bin := range []string{program, other} {
				root := rulesIn(t, map[string]string{"config/shop.yaml": shop})
				all := append(append(inPlace(root), "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+redis.Addr), env...)
				n := launch(t, bin, all...)
				// The last of several settings of one variable counts.
				for _, e := range env {
					if port, ok := strings.CutPrefix(e, "PORT="); ok {
						n.http = "127.0.0.1:" + port
					}
				}
				servertest.Await(t, "it to start or to end", func() bool {
					if _, err := n.proc.Wait(ended); err == nil {
						return true
					}
					res, err := http.Get("http://" + n.http + "/healthcheck")
					if err != nil {
						return false
					}
					res.Body.Close()
					// What goes wrong in the background there does so soon.
					starts[i] = true
					return true
				})
				if starts[i] {
					settled(t, n, &starts[i])
				}
				said[i] = n.proc.Output()
			}
			if starts[0] != starts[1] {
				t.Errorf("starts here: %v, there: %v\nhere it says: %s\nthere: %s", starts[0], starts[1], said[0], said[1])
			}
		})
	}
}

// settled looks whether a service that has begun goes on for a moment.
func settled(t *testing.T, n *node, goesOn *bool) {
	t.Helper()
	looks := 0
	servertest.Await(t, "a moment", func() bool {
		if _, err := n.proc.Wait(ended); err == nil {
			*goesOn = false
			return true
		}
		looks++
		return looks > 40
	})
}
