package ratelimit

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/compat/envoy/settings"
)

func TestListenersApart(t *testing.T) {
	for _, tt := range []struct{ env, want string }{
		{"", ""},
		{"PORT=8081", "HOST:PORT and GRPC_HOST:GRPC_PORT are both 0.0.0.0:8081"},
		{"PORT=6070", "HOST:PORT and DEBUG_HOST:DEBUG_PORT"},
		{"DEBUG_PORT=8081", "DEBUG_HOST:DEBUG_PORT and GRPC_HOST:GRPC_PORT"},
		{"PORT=8081 GRPC_HOST=::", "HOST:PORT and GRPC_HOST:GRPC_PORT"},
		{"PORT=8081 HOST=", "HOST:PORT and GRPC_HOST:GRPC_PORT"},
		{"PORT=8081 HOST=127.0.0.1 GRPC_HOST=localhost", "HOST:PORT and GRPC_HOST:GRPC_PORT"},
		{"PORT=8081 HOST=127.0.0.1 GRPC_HOST=127.0.0.2", ""},
		// The kernel prefers the one that says more.
		{"PORT=8081 HOST=127.0.0.1", ""},
		{"PORT=8081 GRPC_UDS=/tmp/s", ""},
		{"PORT=0 GRPC_PORT=0 DEBUG_PORT=0", ""},
		{"PORT=70000 GRPC_PORT=70000", ""}, // told when it listens
		{"PORT=9090", ""},
		{"PORT=9090 USE_STATSD=false USE_PROMETHEUS=true", "HOST:PORT and PROMETHEUS_ADDR are both :9090"},
		{"PORT=9090 USE_STATSD=false USE_PROMETHEUS=true PROMETHEUS_ADDR=", "HOST:PORT and PROMETHEUS_ADDR"},
		{"PORT=9090 USE_STATSD=false USE_PROMETHEUS=true DISABLE_STATS=true", ""},
		{"USE_STATSD=false USE_PROMETHEUS=true PROMETHEUS_ADDR=:8081", "GRPC_HOST:GRPC_PORT and PROMETHEUS_ADDR"},
	} {
		env := map[string]string{}
		for _, kv := range strings.Fields(tt.env) {
			k, v, _ := strings.Cut(kv, "=")
			env[k] = v
		}
		s, err := settings.Parse(func(name string) (string, bool) { v, ok := env[name]; return v, ok })
		if err != nil {
			t.Fatal(tt.env, err)
		}
		got := ""
		if err := checkListeners(s); err != nil {
			got = err.Error()
		}
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.env, got, tt.want)
		}
	}
}
