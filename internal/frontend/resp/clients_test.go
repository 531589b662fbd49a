package resp

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testing/servertest"
)

// Clients that nobody here wrote. go-redis is in lab/bench/, whose module has it.

const clientPassword = "correct-horse"

// run runs a program to its end and returns what it printed.
func run(t *testing.T, stdin string, cmd *exec.Cmd) string {
	t.Helper()
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}

// within returns a context that ends with the time that a client may take.
func within(t *testing.T) context.Context {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(stop)
	return ctx
}

func TestRedisCLI(t *testing.T) {
	bin := servertest.Binary(t, "redis-cli")
	b := newBench(t, Options{Password: clientPassword})
	addr := b.listen(t)
	_, port, _ := net.SplitHostPort(addr)
	cli := func(stdin string, args ...string) string {
		t.Helper()
		return run(t, stdin, exec.CommandContext(within(t), bin, append([]string{"-p", port}, args...)...))
	}
	f := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q\nwant %q", got, want)
		}
	}
	const first = "0\n16\n15\n-1\n2\n"
	f(cli("", "CL.THROTTLE", "k", "15", "30", "60"), "NOAUTH Authentication required.\n\n")
	quiet := []string{"--no-auth-warning", "-a", clientPassword}
	f(cli("", append(quiet, "CL.THROTTLE", "user123", "15", "30", "60")...), first)
	f(cli("", append(quiet, "--no-raw", "-3", "CL.THROTTLE", "three", "15", "30", "60")...), "1) (integer) 0\n2) (integer) 16\n3) (integer) 15\n4) (integer) -1\n5) (integer) 2\n")
	f(cli("", append(quiet, "--no-raw", "-3", "WEIR.CHECK", "api", "client_id", "cli")...),
		"1# \"allowed\" => (true)\n2# \"limit\" => \"per client\"\n3# \"remaining\" => (integer) 4\n4# \"retry_after_ms\" => (integer) 0\n"+
			"5# \"reset_after_ms\" => (integer) 20000\n6# \"delay_ms\" => (integer) 0\n7# \"exact\" => (false)\n8# \"degraded\" => (false)\n9# \"at_most\" => (integer) 10\n")
	f(cli("", "-u", fmt.Sprintf("redis://default:%s@127.0.0.1:%s/3", clientPassword, port), "CL.THROTTLE", "user123", "15", "30", "60"),
		"Warning: Using a password with '-a' or '-u' option on the command line interface may not be safe.\n"+first)
	// Interactive: it asks for COMMAND DOCS, and does without.
	colour := regexp.MustCompile(`\x1b\[[0-9;]*m`)
	got := cli("CL.THROTTLE typed 15 30 60\nselect 2\ncl.throttle user123 15 30 60\n", append(quiet, "--no-raw")...)
	got = colour.ReplaceAllString(got, "")
	const reply = "1) (integer) 0\n2) (integer) 16\n3) (integer) 15"
	if strings.Count(got, reply) != 2 || strings.Contains(got, "(error)") {
		t.Error(got)
	}
	// Many at once, as an import is done.
	got = cli(strings.Repeat("CL.THROTTLE import 999 1 60\r\n", 1000), append(quiet, "--pipe")...)
	if !strings.Contains(got, "errors: 0, replies: 1000") {
		t.Error(got)
	}
}

func TestRedisCLIEncrypted(t *testing.T) {
	bin := servertest.Binary(t, "redis-cli")
	cert, _, pair := servertest.Certificate(t, t.TempDir(), "127.0.0.1")
	b := newBench(t, Options{TLS: &tls.Config{Certificates: []tls.Certificate{pair}}})
	_, port, _ := net.SplitHostPort(b.listen(t))
	got := run(t, "", exec.CommandContext(within(t), bin, "--tls", "--cacert", cert, "-p", port, "CL.THROTTLE", "k", "15", "30", "60"))
	if got != "0\n16\n15\n-1\n2\n" {
		t.Error(got)
	}
}

func TestRedisBenchmark(t *testing.T) {
	bin := servertest.Binary(t, "redis-benchmark")
	b := newBench(t, Options{})
	_, port, _ := net.SplitHostPort(b.listen(t))
	for _, args := range [][]string{
		{"-P", "64", "-c", "50", "-r", "1000", "CL.THROTTLE", "key:__rand_int__", "15", "30", "60"},
		{"-P", "1", "-c", "8", "--threads", "2", "CL.THROTTLE", "one", "15", "30", "60"},
	} {
		before := b.Stats().Commands
		got := run(t, "", exec.CommandContext(within(t), bin, append([]string{"-p", port, "-n", "20000", "-q"}, args...)...))
		if strings.Contains(got, "rror") || strings.Contains(got, "WARN") || !strings.Contains(got, "requests per second") {
			t.Error(got)
		}
		if n := b.Stats().Commands - before; n < 20000 {
			t.Errorf("%d commands", n)
		}
	}
}

// nodeModules returns the folder with the packages of testdata/node, which are
// installed into the user's cache if servers are required.
func nodeModules(t *testing.T) string {
	t.Helper()
	lock, err := os.ReadFile("testdata/node/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	dir := filepath.Join(cache, "weir-tests", "node-"+hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json")); err == nil {
		return dir
	}
	if os.Getenv("WEIR_REQUIRE_SERVERS") != "1" {
		t.Skip("ioredis and node-redis are not installed: `make test` installs them")
	}
	npm := servertest.Binary(t, "npm")
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	// Installed beside and then put in place, so that an install that fails
	// leaves nothing half done.
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "installing-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	for _, name := range []string{"package.json", "package-lock.json"} {
		data, err := os.ReadFile(filepath.Join("testdata/node", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(fresh, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), 3*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = fresh
	run(t, "", cmd)
	if err := os.Rename(fresh, dir); err != nil {
		if _, there := os.Stat(dir); there != nil { // else another test was faster
			t.Fatal(err)
		}
	}
	return dir
}

func TestNodeClients(t *testing.T) {
	node, modules := servertest.Binary(t, "node"), nodeModules(t)
	b := newBench(t, Options{Password: clientPassword})
	_, port, _ := net.SplitHostPort(b.listen(t))
	text := run(t, "", exec.CommandContext(within(t), node, "testdata/node/clients.mjs", port, clientPassword, modules))
	type got struct {
		One      []int
		Pipeline []int
		Check    map[string]any
		Name     string
		Wrong    string
		TTL      int
		Multi    []any
		Ping     string
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if all["error"] != nil || len(all) != 3 {
		t.Fatal(text)
	}
	pipeline := fmt.Sprint(append(make([]int, 16), 1, 1, 1, 1))
	for name, raw := range all {
		var g got
		if err := json.Unmarshal(raw, &g); err != nil {
			t.Fatalf("%s: %v in %s", name, err, raw)
		}
		by := "by-ioredis"
		if name != "ioredis" {
			by = "by-node-redis"
		}
		if fmt.Sprint(g.One) != "[0 16 15 -1 2]" || fmt.Sprint(g.Pipeline) != pipeline || g.Name != by || g.TTL != 2 || g.Ping != "PONG" {
			t.Errorf("%s: %s", name, raw)
		}
		if g.Wrong != "Cell error: Store error: Couldn't parse as integer: x" || fmt.Sprint(g.Multi) != "[[0 16 15 -1 2] PONG]" {
			t.Errorf("%s: %s", name, raw)
		}
		if a := g.Check["allowed"]; a != true && a != 1.0 || g.Check["limit"] != "per client" || g.Check["remaining"] != 4.0 {
			t.Errorf("%s: %s", name, raw)
		}
	}
}
