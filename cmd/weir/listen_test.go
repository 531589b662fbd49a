package main_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// TestPortAlone: every address to listen on may be a port alone, on the command line, in
// the environment and in a file. It is on the host of the default address.
func TestPortAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte("grpc: {listen: 0}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "serve", "--config", file, "--http", "0", "--resp", "0", "--limit", "1/year")
	// TestMain sets WEIR_GRPC, which would win over the file.
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "WEIR_GRPC=") }), "WEIR_ADMIN=0")
	n := servertest.Serve(t, cmd, "http", "grpc", "admin", "resp")
	for section, want := range map[string]string{"http": "::", "grpc": "::", "admin": "127.0.0.1", "resp": "127.0.0.1"} {
		if host, _, err := net.SplitHostPort(n.Listening(section)); err != nil || host != want && want != "::" || want == "::" && !net.ParseIP(host).IsUnspecified() {
			t.Errorf("%s is on %s, want %s (%v)", section, n.Listening(section), want, err)
		}
	}
}

// TestRedisProtocolAlone: a node without an HTTP address opens none, and says so of
// nothing else.
func TestRedisProtocolAlone(t *testing.T) {
	servertest.Binary(t, "redis-cli")
	n := servertest.Serve(t, exec.Command(binary, "serve", "--http", "", "--grpc", "", "--admin", "", "--resp", "0"), "resp")
	servertest.Await(t, "the banner", func() bool { return strings.Contains(n.Output(), "CL.THROTTLE") })
	if n.Listening("http") != "" || strings.Contains(n.Output(), "API") {
		t.Errorf("an HTTP port in\n%s", n.Output())
	}
	_, rest, _ := strings.Cut(n.Output(), "redis-cli ")
	command, _, _ := strings.Cut(rest, "\n")
	if out, err := exec.Command("sh", "-c", "redis-cli "+command).CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "0\n16\n") {
		t.Errorf("redis-cli %s: %s %v", command, out, err)
	}
}
