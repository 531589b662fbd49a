package servertest

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A proxy is started by a configuration made for the address that it is to
// listen on. A port that was free may be taken before the proxy has it, so conf
// is called for each attempt.

// NginxServers starts nginx with the given content of its http block and returns
// the address, HOST:PORT, that conf was given.
func NginxServers(t testing.TB, conf func(addr string) string) string {
	t.Helper()
	bin := Binary(t, "nginx")
	return deployed(t, "nginx", conf, func(dir, probe, path, text string) *exec.Cmd {
		text = nginxHTTP(dir, fmt.Sprintf("server { listen %s; location = %s { access_log off; return 204; } }\n%s", probe, path, text))
		return exec.Command(bin, "-p", dir, "-c", write(t, dir, "nginx.conf", text), "-e", "stderr")
	})
}

// HAProxy starts HAProxy with the given configuration and returns the address,
// HOST:PORT, that conf was given.
func HAProxy(t testing.TB, conf func(addr string) string) string {
	t.Helper()
	bin := Binary(t, "haproxy")
	return deployed(t, "haproxy", conf, func(dir, probe, path, text string) *exec.Cmd {
		text += fmt.Sprintf("\nfrontend probe\n    mode http\n    timeout client 5s\n    bind %s\n    http-request return status 204 if { path %s }\n", probe, path)
		return exec.Command(bin, "-db", "-f", write(t, dir, "haproxy.cfg", text))
	})
}

// Caddy starts the Caddy of tools/caddy with the given Caddyfile, which must not
// have a block of global options, and returns the address, HOST:PORT, that conf
// was given. Its sites listen on loopback unless they say otherwise.
func Caddy(t testing.TB, conf func(addr string) string) string {
	t.Helper()
	bin := Built(t, "caddy")
	return deployed(t, "caddy", conf, func(dir, probe, path, text string) *exec.Cmd {
		text = fmt.Sprintf("{\n\tadmin off\n\tpersist_config off\n\tauto_https off\n\tdefault_bind 127.0.0.1\n}\n%s\nhttp://%s {\n\trespond %s 204\n}\n", text, probe, path)
		cmd := exec.Command(bin, "run", "--adapter", "caddyfile", "--config", write(t, dir, "Caddyfile", text))
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
		return cmd
	})
}

// Built returns the path of a program that `make servers` builds: "caddy", and
// "ratelimit", which is envoyproxy/ratelimit; or that `make bin/envoy` fetches. Where it is
// missing the test is skipped, or fails if servers are required.
func Built(t testing.TB, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(strings.TrimSpace(string(out))), "bin", name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	const advice = "bin/%s is not there: `make servers bin/envoy` makes it"
	if os.Getenv("WEIR_REQUIRE_SERVERS") == "1" {
		t.Fatalf(advice, name)
	}
	t.Skipf(advice, name)
	return ""
}

// deployed starts a proxy. command writes its configuration, to which it adds a
// listener at probe that answers 204 at path, and says how it is run.
func deployed(t testing.TB, name string, conf func(addr string) string, command func(dir, probe, path, text string) *exec.Cmd) string {
	t.Helper()
	const attempts = 3
	for range attempts {
		addr, probe := loopback(t), loopback(t)
		path := "/" + rand.Text()
		p := Start(t, command(t.TempDir(), probe, path, conf(addr)))
		if p.await(t, name+" on "+addr, func() bool { return answers("http://"+probe+path) && listens(addr) }) {
			return addr
		}
		t.Logf("%s did not start on %s:\n%s", name, addr, p.Output())
	}
	t.Fatalf("%s did not start in %d attempts", name, attempts)
	return ""
}

// listens reports whether somebody listens at addr: a proxy may open its
// listeners one after the other.
func listens(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// loopback returns a loopback address, HOST:PORT, that nobody listens on.
func loopback(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", FreePort(t))
}

// write writes a file and returns its path.
func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
