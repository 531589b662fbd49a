package main_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// envoyPolicy is the section of docs/how-to/coming-from.md whose file both programs read.
var envoyPolicy = regexp.MustCompile("(?s)\n## envoyproxy/ratelimit\n\n```yaml\n(.*?)```")

// The file of envoyproxy/ratelimit lets it, weir ratelimit and weir serve allow as many.
func TestComingFromEnvoyproxyRatelimit(t *testing.T) {
	page, err := os.ReadFile(comingFrom)
	if err != nil {
		t.Fatal(err)
	}
	policy := envoyPolicy.FindSubmatch(page)
	if policy == nil {
		t.Fatalf("%s has no policy of envoyproxy/ratelimit", comingFrom)
	}
	const asked = 30
	there := asksJSON(t, asked, exec.Command(servertest.Built(t, "ratelimit")), string(policy[1]))
	drop := asksJSON(t, asked, exec.Command(binary, "ratelimit"), string(policy[1]))
	upstream := newHolder(t, asked)
	n := serve(t, "--rules", servertest.File(t, "rules.yaml", string(policy[1])), "--upstream", upstream.server.URL)
	here := upstream.burst(t, n.http)
	if there != drop || int64(there) != here || there == 0 || there == asked {
		t.Errorf("of %d envoyproxy/ratelimit allows %d, weir ratelimit %d, weir serve %d", asked, there, drop, here)
	}
}

// asksJSON starts a rate limit service with a policy and a Redis of its own, asks it for
// one address a number of times, and returns how many are allowed.
func asksJSON(t *testing.T, asked int, service *exec.Cmd, policy string) (allowed int) {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "config", "api.yaml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	port := func() string { return fmt.Sprint(servertest.FreePort(t)) }
	addr := port()
	service.Env = append(os.Environ(), "RUNTIME_ROOT="+root, "RUNTIME_SUBDIRECTORY=", "RUNTIME_WATCH_ROOT=false", "USE_STATSD=false",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+servertest.Redis(t).Addr,
		"HOST=127.0.0.1", "PORT="+addr, "GRPC_HOST=127.0.0.1", "GRPC_PORT="+port(), "DEBUG_HOST=127.0.0.1", "DEBUG_PORT="+port())
	servertest.Start(t, service)
	const body = `{"domain":"api","descriptors":[{"entries":[{"key":"remote_address","value":"192.0.2.1"}]}]}`
	servertest.Await(t, service.Path+" to be healthy", func() bool {
		res, err := client.Get("http://127.0.0.1:" + addr + "/healthcheck")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	for range asked {
		res, err := client.Post("http://127.0.0.1:"+addr+"/json", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(res.Body)
		if res.Body.Close(); err != nil {
			t.Fatal(err)
		}
		switch res.StatusCode {
		case http.StatusOK:
			allowed++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("%s answers %s %s", service.Path, res.Status, said)
		}
	}
	return allowed
}
