package main_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// On a Unix socket a proxy that is trusted names the client; without trust all
// are one. A socket that a killed process left is taken over, one in use is not.
func TestUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // t.TempDir can be longer than a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	over := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	is := func(path, from string, want int) string {
		t.Helper()
		req, err := http.NewRequest("GET", "http://localhost"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", from)
		res, err := over.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		code, body := read(t, res)
		if code != want {
			t.Errorf("%s from %s: %d %s, want %d", path, from, code, body, want)
		}
		return body
	}
	fails := func(args ...string) {
		t.Helper()
		out, err := exec.Command(binary, append([]string{"serve", "--admin", "127.0.0.1:0"}, args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "address already in use") {
			t.Errorf("on a socket in use: %v\n%s", err, out)
		}
	}
	args := []string{"--http", "unix:" + socket, "--limit", "2/hour by ip", "--upstream", up(t)}
	// Where the log is JSON nothing else is printed.
	n := &testNode{Process: servertest.Serve(t, exec.Command(binary, append([]string{"serve", "--admin", "127.0.0.1:0", "--trusted-unix"}, args...)...), "http", "admin")}
	servertest.Await(t, "weir to say where it is", func() bool {
		return strings.Contains(n.Output(), "curl -i --unix-socket "+socket+" http://localhost/\n")
	})
	is("/", "203.0.113.1", 200)
	is("/", "203.0.113.1", 200)
	is("/", "203.0.113.1", 429)
	is("/", "203.0.113.2", 200)
	// Whom the proxy names is not on this machine, whatever the address.
	if body := is("/openapi.json", "203.0.113.2, 127.0.0.1", 200); body != "" {
		t.Errorf("the API is open to whoever says loopback: %s", body)
	}

	if err := n.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(socket); err != nil {
		t.Fatalf("a killed process leaves its socket: %v", err)
	}
	n = serve(t, args...)
	is("/", "203.0.113.1", 200)
	is("/", "203.0.113.2", 200)
	is("/", "203.0.113.3", 429)
	fails(args...)
	is("/", "203.0.113.4", 429)
	if err := n.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := ended(t, n); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
	if err := os.WriteFile(socket, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(args...)
	if data, err := os.ReadFile(socket); string(data) != "precious" {
		t.Errorf("a file that is no socket is %q (%v)", data, err)
	}
}
